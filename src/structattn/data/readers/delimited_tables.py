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

from structattn.data.example import Example
from structattn.data.readers.fields import PAIRS, TEXTS, Column, Columns, Item, Place, check_target, listed_names
from structattn.errors import ConfigError, ParseError, shown
from structattn.files.text import MAX_LINE, Source, read_lines

_SICK = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


def read_csv(
    path: Source,
    *,
    text_column: Column | Sequence[Column] | None = None,
    label_column: Column | None = None,
    id_column: Column | None = None,
    delimiter: str | None = None,
    target: str | None = None,
    tokenised: bool = False,
) -> Iterator[Example]:
    r"""A table with one example per row and commas, semicolons, tabs or bars between fields, with or without quotes.

    Columns that are not given are found by their names in the header (ignoring case): those of GLUE's tasks, or for
    example ``text``, ``sentence``, ``review`` and ``label``, ``class``, ``sentiment``. STS-B (scores) and CoLA are
    recognised without a header. A file whose columns are given as numbers has no header.

    Args:
        path: a file or a stream.
        text_column: the column of texts; two columns for pairs.
        label_column: the column of labels; a table may have none.
        id_column: the column of ids; without it, rows are numbered from 0.
        delimiter: the character between fields; detected if ``None``.
        target: ``"class"`` or ``"score"``, how labels are read; ``"none"`` if they are not.
        tokenised: whether words are separated by spaces.

    Raises:
        ConfigError: for a combination of columns that makes no sense.
        ParseError: for an unknown layout, a column that the header lacks, a header where columns are numbers, or a row
            with too few or too many fields.

    Example:
        >>> import io
        >>> table = io.StringIO('Review,Sentiment\n"Fine, really fine",pos\n')
        >>> [(example.sentences[0].words, example.label) for example in read_csv(table)]
        [(('Fine', ',', 'really', 'fine'), 'pos')]
    """
    if target is not None:
        check_target(target)
    for item in table_items(path, Columns.given(text_column, label_column, id_column), delimiter):
        yield item.example(target, tokenised=tokenised)


read_tsv = functools.partial(read_csv, delimiter="\t")
"""`read_csv` with tabs between fields."""


def read_sick(path: Source, *, target: str = "relatedness", tokenised: bool = False) -> Iterator[Example]:
    """SICK (Marelli et al. 2014): pairs with a relatedness score from 1 to 5 and an entailment judgement.

    Raises:
        ConfigError: for an unknown target.
        ParseError: if the header is a different one, a line does not have as many fields as the header, or a score is
            not from 1 to 5.
    """
    check_target(target, ("relatedness", "entailment"))
    label = _SICK[3 if target == "relatedness" else 4]
    columns = Columns((_SICK[1], _SICK[2]), label, _SICK[0])
    for item in table_items(path, columns, "\t", header=_SICK):
        score = item.label("score" if target == "relatedness" else "class")
        if isinstance(score, float) and not 1 <= score <= 5:
            raise item.place.error(f"expected a relatedness score from 1 to 5, got {shown(item.values[label])}")
        yield dataclasses.replace(item.example("class", tokenised=tokenised), label=score)


def table_items(
    path: Source, columns: Columns, delimiter: str | None = None, *, header: Sequence[str] | None = None
) -> Iterator[Item]:
    """Stream the rows of a table; errors as for `read_csv`.

    Args:
        path: a file or a stream.
        columns: those that are known beforehand. If all of these are numbers, the table has no header.
        delimiter: detected if ``None``.
        header: names that the header has to begin with.
    """
    names: tuple[Column, ...] | None = None
    has_header = True
    number = 0
    for place, fields, dialect in read_records(path, delimiter):
        if names is None:
            if header is not None and fields[: len(header)] != tuple(header):
                raise place.error(f"expected the header {' '.join(header)}, got {shown(' '.join(fields))}")
            names, columns = _layout(fields, columns, place)
            has_header = names == fields
            if has_header:
                continue
        if len(fields) != len(names) and (has_header or len(fields) < len(names)):
            expected = f"{len(names)} {dialect.separated} columns as in the header"
            least = f"at least {len(names)} {dialect.separated} columns"
            raise place.error(f"expected {expected if has_header else least}, got {len(fields)}")
        yield Item(place, dict(zip(names, fields, strict=False)), columns, number)
        number += 1


def is_table_header(line: str) -> bool:
    """Whether a line without tabs is a header of at least two columns, one of them with a usual name for texts.

    Example:
        >>> is_table_header('"Text";"Label"'), is_table_header("a text, with a comma")
        (True, False)
    """
    for delimiter in DELIMITERS:
        names = [name.strip().strip('"') for name in line.split(delimiter)]
        if delimiter != "\t" and len(set(names)) > 1 and _has_texts(names):
            return True
    return False


def _has_texts(names: Iterable[str]) -> bool:
    """Whether a usual name for texts is among these, ignoring case."""
    given = {name.strip().lower() for name in names}
    usual = ({name.lower() for name in group} for group in (*PAIRS, *((name,) for name in TEXTS)))
    return any(known <= given for known in usual)


