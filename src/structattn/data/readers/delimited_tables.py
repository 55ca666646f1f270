r"""Tables in text files: CSV and TSV, in the layouts of GLUE or with columns given by name, and SICK.

Quotes are those of RFC 4180: a field in quotation marks may contain separators, line ends and doubled quotation marks.
Between tabs, quotation marks are ambiguous: pandas and spreadsheets quote fields, the files of GLUE do not. They are
read as quotes if every field that begins with one is quoted as a whole and all rows then have the same width.
"""

import collections
import csv
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from structattn.data.example import Example
from structattn.data.readers.fields import (
    PAIRS,
    TEXTS,
    Column,
    Columns,
    Location,
    Record,
    check_target,
    list_names,
    normalise,
)
from structattn.errors import ConfigError, ParseError, shown
from structattn.files.item_faults import answer_each, refuse_item
from structattn.files.text import MAX_LINE, Source, check_lines, is_blank, read_lines

_SICK = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


def read_csv(
    path: Source,
    *,
    text_column: Column | Sequence[Column] | None = None,
    label_column: Column | Sequence[Column] | None = None,
    id_column: Column | None = None,
    delimiter: str | None = None,
    target: str | None = None,
    tokenised: bool = False,
) -> Iterator[Example]:
    """A table with one example per row, and commas, semicolons, tabs or bars between fields, with or without quotes.

    Columns are found by their names in the header if they are not given; given as numbers, the file has no header.
    """
    if target is not None:
        check_target(target)
    columns = Columns.from_options(text_column, label_column, id_column)
    records = read_table(path, columns, delimiter)
    return answer_each(lambda record: record.example(target, tokenised=tokenised), records)


read_tsv = functools.partial(read_csv, delimiter="\t")
"""`read_csv` with tabs between fields."""


def read_sick(path: Source, *, target: str = "relatedness", tokenised: bool = False) -> Iterator[Example]:
    """SICK (Marelli et al. 2014): pairs with a relatedness score from 1 to 5 and an entailment judgement."""
    check_target(target, ("relatedness", "entailment"))
    label = _SICK[3 if target == "relatedness" else 4]
    columns = Columns((_SICK[1], _SICK[2]), label, _SICK[0])

    def make_example(record: Record) -> Example:
        score = record.label("score" if target == "relatedness" else "class")
        if isinstance(score, float) and not 1 <= score <= 5:
            raise record.location.error(f"expected a relatedness score from 1 to 5, got {shown(record.values[label])}")
        return dataclasses.replace(record.example("class", tokenised=tokenised), label=score)

    return answer_each(make_example, read_table(path, columns, "\t", header=_SICK))


def read_table(
    path: Source, columns: Columns, delimiter: str | None = None, *, header: Sequence[str] | None = None
) -> Iterator[Record]:
    """Stream the rows of a table, whose header has to begin with these names if there are any.

    Without a header, all columns that are known beforehand are numbers.
    """
    names: tuple[Column, ...] | None = None
    has_header = True
    number = 0
    for (location, fields, fault), dialect in split_table(path, delimiter):
        if names is None:
            is_header = not all(isinstance(column, int) for column in (columns.text or ("",)))
            if fault is not None and (is_header or not fields):
                raise fault
            if header is not None and fields[: len(header)] != tuple(header):
                raise location.error(f"expected the header {' '.join(header)}, got {shown(' '.join(fields))}")
            names, columns = _resolve_layout(fields, columns, location)
            has_header = names == fields
            if has_header:
                continue
        if fault is not None:
            refuse_item(fault)
        elif len(fields) != len(names) and (has_header or len(fields) < len(names)):
            expected = f"{len(names)} {dialect.separated} columns as in the header"
            least = f"at least {len(names)} {dialect.separated} columns"
            refuse_item(location.error(f"expected {expected if has_header else least}, got {len(fields)}"))
        else:
            yield Record(location, dict(zip(names, fields, strict=False)), columns, number)
        number += 1


