"""Figures of the papers, from runs: ``python -m structattn_papers.figures.NAME --help``."""
