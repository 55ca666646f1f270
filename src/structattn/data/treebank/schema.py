"""The columns of the Parquet treebank, their types, and the version that a file was written with.

Nothing is encoded beyond plain Parquet, so that any Parquet reader understands the columns: words are
``text[start:end]``, heads are CoNLL ids.
"""

import functools
from collections.abc import Collection
from typing import Any

import numpy as np

from structattn.errors import ParseError, require
from structattn.files.text import MAX_BRACKETS, MAX_LINE, MAX_WORDS

VERSION = "1"
"""The version of the schema; a file with another one is refused."""
VERSION_KEY = "structattn_treebank"
"""The key of the version in the metadata of a file."""

# Columns of strings with few different values: labels, tags and the like are read as numbers and a list of names.
NAMES = ("labels", "tags", "lemmas", "xpos", "features", "enhanced", "misc", "phrase_tags")


@functools.cache
def schema() -> Any:
    """The columns, as a ``pyarrow.Schema``.

    ==================  =====================================================================================
    ``id``              of the example
    ``part``            0, or 1 for the second sentence of a pair, whose row follows that of the first
    ``text``            raw text, if it contains the words in order; otherwise the words joined by spaces
    ``text_hash``       first 16 bytes of the SHA-256 of ``text``
    ``starts, ends``    word *i* is ``text[starts[i]:ends[i]]``, in characters
    ``heads, labels``   the dependency tree: CoNLL ids (0 is the root) and relations; null without a tree
    ``tags``            parts of speech
    ``lemmas, xpos, features, enhanced, misc``  columns 3, 5, 6, 9 and 10 of CoNLL-U; null if all are ``_``
    ``lines``           multiword tokens and empty nodes: whole lines, and their positions among all lines
    ``spans``           the phrase tree: label, first word, word after the last; null without a tree
    ``phrase_tags``     tags of the phrase tree, if they differ from ``tags``; ``phrase_words`` likewise
    ``relations``       named matrices between words, row after row
    ``metadata``        keys and values; a value is null if it repeats a column
    ``comments``        the comments of CoNLL-U, if ``metadata`` cannot restore them
    ``answer, score``   the label of the example, a class or a number
    ``weight``          factor that multiplies its loss
    ``parser, parser_version``  the parser that predicted the tree
    ==================  =====================================================================================

    Raises:
        MissingExtra: if pyarrow is not installed.
    """
    arrow = require("pyarrow", "scale")
    text, number = arrow.string(), arrow.int32()
    texts, numbers = arrow.list_(text), arrow.list_(number)
    columns = {
        "id": text,
        "part": arrow.uint8(),
        "text": text,
        "text_hash": arrow.binary(),
        "starts": numbers,
        "ends": numbers,
        "heads": numbers,
        "labels": texts,
        "tags": texts,
        "lemmas": texts,
        "xpos": texts,
        "features": texts,
        "enhanced": texts,
        "misc": texts,
        "lines": arrow.list_(arrow.struct({"row": number, "line": text})),
        "spans": arrow.list_(arrow.struct({"label": text, "start": number, "end": number})),
        "phrase_tags": texts,
        "phrase_words": texts,
        "relations": arrow.list_(arrow.struct({"name": text, "values": arrow.list_(arrow.float64())})),
        "metadata": arrow.list_(arrow.struct({"key": text, "value": text})),
        "comments": texts,
        "answer": text,
        "score": arrow.float64(),
        "weight": arrow.float64(),
        "parser": text,
        "parser_version": text,
    }
    return arrow.schema(list(columns.items()), metadata={VERSION_KEY: VERSION})


