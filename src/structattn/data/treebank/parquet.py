"""Parquet files of the treebank: written whole or not at all, read in batches of columns."""

import contextlib
import gzip
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from structattn.data.example import Example
from structattn.data.treebank.example_rows import FAULT, Row, make_examples, make_rows
from structattn.data.treebank.schema import NAMES, cast_columns, check_limits, check_schema, make_schema
from structattn.errors import ParseError, require
from structattn.files.replacing import replace_bytes
from structattn.files.text import Source, escape_controls, open_bytes

BATCH = 4096
"""Number of rows in memory at a time, and of a row group."""


def write_parquet(
    path: str | os.PathLike[str],
    examples: Iterable[Example],
    *,
    group_size: int = BATCH,
    note: Callable[[Row], object] | None = None,
    about: Callable[[], Mapping[str, str]] | None = None,
) -> int:
    """Write examples in row groups, the unit of shuffled reading; returns the number of sentences.

    ``note`` is called with each row; ``about`` returns further metadata of the file after the last one.
    """
    parquet = require("pyarrow.parquet", "scale")
    offsets = ["starts.list.element", "ends.list.element", "heads.list.element"]
    options: dict[str, Any] = {
        "compression": "zstd",
        "use_dictionary": [f"{name}.list.element" for name in NAMES] + ["part", "parser", "parser_version", "answer"],
        "column_encoding": dict.fromkeys(offsets, "DELTA_BINARY_PACKED"),
    }
    remaining = iter(examples)
    count = 0
    with replace_bytes(path) as stream, parquet.ParquetWriter(stream, make_schema(), **options) as writer:
        while rows := _collect_rows(remaining, group_size):
            if note is not None:
                for row in rows:
                    note(row)
            writer.write_table(_make_table(rows))
            count += len(rows)
        if about is not None:
            writer.add_key_value_metadata(dict(about()))
    return count


def read_parquet(path: Source) -> Iterator[Example]:
    """Stream the examples of a Parquet file, with all the fields that they were written with."""
    return make_examples(_read_rows(path), path)


def _read_rows(path: Source) -> Iterator[Row]:
    """The rows of a file, each with its fault if it has one."""
    first = 0
    with open_parquet(path) as file, naming_damage(path):
        for batch in file.iter_batches(BATCH):
            try:
                rows = batch_to_rows(check_batch(batch, path, first=first))
            except ParseError:
                rows = (_read_row(batch.slice(index, 1), path, first + index) for index in range(len(batch)))
            yield from rows
            first += len(batch)


def _read_row(batch: Any, path: Source, number: int) -> Row:
    """The only row of a batch, which comes after this many rows of the file."""
    try:
        (row,) = batch_to_rows(check_batch(batch, path, first=number))
        return row
    except ParseError as error:
        message = error.message if error.message.startswith("row ") else f"row {number + 1}: {error.message}"
        return {"part": batch.column("part")[0].as_py(), FAULT: ParseError(message, file=path)}


def read_batches(path: Source, columns: Sequence[str] | None = None, *, batch_size: int = BATCH) -> Iterator[Any]:
    """Stream columns of a Parquet file (all if ``None``) as ``pyarrow.RecordBatch``."""
    first = 0
    with open_parquet(path, columns) as file, naming_damage(path):
        for batch in file.iter_batches(batch_size, columns=columns):
            yield check_batch(batch, path, first=first)
            first += len(batch)


def check_batch(batch: Any, path: Source, *, first: int = 0) -> Any:
    """A ``pyarrow.RecordBatch`` in the types of the schema, after checking that no row exceeds the limits.

    ``first`` rows of the file come before the batch.
    """
    with naming_damage(path):
        cast = cast_columns(batch)
        cast.validate(full=True)  # also that every text is UTF-8
    check_limits(cast, path, first=first)
    return cast


@contextlib.contextmanager
def open_parquet(path: Source, columns: Collection[str] | None = None) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile`` whose schema has been checked; refused if it changes within the block."""
    parquet = require("pyarrow.parquet", "scale")
    with open_bytes(path) as stream:
        if isinstance(stream, gzip.GzipFile) or not stream.seekable():
            came = "a pipe" if not stream.seekable() else "gzip"
            raise ParseError(
                f"expected Parquet in a file of its own, as it is read from its end, got {came}", file=path
            )
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        if not size:
            raise ParseError("expected at least one example, got an empty file", file=path)
        with naming_damage(path):
            file = parquet.ParquetFile(stream)
        check_schema(file.schema_arrow, path, columns)
        yield file
        if stream.seek(0, os.SEEK_END) != size:
            raise ParseError(f"expected a file that does not change while it is read, it had {size:,} bytes", file=path)


@contextlib.contextmanager
def naming_damage(path: Source) -> Iterator[None]:
    """Name a damaged file in the error, as pyarrow's errors do not."""
    arrow = require("pyarrow", "scale")
    try:
        yield
    except (arrow.ArrowException, EOFError, OSError, UnicodeDecodeError) as error:
        reason = escape_controls(" ".join(str(error).split())[:200])
        raise ParseError(
            f"expected a whole Parquet file, but it is truncated or damaged: {reason}", file=path
        ) from None


def _collect_rows(examples: Iterator[Example], size: int) -> list[Row]:
    """The rows of the next examples; a pair stays together."""
    rows: list[Row] = []
    while len(rows) < size and (example := next(examples, None)) is not None:
        rows += make_rows(example)
    return rows


def _make_table(rows: Sequence[Row]) -> Any:
    arrow = require("pyarrow", "scale")
    return arrow.Table.from_arrays(
        [arrow.array([row[field.name] for row in rows], field.type) for field in make_schema()], schema=make_schema()
    )


def batch_to_rows(batch: Any) -> Iterator[Row]:
    """The rows of a ``pyarrow.RecordBatch`` as plain values."""
    names = batch.schema.names
    return (dict(zip(names, values, strict=True)) for values in zip(*map(_list_values, batch.columns), strict=True))


def _list_values(column: Any) -> list[Any]:
    """The values of each row; lists of numbers and names are read without an Arrow object for each element."""
    types = require("pyarrow.types", "scale")
    if not types.is_list(column.type) or types.is_nested(column.type.value_type):
        values: list[Any] = column.to_pylist()
        return values
    offsets = column.offsets.to_numpy()
    elements = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    if types.is_string(elements.type):
        # Most are the same few strings, which are created once.
        coded = elements.dictionary_encode()
        kinds = [*coded.dictionary.to_pylist(), None]
        flat = [kinds[code] for code in coded.indices.fill_null(len(kinds) - 1).to_pylist()]
    else:
        flat = elements.to_pylist()
    ends = (offsets - offsets[0]).tolist()
    valid = column.is_valid().to_pylist()
    return [flat[start:end] if is_valid else None for is_valid, start, end in zip(valid, ends, ends[1:], strict=False)]
