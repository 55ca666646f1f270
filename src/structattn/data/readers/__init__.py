"""Files become examples: one function, ``read_examples``, and one small reader per family of formats behind it."""

from structattn.data.readers.reading import FORMATS, read_examples, recognise_format

__all__ = ["FORMATS", "read_examples", "recognise_format"]