def is_table_header(line: str) -> bool:
    """Whether a line without tabs is a header of at least two columns, one of them with a usual name for texts."""
    for delimiter in DELIMITERS:
        names = [name.strip().strip('"') for name in line.split(delimiter)]
        if delimiter != "\t" and len(set(names)) > 1 and _has_texts(names):
            return True
    return False


def _has_texts(names: Iterable[str]) -> bool:
    """Whether a usual name for texts is among these."""
    present = set(map(normalise, names))
    usual = (set(map(normalise, group)) for group in (*PAIRS, *((name,) for name in TEXTS)))
    return any(group <= present for group in usual)


def _resolve_layout(
    fields: tuple[str, ...], columns: Columns, location: Location
) -> tuple[tuple[Column, ...], Columns]:
    """The names of the columns, numbers where there is no header, and which of them are read."""
    labels = columns.label if isinstance(columns.label, tuple) else (columns.label,)
    requested = [column for column in (*(columns.text or ()), *labels, columns.id) if column is not None]
    for column in requested:
        if isinstance(column, int) and not 0 <= column < len(fields):
            raise location.error(f"expected a column {column} (from 0), got a row of {len(fields)} columns")
    if requested and all(isinstance(column, int) for column in requested):
        if columns.text is None:
            raise ConfigError("text_column: expected a number like that of the other columns, got none")
        if _has_texts(fields[int(column)] for column in columns.text):
            message = f"expected no header, as the columns are numbers, got {list_names(fields)}"
            raise location.error(f"{message}; name the columns with text_column and label_column")
        return tuple(range(1 + max(map(int, requested)))), columns
    if not requested and len(fields) >= 7 and _is_number(fields[4]):
        # STS-B: genre, file, year, id, score, two sentences.
        return tuple(range(7)), Columns((5, 6), 4, target="score")
    if not requested and len(fields) == 4 and fields[1] in ("0", "1") and fields[2] in ("", "*"):  # CoLA: label, star
        return tuple(range(4)), Columns((3,), 1)

    def name_column(column: Any) -> Any:
        return fields[column] if isinstance(column, int) else column

    texts = (
        None
        if columns.text is None
        else tuple(fields[name] if isinstance(name, int) else name for name in columns.text)
    )
    label = tuple(map(name_column, labels)) if isinstance(columns.label, tuple) else name_column(columns.label)
    return fields, Columns(texts, label, name_column(columns.id)).resolve(fields, location)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 200


@dataclass(frozen=True)
class Dialect:
    """How the rows of a table are written: the character between fields, and whether fields may be quoted."""

    delimiter: str
    is_quoted: bool = True

    @property
    def separated(self) -> str:
        """Its name in error messages: ``comma-separated``, for example."""
        name = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}.get(self.delimiter, repr(self.delimiter))
        return f"{name}-separated"


class _Row(NamedTuple):
    """The fields of a row, and what is wrong with it; without any fields if its quotation marks are."""

    location: Location
    fields: tuple[str, ...]
    fault: ParseError | None


def split_table(source: Source, delimiter: str | None = None) -> Iterator[tuple[_Row, Dialect]]:
    """Stream the rows of a table, with how the table is written; blank lines are left out.

    The character between fields is detected from the first rows if it is not given.
    """
    lines = read_lines(source, escape=True)
    sample = list(itertools.islice(lines, _SAMPLE))
    if delimiter is None:
        delimiter = _best_delimiter(sample, source)
    is_quoted = delimiter != "\t"
    if delimiter == "\t" and any('"' in line for _, line in sample):
        # A file is read a second time, in full; of a stream only the sample is at hand.
        is_file = isinstance(source, str | os.PathLike)
        is_quoted = _is_quoted(read_lines(source, escape=True) if is_file else sample, delimiter, source)
    dialect = Dialect(delimiter, is_quoted)
    for row in _split_rows(itertools.chain(sample, lines), dialect, source):
        yield row, dialect


