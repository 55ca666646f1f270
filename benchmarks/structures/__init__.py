"""How fast and how large the structured distributions are, next to other libraries, in one run.

Run it with ``python -m benchmarks.structures`` from the root of the repository.
"""
