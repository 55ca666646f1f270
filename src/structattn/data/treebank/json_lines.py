"""The rows of the treebank as JSON lines: the same columns, without unknown values; see ``readers.rows``."""

import json
import os
from collections.abc import Iterable

from structattn.data.example import Example
from structattn.data.treebank.rows import rows_of
from structattn.files.text import replace_text


def write_rows(path: str | os.PathLike[str], examples: Iterable[Example]) -> int:
    """Write examples as JSON lines, one per sentence; the file appears whole or not at all.

    Args:
        path: the file; compressed when the name ends in ``.gz``.
        examples: the examples.

    Returns:
        The number of sentences.

    Example:
        >>> import pathlib, tempfile
        >>> from structattn.data.readers.rows import read_rows
        >>> from structattn.syntax import Sentence
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
        >>> example = Example((Sentence(["a", "dog"]), Sentence(["an", "animal"])), "entailment", id="1")
        >>> write_rows(path, [example]), list(read_rows(path)) == [example]
        (2, True)
    """
    count = 0
    with replace_text(path) as stream:
        for row in (row for example in examples for row in rows_of(example)):
            known = {name: value for name, value in row.items() if value is not None}
            stream.write(json.dumps({**known, "text_hash": row["text_hash"].hex()}, ensure_ascii=False) + "\n")
            count += 1
    return count
