"""Tables that are generated from records, between two marks in a page.

``papers/tables.yaml`` describes them::

    sentences:
      page: docs/evidence/results.md
      header: [data, measure]
      columns: {"`disan`": disan, "`ms_san`": ms_san}
      best: row                         # bold: the best of each row, or of each column; nothing without
      rows:
        - {text: [TREC, accuracy], records: "disan/trec-{column}", metric: accuracy}

A cell is ``mean ± standard deviation (number of seeds)``; for cross-validation with one seed, the deviation is over its
folds. Rows of a table without any record are left out, so that no generated table contains results without a record.
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from structattn.errors import ConfigError
from structattn.files.json_yaml import read_yaml
from structattn.options.checking import suggest
from structattn_papers.reproduction.checks import Check, has_drifted, read_checks
from structattn_papers.reproduction.curves import learning_curve
from structattn_papers.reproduction.differences import can_be_resampled, difference_lines, seed_difference_lines
from structattn_papers.reproduction.figures import Figure, figure, legend
from structattn_papers.reproduction.golden import golden_output
from structattn_papers.reproduction.reading import MAX_VALUES, all_rows
from structattn_papers.reproduction.records import Recorded, read_records, recorded
from structattn_papers.reproduction.rows import Row

NONE = "–"
"""The text of a cell without a record."""

_BEST = ("row", "column", "none")


class Evidence:
    """The records of all papers; those of each row are read once.

    Args:
        papers: the folder of the papers.
    """

    def __init__(self, papers: str | os.PathLike[str] = "papers") -> None:
        self.papers = Path(papers)
        self._rows = all_rows(papers)
        self._known: dict[str, Recorded | None] = {}
        self._checks: dict[Path, list[Check]] = {}

    def row(self, name: str, asked_by: str) -> Row:
        """A row by ``system/name``.

        Raises:
            ConfigError: if there is none.
        """
        if name not in self._rows:
            raise ConfigError(f"{asked_by}: there is no row {name!r}{suggest(name, self._rows)}")
        return self._rows[name]

    def of(self, name: str, asked_by: str) -> Recorded | None:
        """The records of a row that count; ``None`` without any.

        Raises:
            ConfigError: if there is no such row.
        """
        row = self.row(name, asked_by)
        if name not in self._known:
            # A golden output takes time, and most rows have nothing to compare it with.
            self._known[name] = self._read(row) if read_records(row) else None
        return self._known[name]

    def _read(self, row: Row) -> Recorded:
        result = recorded(row, golden_output(row))
        if row.folder not in self._checks:
            self._checks[row.folder] = read_checks(row.folder)
        return dataclasses.replace(result, has_drifted=has_drifted(row, result.records, self._checks[row.folder]))


@dataclass(frozen=True)
class _Line:
    """One row of a table's description."""

    text: tuple[str, ...]
    metric: str
    records: str | Sequence[str | None]
    scale: int | float = 100
    digits: int = 1
    lowest: bool = False
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table as ``papers/tables.yaml`` describes it.

    Attributes:
        name: its name in the marks.
        page: the page that contains it, relative to the folder that contains ``papers``.
        header: the titles of the leading columns of text.
        columns: title and key of each column of figures.
        rows: for each row its text, the records (one name with ``{column}`` in it, or one for each column; ``null`` for
            an empty cell), the metric (which may have ``{column}`` in it too), ``scale`` and ``digits``, ``lowest`` if
            lower is better, and the text of the columns ``after``.
        after: the titles of further columns of text.
        best: where the best figure is bold: in each ``row``, in each ``column``, or ``none``.
        against: the key of a column; the differences of the others from it are listed below the table, over examples
            and seeds where the records keep the answer to each example, elsewhere over seeds.
        pooled: whether their mean over the rows is listed too, for rows that have no example in common.
        curve: the file of a picture of the table, with a line for each column over the rows, and its title and axis
            labels.
        transposed: whether its rows are written as columns, for tables with fewer rows than columns.
    """

    name: str
    page: str
    header: tuple[str, ...]
    columns: Mapping[str, str]
    rows: tuple[_Line, ...]
    after: tuple[str, ...] = ()
    best: str = "none"
    against: str | None = None
    pooled: bool = False
    curve: Mapping[str, str] | None = None
    transposed: bool = False

    def markdown(self, evidence: Evidence) -> str:
        """The table, from its present records."""
        shown = self._shown(evidence)
        if not shown:
            return "No row of this table has a record yet."
        best = self._best(shown)
        titles = [*self.header, *self.columns, *self.after]
        rows = [
            [
                *line.text,
                *(_cell(one, line.digits, (row, column) in best) for column, one in enumerate(figures)),
                *line.after,
            ]
            for row, (line, figures) in enumerate(shown)
        ]
        first, *others = zip(titles, *rows, strict=True) if self.transposed else (titles, *rows)
        text = "\n".join(_lines([first, ["---"] * len(first), *others]))
        differences = self._differences([line for line, _ in shown], evidence)
        picture = (
            []
            if self.curve is None
            else [f"![{self.curve['title']}]({os.path.relpath(self.curve['file'], Path(self.page).parent)})"]
        )
        return "\n\n".join([*picture, text, *legend(text), *differences])

    def picture(self, evidence: Evidence) -> str | None:
        """The picture of the table, an SVG; ``None`` if it has none, or nothing to show."""
        shown = self._shown(evidence)
        if self.curve is None or not shown:
            return None
        lines = {
            title: {row: figures[column] for row, (_, figures) in enumerate(shown)}
            for column, title in enumerate(self.columns)
        }
        named = {key: self.curve[key] for key in ("title", "x_label", "y_label") if key in self.curve}
        against = next((title for title, key in self.columns.items() if key == self.against), None)
        return learning_curve(lines, [line.text[0] for line, _ in shown], against=against, **named)

    def _shown(self, evidence: Evidence) -> list[tuple[_Line, list["Figure | None"]]]:
        """The rows with a record, and their figures."""
        columns = range(len(self.columns))
        lines = [(line, [self._figure(line, number, evidence) for number in columns]) for line in self.rows]
        return [(line, figures) for line, figures in lines if any(figures)]

    def _differences(self, shown: Sequence[_Line], evidence: Evidence) -> list[str]:
        """The differences of the columns from the one to compare with."""
        if self.against is None:
            return []
        titles = {key: title for title, key in self.columns.items()}
        found = [
            (line, {key: self._recorded(line, number, evidence) for number, key in enumerate(titles)}) for line in shown
        ]
        resampled, others, metrics, scales = {}, {}, {}, {}
        for line, records in found:
            name = line.text[0] if line.metric == "accuracy" else ", ".join(line.text)
            if line.metric == "accuracy" or can_be_resampled(records.values(), line.metric):
                resampled[name], metrics[name], scales[name] = records, line.metric, line.scale
            else:
                others[name] = {key: self._values(line, key, one) for key, one in records.items()}
        digits = {", ".join(line.text): line.digits for line in shown}
        return [
            *difference_lines(resampled, titles, self.against, metrics=metrics, scales=scales, pooled=self.pooled),
            *seed_difference_lines(others, titles, self.against, digits=digits),
        ]

    @staticmethod
    def _values(line: _Line, key: str, found: Recorded | None) -> list[float]:
        values = [] if found is None else found.values(line.metric.replace("{column}", key))
        return [line.scale * value for value in values]

    def _figure(self, line: _Line, number: int, evidence: Evidence) -> Figure | None:
        key = list(self.columns.values())[number]
        return figure(self._recorded(line, number, evidence), line.metric.replace("{column}", key), line.scale)

    def _recorded(self, line: _Line, number: int, evidence: Evidence) -> Recorded | None:
        key = list(self.columns.values())[number]
        name = line.records if isinstance(line.records, str) else line.records[number]
        return evidence.of(name.replace("{column}", key), f"table {self.name}") if name else None

    def _best(self, shown: Sequence[tuple[_Line, Sequence[Figure | None]]]) -> set[tuple[int, int]]:
        if self.best == "none":
            return set()
        groups: dict[int, list[tuple[float, tuple[int, int]]]] = {}
        for row, (line, figures) in enumerate(shown):
            for column, one in enumerate(figures):
                if one is not None:
                    value = mean(one.values) * (-1 if line.lowest else 1)
                    groups.setdefault(row if self.best == "row" else column, []).append((value, (row, column)))
        return {max(group)[1] for group in groups.values() if len(group) > 1}


def read_tables(papers: str | os.PathLike[str] = "papers") -> list[Table]:
    """The tables that ``papers/tables.yaml`` describes.

    Raises:
        ConfigError: if it is malformed.
    """
    file = Path(papers) / "tables.yaml"
    found = []
    for name, entry in read_yaml(file, max_values=MAX_VALUES).items() if file.is_file() else ():
        try:
            rows = tuple(_line(row) for row in entry.pop("rows"))
            for key in ("header", "after"):
                entry[key] = tuple(entry.get(key, ()))
            table = Table(name, rows=rows, **entry)
        except (AttributeError, KeyError, TypeError) as error:
            raise ConfigError(f"{file}: {name}: expected page, header, columns and rows: {error}") from None
        if table.best not in _BEST:
            raise ConfigError(f"{file}: {name}: best: expected one of {', '.join(_BEST)}, got {table.best!r}")
        found.append(table)
    return found


def fill(page: str, name: str, content: str, path: Path) -> str:
    """A page with new content between two marks.

    Raises:
        ConfigError: if it does not have them.

    Example:
        >>> print(fill("<!-- table: a -->" + chr(10) + "<!-- end -->", "a", "| 1 |", Path("page")))
        <!-- table: a -->
        <BLANKLINE>
        | 1 |
        <BLANKLINE>
        <!-- end -->
    """
    pattern = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
    if not pattern.search(page):
        raise ConfigError(f"{path}: expected the marks <!-- table: {name} --> and <!-- end -->")
    return pattern.sub(lambda match: f"{match[1]}\n{content}\n\n{match[2]}", page, count=1)


def _line(row: Mapping[str, Any]) -> _Line:
    texts = {key: tuple(row.get(key, ())) for key in ("text", "after")}
    return _Line(**{**row, **texts})


def _cell(one: Figure | None, digits: int, is_best: bool) -> str:
    text = NONE if one is None else one.text(digits)
    value, space, rest = text.partition(" ")
    return f"**{value}**{space}{rest}" if is_best else text


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in rows:
        yield "|" + "|".join("---" if cell == "---" else f" {cell} " for cell in row) + "|"
