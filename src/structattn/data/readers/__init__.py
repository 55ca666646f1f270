"""Files become examples: one function, ``read_examples``, and one small reader per family of formats behind it."""

from structattn.data.readers.formats import FORMATS, read_examples, recognised_by

__all__ = ["FORMATS", "read_examples", "recognised_by"]
