"""How fast and how large things are: ``python -m benchmarks`` runs all of it, each module runs alone."""