def _layout(fields: tuple[str, ...], columns: Columns, place: Place) -> tuple[tuple[Column, ...], Columns]:
    """The names of the columns, numbers where there is no header, and which of them are read."""
    chosen = columns.chosen
    for column in chosen:
        if isinstance(column, int) and not 0 <= column < len(fields):
            raise place.error(f"expected a column {column} (from 0), got a row of {len(fields)} columns")
    if chosen and all(isinstance(column, int) for column in chosen):
        if columns.text is None:
            raise ConfigError("text_column: expected a number like that of the other columns, got none")
        if _has_texts(fields[int(column)] for column in columns.text):
            found = f"expected no header, as the columns are numbers, got {listed_names(fields)}"
            raise place.error(f"{found}; name the columns with text_column and label_column")
        return tuple(range(1 + max(map(int, chosen)))), columns
    if not chosen and len(fields) >= 7 and _is_number(fields[4]):  # STS-B: genre, file, year, id, score, two sentences
        return tuple(range(7)), Columns((5, 6), 4, target="score")
    if not chosen and len(fields) == 4 and fields[1] in ("0", "1") and fields[2] in ("", "*"):  # CoLA: label, star
        return tuple(range(4)), Columns((3,), 1)

    def named(column: Column | None) -> Column | None:
        return fields[column] if isinstance(column, int) else column

    texts = (
        None
        if columns.text is None
        else tuple(fields[name] if isinstance(name, int) else name for name in columns.text)
    )
    return fields, Columns(texts, named(columns.label), named(columns.id)).found_in(fields, place)


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
    """How the rows of a table are written.

    Attributes:
        delimiter: the character between fields.
        is_quoted: whether a field may be in quotation marks.
    """

    delimiter: str
    is_quoted: bool = True

    @property
    def separated(self) -> str:
        """Its name in error messages: ``comma-separated``, for example."""
        name = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}.get(self.delimiter, repr(self.delimiter))
        return f"{name}-separated"


def read_records(source: Source, delimiter: str | None = None) -> Iterator[tuple[Place, tuple[str, ...], Dialect]]:
    r"""Stream the rows of a table; blank lines are left out.

    Args:
        source: a file, gzip or plain, or a stream.
        delimiter: the character between fields; detected from the first rows if ``None``.

    Yields:
        The place where the row begins, its fields, and the dialect of the table.

    Raises:
        ParseError: for a quoted field that does not end, or that continues after its closing quotation mark.

    Example:
        >>> import io
        >>> text = 'review;sentiment\n"fine; ""really"" fine";pos\nso so, at best;neg\n'
        >>> [fields for _, fields, _ in read_records(io.StringIO(text))]
        [('review', 'sentiment'), ('fine; "really" fine', 'pos'), ('so so, at best', 'neg')]
    """
    lines = read_lines(source)
    sample = list(itertools.islice(lines, _SAMPLE))
    if delimiter is None:
        delimiter = _best_delimiter(sample, source)
    is_quoted = delimiter != "\t"
    if delimiter == "\t" and any('"' in line for _, line in sample):
        # A file is read a second time, in full; of a stream only the sample is at hand.
        is_file = isinstance(source, str | os.PathLike)
        is_quoted = _is_quoted(read_lines(source) if is_file else sample, delimiter, source)
    dialect = Dialect(delimiter, is_quoted)
    for place, fields in _rows(itertools.chain(sample, lines), dialect, source):
        yield place, fields, dialect


def _best_delimiter(sample: list[tuple[int, str]], source: Source) -> str:
    """The one that splits most rows into as many fields, at least two, as the first; a comma if none does."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths = []
        try:
            for _, fields in _rows(sample, Dialect(delimiter), source):
                widths.append(len(fields))
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

    def counted() -> Iterator[tuple[int, str]]:
        for number, line in lines:
            literal[line.count(delimiter) + 1] += bool(line.strip())
            yield number, line

    try:
        for _, fields in _rows(counted(), Dialect(delimiter), source):
            quoted[len(fields)] += 1
    except ParseError:
        return False
    joins_lines = quoted.total() < literal.total()
    return len(quoted) <= 1 and not (joins_lines and len(+literal) == 1)


def _rows(
    lines: Iterable[tuple[int, str]], dialect: Dialect, source: Source
) -> Iterator[tuple[Place, tuple[str, ...]]]:
    if not dialect.is_quoted:
        for number, line in lines:
            if line.strip():
                yield Place(source, number), tuple(line.split(dialect.delimiter))
        return
    begins = last = 0

    def numbered() -> Iterator[str]:
        nonlocal last
        for last, line in lines:  # noqa: B007  (read below)
            yield line + "\n"

    rows = csv.reader(numbered(), delimiter=dialect.delimiter, strict=True)
    while True:
        begins = last + 1
        try:
            fields = _next_row(rows)
        except csv.Error as error:
            raise ParseError(
                f"expected a row of {dialect.separated} fields, {_reason(error)}", file=source, line=begins
            ) from None
        if fields is None:
            return
        if any(field.strip() for field in fields):
            yield Place(source, begins), tuple(fields)


def _next_row(rows: Iterator[list[str]]) -> list[str] | None:
    """The next row, under this library's limit for a field; that of ``csv`` applies to the whole process."""
    usual = csv.field_size_limit(MAX_LINE)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(usual)


def _reason(error: csv.Error) -> str:
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
