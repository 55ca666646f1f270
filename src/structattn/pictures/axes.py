"""The common parts of charts: series of numbers, round ticks, the marks that tell series apart, and their legend.

Series differ in colour, dash and marker, so that they can be told apart in print and by colour-blind readers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from structattn.pictures.colours import NUM_SERIES
from structattn.pictures.drawn_numbers import Number, format_value
from structattn.pictures.svg import element, fill, number, stroke, text, text_width

# The size of the names of series.
_KEY = 11.5
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "12 4", "4 2")


@dataclass(frozen=True)
class Series:
    """One line of a chart, or one set of bars.

    Attributes:
        name: for the legend.
        x: places on the horizontal axis; for bars, leave it empty.
        y: one value for each place.
        errors: length of the error bar at each place, to both sides, for example a standard deviation over seeds; or
            below and above, as a pair.

    Raises:
        ValueError: if lengths differ or a value is not finite.

    Example:
        >>> Series("DiSAN", [0, 1], [0.9, 0.8], errors=[0.01, 0.02]).y
        [0.9, 0.8]
    """

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    errors: Sequence[Number | tuple[Number, Number]] | None = None

    def __post_init__(self) -> None:
        for kind, numbers in (("places", self.x), ("errors", self.errors)):
            if numbers is not None and len(numbers) not in ({len(self.y)} if kind == "errors" else {0, len(self.y)}):
                raise ValueError(f"series {self.name!r} has {len(self.y)} values but {len(numbers)} {kind}")
        for value in [*self.x, *self.y, *self.reach()]:
            if not math.isfinite(value):
                raise ValueError(f"series {self.name!r} contains {value}; expected finite numbers")

    def reach(self) -> list[Number]:
        """Values and the ends of their error bars."""
        return [end for ends in self.ends() for end in ends]

    def ends(self) -> list[tuple[Number, Number]]:
        """Where the error bar of each value begins and ends: at the value itself if there are no errors.

        Example:
            >>> Series("heads", [], [0.5, 0.25], errors=[0.25, (0.25, 0.5)]).ends()
            [(0.25, 0.75), (0.0, 0.75)]
        """
        errors = self.errors if self.errors is not None else [0.0] * len(self.y)
        pairs = [error if isinstance(error, tuple) else (error, error) for error in errors]
        return [(y - below, y + above) for y, (below, above) in zip(self.y, pairs, strict=True)]


def nice_ticks(low: Number, high: Number, *, count: int = 5) -> list[Number]:
    """Round numbers that cover an interval, about ``count`` of them."""
    if high <= low:
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    rough = (high - low) / max(count - 1, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def ink(index: int) -> str:
    """The ink of a series; after six series the inks repeat."""
    return f"series{index % NUM_SERIES}"


def line_style(index: int) -> dict[str, object]:
    """The attributes of the line of a series."""
    return {**stroke(ink(index), 2.0), "stroke_dasharray": _DASHES[_shape(index)], "stroke_linejoin": "round"}


def marker(index: int, x: Number, y: Number, *, size: Number = 4.2) -> str:
    """The marker of a series: circle, square, triangle, diamond, cross, ring; the seventh is the first ink's square."""
    paint = fill(ink(index))
    box = {"x": x - size * 0.85, "y": y - size * 0.85, "width": size * 1.7, "height": size * 1.7}
    across, up = number(x), number(y - size * 1.2)
    shapes = (
        lambda: element("circle", cx=x, cy=y, r=size, **paint),
        lambda: element("rect", **box, **paint),
        lambda: element("path", d=f"M{across} {up}" + _triangle(size * 1.15), **paint),
        lambda: element("path", d=f"M{across} {up}" + _diamond(size * 1.2), **paint),
        lambda: element("path", d=f"M{number(x - size)} {number(y - size)}" + _cross(size), **stroke(ink(index), 2.2)),
        lambda: element("circle", cx=x, cy=y, r=size - 0.4, **{**stroke(ink(index), 2.0), "fill": "none"}),
    )
    return shapes[_shape(index)]()


class Legend(NamedTuple):
    """The names of several series and samples of their marks: elements, depth below the first line, and right end."""

    body: list[str]
    below: Number
    right: Number


def series_legend(
    series: Sequence[Series],
    left: Number,
    y: Number,
    *,
    room: Number,
    indent: Number,
    sample: Callable[[int, Number, Number], list[str]],
) -> Legend:
    """The legend, on the base line ``y`` and on further lines if there is no room; empty for a single series."""
    body: list[str] = []
    x, below, right = left, 0.0, left
    for index, entry in enumerate(series if len(series) > 1 else ()):
        end = indent + text_width(entry.name, _KEY)
        if x > left and x + end > left + room:
            x, below = left, below + 18.0
        body += [*sample(index, x, y + below), text(x + indent, y + below, entry.name, size=_KEY)]
        x += end + 20
        right = max(right, x)
    return Legend(body, below, right)


def format_with_errors(value: Number, ends: tuple[Number, Number], *, percent: bool) -> str:
    """A value for a tooltip, with the ends of its error bar if it has one."""
    below, above = value - ends[0], ends[1] - value
    middle = format_value(value, percent=percent)
    if not below and not above:
        return middle
    if math.isclose(below, above, rel_tol=1e-6):
        return f"{middle} ± {format_value(above, percent=percent)}"
    return f"{middle} ({format_value(ends[0], percent=percent)} to {format_value(ends[1], percent=percent)})"


def _shape(index: int) -> int:
    """The number of a marker or dash: repeated inks get different ones, so that 36 series can be told apart."""
    return (index + index // NUM_SERIES) % NUM_SERIES


def _triangle(size: Number) -> str:
    return f"l{number(size)} {number(1.75 * size)}h{number(-2 * size)}z"


def _diamond(size: Number) -> str:
    s = number(size)
    return f"l{s} {s}l-{s} {s}l-{s} -{s}z"


def _cross(size: Number) -> str:
    s = number(2 * size)
    return f"l{s} {s}m0 -{s}l-{s} {s}"