def _best_delimiter(sample: list[tuple[int, str]], source: Source) -> str:
    """The one that splits most rows into as many fields, at least two, as the first; a comma if none does."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths = []
        try:
            for row in _split_rows(sample, Dialect(delimiter), source):
                widths.append(len(row.fields))
        except ParseError:
            pass  # the sample may end within a field, and another delimiter splits quoted fields
        if not widths or widths[0] < 2:
            return 0.0, 0
        return sum(width == widths[0] for width in widths) / len(widths), len(widths)

    return max(DELIMITERS, key=fit)


def _is_quoted(lines: Iterable[tuple[int, str]], delimiter: str, source: Source) -> bool:
    """Whether quotation marks are quotes: read as such, all rows are well-formed and of the same width.

    If quotes would join lines that have the same width without them, they are text.
    """
    literal, quoted = collections.Counter[int](), collections.Counter[int]()

    def count_lines() -> Iterator[tuple[int, str]]:
        for number, line in lines:
            literal[line.count(delimiter) + 1] += bool(line.strip())
            yield number, line

    try:
        for row in _split_rows(count_lines(), Dialect(delimiter), source):
            if not row.fields:
                return False
            quoted[len(row.fields)] += 1
    except ParseError:
        return False
    joins_lines = quoted.total() < literal.total()
    return len(quoted) <= 1 and not (joins_lines and len(+literal) == 1)


def _split_rows(lines: Iterable[tuple[int, str]], dialect: Dialect, source: Source) -> Iterator[_Row]:
    if not dialect.is_quoted:
        for number, line in lines:
            if not is_blank(line):
                yield _make_row(source, [(number, line)], line.split(dialect.delimiter))
        return
    later, again, taken = iter(lines), collections.deque[tuple[int, str]](), list[tuple[int, str]]()
    has_long = False  # whether a field has been of several lines

    def take_lines() -> Iterator[str]:
        while (pair := again.popleft() if again else next(later, None)) is not None:
            taken.append(pair)
            yield pair[1] + "\n"

    rows = csv.reader(take_lines(), delimiter=dialect.delimiter, strict=True)
    while True:
        taken.clear()
        try:
            fields = _read_row(rows)
        except csv.Error as error:
            message = f"expected a row of {dialect.separated} fields, {_explain(error)}"
            fault = ParseError(message, file=source, line=taken[0][0])
            if has_long:  # so that the next line may be within a field
                raise fault from None
            yield _Row(Location(source, taken[0][0]), (), fault)
            again.extendleft(reversed(taken[1:]))
            rows = csv.reader(take_lines(), delimiter=dialect.delimiter, strict=True)
            continue
        if fields is None:
            return
        has_long = has_long or len(taken) > 1
        if not all(map(is_blank, fields)):
            yield _make_row(source, taken, fields)


def _make_row(source: Source, lines: Sequence[tuple[int, str]], fields: Sequence[str]) -> _Row:
    fault = None
    try:
        check_lines(source, *lines)
    except ParseError as error:
        fault = error
    return _Row(Location(source, lines[0][0]), tuple(fields), fault)


def _read_row(rows: Iterator[list[str]]) -> list[str] | None:
    """The next row, under this library's limit for a field; that of ``csv`` applies to the whole process."""
    usual = csv.field_size_limit(MAX_LINE)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(usual)


def _explain(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end of data" in text:
        return "a quotation mark opens a field that never ends; write a quotation mark within text as two, in quotes"
    if "expected after" in text:
        return (
            "a field continues after its closing quotation mark; write a quotation mark within text as two, in quotes"
        )
    if "new-line character" in text:
        return r"a line contains a carriage return; lines end in \n: tr '\r' '\n' converts a file whose lines do not"
    if "larger than" in text:
        return f"a field has more than {MAX_LINE:,} characters; perhaps a quotation mark opens a field that never ends"
    return text
