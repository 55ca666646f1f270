"""Files become examples: one function, ``read_examples``, and one small reader per family of formats behind it."""

from structattn.data.readers.formats import (
    FORMATS,
    Phrases,
    matching_files,
    read_examples,
    recognise_format,
    recognised_by,
)

__all__ = ["FORMATS", "Phrases", "matching_files", "read_examples", "recognise_format", "recognised_by"]
