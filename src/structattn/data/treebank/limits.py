"""Limits on a row of the treebank, the same as for text, since a few bytes of Parquet can expand to very many."""

from typing import Any

import numpy as np

from structattn.errors import ParseError, require
from structattn.files.text import MAX_BRACKETS, MAX_LINE, MAX_WORDS


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
