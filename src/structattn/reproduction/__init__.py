"""Reproduction: rows of published tables as runs, their records, and the pages that are generated from these."""

from structattn.reproduction.golden import golden_output
from structattn.reproduction.pages import generated_pages
from structattn.reproduction.queue import Queue, parse_places
from structattn.reproduction.records import Record, Recorded, read_records, recorded
from structattn.reproduction.rows import Row, all_rows, read_rows, selected
from structattn.reproduction.tables import Evidence

__all__ = [
    "Evidence",
    "Queue",
    "Record",
    "Recorded",
    "Row",
    "all_rows",
    "generated_pages",
    "golden_output",
    "parse_places",
    "read_records",
    "read_rows",
    "recorded",
    "selected",
]
