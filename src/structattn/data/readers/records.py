r"""The rows of tables in text files: comma-, semicolon- or tab-separated, with quotes or without.

Quotes are those of RFC 4180: a field in quotation marks may contain separators, line ends and doubled quotation marks.
Between tabs, quotation marks are ambiguous: pandas and spreadsheets quote fields, the files of GLUE do not. They are
read as quotes if every field that begins with one is quoted as a whole and all rows then have the same width.
"""

import collections
import csv
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from structattn.data.readers.fields import Place
from structattn.errors import ParseError
from structattn.files.text import MAX_LINE, Source, read_lines

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
