"""The columnar treebank: sentences and their structures as Parquet, one row per sentence."""