def check_schema(found: Any, file: object, columns: Collection[str] | None = None) -> None:
    """Refuse a file that is not a treebank, or one of another version.

    Args:
        found: its ``pyarrow.Schema``.
        file: for errors.
        columns: the columns to read; all if ``None``.

    Raises:
        ParseError: if the version is another, or a column is missing or of another type.
    """
    version = (found.metadata or {}).get(VERSION_KEY.encode())
    if version is None:
        names = ", ".join(found.names[:8])
        raise ParseError(f"expected a treebank (structattn convert makes one), got a table of {names}", file=file)
    if version.decode("utf-8", "replace") != VERSION:
        came = version.decode("utf-8", "replace")[:20]
        raise ParseError(f"expected version {VERSION} of the treebank's columns, got version {came}", file=file)
    wanted = schema()
    for name in wanted.names if columns is None else columns:
        if name not in found.names:
            raise ParseError(f"expected the column {name!r}, it is missing", file=file)
        right, came = _kind(wanted.field(name).type), _kind(found.field(name).type)
        if came != right:
            raise ParseError(f"expected the column {name!r} to contain {right}, it contains {came}", file=file)


def in_own_types(batch: Any) -> Any:
    """A ``pyarrow.RecordBatch`` with columns of the schema's own types; files may encode text in several ways.

    Raises:
        pyarrow.ArrowInvalid: for a number that is too large.
    """
    wanted = schema()
    columns = [
        column.cast(wanted.field(name).type) if name in wanted.names else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return require("pyarrow", "scale").RecordBatch.from_arrays(columns, names=batch.schema.names)


def _kind(type: Any) -> str:
    """The kind of values of an Arrow type, whatever its width and its encoding in memory."""
    types = require("pyarrow.types", "scale")
    if types.is_dictionary(type):
        return _kind(type.value_type)
    if types.is_list(type) or types.is_large_list(type):
        return f"lists of {_kind(type.value_type)}"
    if types.is_struct(type):
        return "(" + ", ".join(f"{field.name}: {_kind(field.type)}" for field in type) + ")"
    kinds = {"text": types.is_string, "bytes": types.is_binary, "whole numbers": types.is_integer}
    kinds |= {"numbers": types.is_floating, "text ": types.is_large_string, "bytes ": types.is_large_binary}
    return next((name.strip() for name, holds in kinds.items() if holds(type)), str(type))


def check_limits(batch: Any, file: object, *, first: int = 0) -> None:
    """Refuse rows beyond the limits of the text formats: of a line, and of the words and phrases of a tree.

    Args:
        batch: a ``pyarrow.RecordBatch`` with some of the treebank's columns, in the types of its schema.
        file: for errors.
        first: how many rows of the file come before it.

    Raises:
        ParseError: with the row, from 1.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, column in columns.items():
        if name != "relations":  # their size is that of the sentence squared, which a sentence checks
            _check(_sizes(column), MAX_LINE, f"bytes or elements under {name!r}", file, first)
    if "spans" in columns:
        _check(_counts(columns["spans"]), MAX_BRACKETS, "phrases of a tree", file, first)
    trees = [columns[name].is_valid().to_numpy(zero_copy_only=False) for name in ("heads", "spans") if name in columns]
    if trees and "starts" in columns:
        _check(_counts(columns["starts"]) * np.any(trees, axis=0), MAX_WORDS, "words of a tree", file, first)


def _check(sizes: np.ndarray, most: int, what: str, file: object, first: int) -> None:
    if len(sizes) and sizes.max() > most:
        row = int(np.argmax(sizes > most))
        raise ParseError(f"row {first + row + 1}: expected at most {most:,} {what}, got {sizes[row]:,}", file=file)


def _counts(column: Any) -> np.ndarray:
    """The number of elements in each row of a column of lists."""
    counts: np.ndarray = np.diff(column.offsets.to_numpy())
    return counts


def _sizes(column: Any) -> np.ndarray:
    """For each row, the number of bytes of its texts and of elements of its lists, at any depth."""
    types, compute = require("pyarrow.types", "scale"), require("pyarrow.compute", "scale")
    sizes: np.ndarray = np.zeros(len(column), dtype=np.int64)
    if types.is_string(column.type) or types.is_binary(column.type):
        sizes += compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    elif types.is_struct(column.type):
        for field in column.flatten():
            sizes += _sizes(field)
    elif types.is_list(column.type):
        offsets = column.offsets.to_numpy()
        inner = _sizes(column.values.slice(offsets[0], offsets[-1] - offsets[0]))
        before = np.concatenate([[0], np.cumsum(inner + 1)])
        sizes += np.diff(before[offsets - offsets[0]])
    return sizes
