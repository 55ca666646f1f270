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
def make_schema() -> Any:
    """The columns, as a ``pyarrow.Schema``; ``docs/formats.md`` says what each contains."""
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


def check_schema(actual: Any, file: object, columns: Collection[str] | None = None) -> None:
    """Refuse a file that is not a treebank, or of another version, or that lacks one of these columns."""
    version = (actual.metadata or {}).get(VERSION_KEY.encode())
    if version is None:
        names = ", ".join(actual.names[:8])
        raise ParseError(f"expected a treebank (structattn convert makes one), got a table of {names}", file=file)
    if version.decode("utf-8", "replace") != VERSION:
        came = version.decode("utf-8", "replace")[:20]
        raise ParseError(f"expected version {VERSION} of the treebank's columns, got version {came}", file=file)
    expected = make_schema()
    for name in expected.names if columns is None else columns:
        if name not in actual.names:
            raise ParseError(f"expected the column {name!r}, it is missing", file=file)
        right, came = _describe_type(expected.field(name).type), _describe_type(actual.field(name).type)
        if came != right:
            raise ParseError(f"expected the column {name!r} to contain {right}, it contains {came}", file=file)


def cast_columns(batch: Any) -> Any:
    """A ``pyarrow.RecordBatch`` with columns of the schema's own types; files may encode text in several ways."""
    expected = make_schema()
    columns = [
        column.cast(expected.field(name).type) if name in expected.names else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return require("pyarrow", "scale").RecordBatch.from_arrays(columns, names=batch.schema.names)


def _describe_type(type: Any) -> str:
    """The kind of values of an Arrow type, whatever its width and its encoding in memory."""
    types = require("pyarrow.types", "scale")
    if types.is_dictionary(type):
        return _describe_type(type.value_type)
    if types.is_list(type) or types.is_large_list(type):
        return f"lists of {_describe_type(type.value_type)}"
    if types.is_struct(type):
        return "(" + ", ".join(f"{field.name}: {_describe_type(field.type)}" for field in type) + ")"
    kinds = {"text": types.is_string, "bytes": types.is_binary, "whole numbers": types.is_integer}
    kinds |= {"numbers": types.is_floating, "text ": types.is_large_string, "bytes ": types.is_large_binary}
    return next((name.strip() for name, holds in kinds.items() if holds(type)), str(type))


def check_limits(batch: Any, file: object, *, first: int = 0) -> None:
    """Refuse rows beyond the limits of the text formats: of a line, and of the words and phrases of a tree.

    ``first`` rows of the file come before the batch; the error gives the row, from 1.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, column in columns.items():
        if name != "relations":  # their size is that of the sentence squared, which a sentence checks
            _refuse_above(_measure(column), MAX_LINE, f"bytes or elements under {name!r}", file, first)
    if "spans" in columns:
        _refuse_above(_count_elements(columns["spans"]), MAX_BRACKETS, "phrases of a tree", file, first)
    trees = [columns[name].is_valid().to_numpy(zero_copy_only=False) for name in ("heads", "spans") if name in columns]
    if trees and "starts" in columns:
        num_words = _count_elements(columns["starts"]) * np.any(trees, axis=0)
        _refuse_above(num_words, MAX_WORDS, "words of a tree", file, first)


def _refuse_above(sizes: np.ndarray, most: int, kind: str, file: object, first: int) -> None:
    if len(sizes) and sizes.max() > most:
        row = int(np.argmax(sizes > most))
        raise ParseError(f"row {first + row + 1}: expected at most {most:,} {kind}, got {sizes[row]:,}", file=file)


def _count_elements(column: Any) -> np.ndarray:
    """The number of elements in each row of a column of lists."""
    counts: np.ndarray = np.diff(column.offsets.to_numpy())
    return counts


def _measure(column: Any) -> np.ndarray:
    """For each row, the number of bytes of its texts and of elements of its lists, at any depth."""
    types, compute = require("pyarrow.types", "scale"), require("pyarrow.compute", "scale")
    sizes: np.ndarray = np.zeros(len(column), dtype=np.int64)
    if types.is_string(column.type) or types.is_binary(column.type):
        sizes += compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    elif types.is_struct(column.type):
        for field in column.flatten():
            sizes += _measure(field)
    elif types.is_list(column.type):
        offsets = column.offsets.to_numpy()
        inner = _measure(column.values.slice(offsets[0], offsets[-1] - offsets[0]))
        starts = np.concatenate([[0], np.cumsum(inner + 1)])
        sizes += np.diff(starts[offsets - offsets[0]])
    return sizes
