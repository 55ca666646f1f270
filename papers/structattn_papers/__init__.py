"""The experiments of the papers on structattn: bAbI, SQuAD, formulas, their records, tables and figures.

It adds tasks, a format, metrics and commands to structattn as any installed package can: by entry points, which its
``pyproject.toml`` lists.
"""
