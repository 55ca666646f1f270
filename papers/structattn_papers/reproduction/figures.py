"""Figures of rows: mean and deviation over the seeds of their records."""

from dataclasses import dataclass
from statistics import mean, stdev

from structattn_papers.reproduction.records import Recorded

OLDER = "†"


@dataclass(frozen=True)
class Figure:
    """A figure of a row: the values of its runs in the unit of a table.

    Attributes:
        values: one for each seed.
        spread: the standard deviation over the folds, for cross-validation with one seed.
        is_older: whether its records are older than the row.
    """

    values: tuple[int | float, ...]
    spread: int | float | None = None
    is_older: bool = False

    def text(self, digits: int = 1) -> str:
        """The figure as the text of a cell.

        Example:
            >>> figures = Figure((88.44, 88.07, 87.89)), Figure((82.3,), 2.2), Figure((0.3,), is_older=True)
            >>> tuple(figure.text() for figure in figures)
            ('88.1 ± 0.3 (3)', '82.3 ± 2.2', '0.3 (1) †')
        """
        text = f"{mean(self.values):.{digits}f}"
        if len(self.values) > 1:
            text += f" ± {stdev(self.values):.{digits}f} ({len(self.values)})"
        else:
            text += " (1)" if self.spread is None else f" ± {self.spread:.{digits}f}"
        return f"{text} {OLDER}" if self.is_older else text


def figure(found: Recorded | None, metric: str, scale: int | float) -> Figure | None:
    """The figure of a row; ``None`` if no run of it has the metric."""
    values = [] if found is None else found.values(metric)
    if found is None or not values:
        return None
    spread = found.records[0].metrics.get(f"{metric}_sd") if len(values) == 1 else None
    return Figure(tuple(value * scale for value in values), None if spread is None else spread * scale, found.is_older)
