"""Figures of rows: mean and deviation over the seeds of their records."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, stdev

from structattn_papers.reproduction.records import Recorded

OLDER, DRIFTED = "†", "‡"
LEGENDS = {
    OLDER: "recorded with an earlier version of the model or its settings, and not run again yet",
    DRIFTED: "run again since by `structattn reproduce --check`, with another result than the record's",
}
"""What the marks of figures mean."""


@dataclass(frozen=True)
class Figure:
    """A figure of a row: the values of its runs in the unit of a table.

    Attributes:
        values: one for each seed.
        spread: the standard deviation over the folds, for cross-validation with one seed.
        marks: those of ``LEGENDS`` that apply to its records.
    """

    values: tuple[int | float, ...]
    spread: int | float | None = None
    marks: str = ""

    def text(self, digits: int = 1) -> str:
        """The figure as the text of a cell.

        Example:
            >>> figures = Figure((88.44, 88.07, 87.89)), Figure((82.3,), 2.2), Figure((0.3,), marks="†")
            >>> tuple(figure.text() for figure in figures)
            ('88.1 ± 0.3 (3)', '82.3 ± 2.2', '0.3 (1) †')
        """
        text = f"{mean(self.values):.{digits}f}"
        if len(self.values) > 1:
            text += f" ± {stdev(self.values):.{digits}f} ({len(self.values)})"
        else:
            text += " (1)" if self.spread is None else f" ± {self.spread:.{digits}f}"
        return f"{text} {self.marks}" if self.marks else text


def marks_of(rows: Iterable[Recorded | None]) -> str:
    """The marks that apply to any of these rows."""
    present = [row for row in rows if row is not None]
    return OLDER * any(row.is_older for row in present) + DRIFTED * any(row.has_drifted for row in present)


def legend(text: str) -> list[str]:
    """What the marks in a text mean; nothing without any."""
    meanings = [f"{mark} {meaning}." for mark, meaning in LEGENDS.items() if mark in text]
    return [" ".join(meanings)] if meanings else []


def figure(found: Recorded | None, metric: str, scale: int | float) -> Figure | None:
    """The figure of a row; ``None`` if no run of it has the metric."""
    values = [] if found is None else found.values(metric)
    if found is None or not values:
        return None
    spread = found.records[0].metrics.get(f"{metric}_sd") if len(values) == 1 else None
    return Figure(
        tuple(value * scale for value in values), None if spread is None else spread * scale, marks_of([found])
    )
