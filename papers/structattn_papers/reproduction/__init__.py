"""Reproduction: rows of published tables as runs, their records, and the pages that are generated from these."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn_papers.reproduction.golden import golden_output
    from structattn_papers.reproduction.pages import generated_pages
    from structattn_papers.reproduction.queue import Queue
    from structattn_papers.reproduction.reading import all_rows, parse_places, read_rows, selected
    from structattn_papers.reproduction.records import Record, Recorded, read_records, recorded
    from structattn_papers.reproduction.rows import Row
    from structattn_papers.reproduction.tables import Evidence

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

load_lazily(__name__)
