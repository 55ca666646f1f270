"""Parquet files of the treebank: written whole or not at all, read in batches of columns."""

import contextlib
import gzip
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from structattn.data.example import Example
from structattn.data.treebank.example_rows import Row, examples_of_rows, rows_of
from structattn.data.treebank.schema import NAMES, check_limits, check_schema, in_own_types, schema
from structattn.errors import ParseError, require
from structattn.files.replacing import replace_bytes
from structattn.files.text import Source, open_bytes

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
    """Write examples as Parquet; the file appears whole or not at all.

    Args:
        path: the file; ``s3://`` and the like go through fsspec.
        examples: the examples; ``group_size`` rows are in memory at a time.
        group_size: rows of a row group, the unit of shuffled reading; both sentences of a pair are in one.
        note: is called with each row.
        about: is called after the last row and returns further metadata of the file.

    Returns:
        The number of sentences.

    Raises:
        MissingExtra: if pyarrow is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> from structattn.syntax import Sentence
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.parquet"
        >>> write_parquet(path, [Example(Sentence(["hush"]), "quiet", id="1")])
        1
        >>> [(example.id, example.label) for example in read_parquet(path)]
        [('1', 'quiet')]
    """
    parquet = require("pyarrow.parquet", "scale")
    offsets = ["starts.list.element", "ends.list.element", "heads.list.element"]
    options: dict[str, Any] = {
        "compression": "zstd",
        "use_dictionary": [f"{name}.list.element" for name in NAMES] + ["part", "parser", "parser_version", "answer"],
        "column_encoding": dict.fromkeys(offsets, "DELTA_BINARY_PACKED"),
    }
    rest = iter(examples)
    count = 0
    with replace_bytes(path) as stream, parquet.ParquetWriter(stream, schema(), **options) as writer:
        while some := _group(rest, group_size):
            if note is not None:
                for row in some:
                    note(row)
            writer.write_table(_table(some))
            count += len(some)
        if about is not None:
            writer.add_key_value_metadata(dict(about()))
    return count


def read_parquet(path: Source) -> Iterator[Example]:
    """Stream the examples of a Parquet file, with all the fields that they were written with.

    Args:
        path: the file, or an open binary stream.

    Raises:
        ParseError: if the file is missing, truncated or damaged, has another version, lacks a column or changes while
            it is read, or if a row contradicts itself or contains more than a line of text may.
        MissingExtra: if pyarrow is not installed.
    """
    batches = read_batches(path)
    return examples_of_rows((row for batch in batches for row in rows_of_batch(batch)), path)


def read_batches(path: Source, columns: Sequence[str] | None = None, *, batch_size: int = BATCH) -> Iterator[Any]:
    """Stream the columns of a Parquet file as ``pyarrow.RecordBatch``.

    Args:
        path: as for ``read_parquet``.
        columns: the columns to read; all if ``None``.
        batch_size: maximum number of rows of a batch.

    Raises:
        ParseError: as ``read_parquet``.
    """
    first = 0
    with opened(path, columns) as file, described(path):
        for batch in file.iter_batches(batch_size, columns=columns):
            yield checked(batch, path, first=first)
            first += len(batch)


def checked(batch: Any, path: Source, *, first: int = 0) -> Any:
    """A ``pyarrow.RecordBatch`` in the types of the schema, after checking that no row exceeds the limits.

    Args:
        batch: as it was read.
        path: for errors.
        first: how many rows of the file come before it.

    Raises:
        ParseError: as ``read_parquet``.
    """
    with described(path):
        found = in_own_types(batch)
    check_limits(found, path, first=first)
    return found


@contextlib.contextmanager
def opened(path: Source, columns: Collection[str] | None = None) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile`` whose schema has been checked; refused if it changes within the block.

    Raises:
        ParseError: as ``read_parquet``.
    """
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
        with described(path):
            file = parquet.ParquetFile(stream)
        check_schema(file.schema_arrow, path, columns)
        yield file
        if stream.seek(0, os.SEEK_END) != size:
            raise ParseError(f"expected a file that does not change while it is read, it had {size:,} bytes", file=path)


@contextlib.contextmanager
def described(path: Source) -> Iterator[None]:
    """Name a damaged file in the error, as pyarrow's errors do not.

    Raises:
        ParseError: with the file.
    """
    arrow = require("pyarrow", "scale")
    try:
        yield
    except (arrow.ArrowException, EOFError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ParseError(
            f"expected a whole Parquet file, but it is truncated or damaged: {reason}", file=path
        ) from None


def _group(examples: Iterator[Example], size: int) -> list[Row]:
    """The rows of the next examples; a pair stays together."""
    rows: list[Row] = []
    while len(rows) < size and (example := next(examples, None)) is not None:
        rows += rows_of(example)
    return rows


def _table(rows: Sequence[Row]) -> Any:
    arrow = require("pyarrow", "scale")
    return arrow.Table.from_arrays(
        [arrow.array([row[field.name] for row in rows], field.type) for field in schema()], schema=schema()
    )


def rows_of_batch(batch: Any) -> Iterator[Row]:
    """The rows of a ``pyarrow.RecordBatch`` as plain values."""
    names = batch.schema.names
    return (dict(zip(names, values, strict=True)) for values in zip(*map(_values, batch.columns), strict=True))


def _values(column: Any) -> list[Any]:
    """The values of each row; lists of numbers and names are read without an Arrow object for each element."""
    types = require("pyarrow.types", "scale")
    if not types.is_list(column.type) or types.is_nested(column.type.value_type):
        found: list[Any] = column.to_pylist()
        return found
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
    here = column.is_valid().to_pylist()
    return [flat[start:end] if valid else None for valid, start, end in zip(here, ends, ends[1:], strict=False)]
