"""The area that lines are drawn in: its axes, and the lines, markers and bands of series in it."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from structattn.pictures.axes import Series, ink, line_style, marker, nice_ticks, with_errors
from structattn.pictures.numbers import Number, rounded
from structattn.pictures.svg import MARGIN, element, fill, number, stroke, text, text_width, tooltip


class Plot(NamedTuple):
    """A plot area: its corner and size, the values at its ends, the space left free beyond them, and the y ticks."""

    left: Number
    top: Number
    width: Number
    height: Number
    low: Number
    high: Number
    spare: Number
    ticks: Sequence[Number]

    @property
    def bottom(self) -> Number:
        """The height of the horizontal axis on the page."""
        return self.top + self.height

    def at_x(self, value: Number) -> Number:
        """The horizontal position of a place on the page."""
        beyond = value - self.low + self.spare
        return self.left + self.width * beyond / (self.high - self.low + 2 * self.spare)

    def at_y(self, value: Number) -> Number:
        """The vertical position of a value on the page; values beyond the axis are drawn at its end."""
        inside = min(max(value, self.ticks[0]), self.ticks[-1])
        return self.bottom - self.height * (inside - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])

    def rules(self) -> list[str]:
        """A rule at each tick of the vertical axis."""
        rule = stroke("rule", 0.8)
        heights = [number(self.at_y(value)) for value in self.ticks]
        return [element("path", d=f"M{number(self.left)} {y}h{number(self.width)}", **rule) for y in heights]

    def values(self, *, percent: bool) -> list[str]:
        """The values at the ticks of the vertical axis."""
        x, body = self.left - 7, []
        for value in self.ticks:
            written = rounded(value, percent=percent)
            body.append(text(x, self.at_y(value) + 4, written, size=11, anchor="end", role="soft"))
        return body

    def below(self, places: Sequence[Number], notes: Sequence[str], distance: Number, *, size: Number) -> list[str]:
        """Text under places of the horizontal axis."""
        return [
            text(self.at_x(place), self.bottom + distance, note, size=size, anchor="middle", role="soft")
            for place, note in zip(places, notes, strict=True)
        ]


class Axes(NamedTuple):
    """The axes that plots on the same scale share: left end of the first, both axes' ticks, and names of the places."""

    left: Number
    x_ticks: Sequence[Number]
    x_names: Sequence[str]
    y_ticks: Sequence[Number]
    low: Number
    high: Number
    spare: Number

    def plot(self, left: Number, top: Number, width: Number, height: Number) -> Plot:
        """A plot area with these axes."""
        return Plot(left, top, width, height, self.low, self.high, self.spare, self.y_ticks)


def axes_of(
    series: Sequence[Series], *, x_names: Sequence[str] | None, y_label: str, percent: bool, from_zero: bool = False
) -> Axes:
    """The axes that cover all series; the vertical one has its values and its name on its left.

    Raises:
        ValueError: if there is nothing to draw, or a series has no place for each value.
    """
    covered = _reach(series, percent=percent)
    y_ticks = nice_ticks(min([0.0, *covered]) if from_zero else min(covered), max(covered))
    left = MARGIN + (18 if y_label else 0) + max(text_width(rounded(t, percent=percent), 11) for t in y_ticks) + 8
    places = [x for one in series for x in one.x]
    x_ticks = [float(i) for i in range(len(x_names))] if x_names is not None else nice_ticks(min(places), max(places))
    names = x_names if x_names is not None else [rounded(value) for value in x_ticks]
    low, high = float(min([*places, *x_ticks])), float(max([*places, *x_ticks]))
    # The space left free beyond the first and the last place.
    spare = (high - low or 1.0) * (0.5 / max(len(x_ticks), 1) if x_names is not None else 0.03)
    return Axes(left, x_ticks, names, y_ticks, low, high, spare)


def axis_labels(x_label: str, y_label: str, *, middle: tuple[Number, Number], floor: Number) -> list[str]:
    """The names of the axes, below ``floor`` and at the left margin, centred on ``middle``."""
    written = partial(text, size=11.5, anchor="middle", role="soft")
    below = [written(middle[0], floor + 18, x_label)] if x_label else []
    return below + ([written(MARGIN + 9, middle[1], y_label, rotate=-90)] if y_label else [])


def _reach(series: Sequence[Series], *, percent: bool) -> list[Number]:
    """The values that the vertical axis has to cover."""
    values = [value for one in series for value in one.reach()]
    if not values or any(len(one.x) != len(one.y) for one in series):
        raise ValueError("a line chart needs series with at least one place and one value for each")
    if percent and all(0 <= value <= 1 for one in series for value in one.y):
        # Values are shares, so an error bar ends at 0 and 1.
        values = [min(max(value, 0.0), 1.0) for value in values]
    return values


def band(one: Series, plot: Plot, *, role: str) -> str:
    """The range of the errors of a series, shaded."""
    at_y = plot.at_y
    reached = sorted(zip(map(plot.at_x, one.x), one.ends(), strict=True))
    edge = [(x, at_y(high)) for x, (_, high) in reached] + [(x, at_y(low)) for x, (low, _) in reversed(reached)]
    path = "L".join(f"{number(x)} {number(y)}" for x, y in edge)
    return element("g", element("path", d=f"M{path}Z", **fill(role)), class_="sa-band", opacity=0.15)


def path_of(one: Series, plot: Plot, *, shift: Number = 0.0) -> str:
    """The path of a line from place to place, from the left."""
    points = sorted((plot.at_x(x) + shift, plot.at_y(value)) for x, value in zip(one.x, one.y, strict=True))
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def line(
    one: Series, index: int, plot: Plot, *, shift: Number = 0.0, percent: bool = False, whiskers: bool = False
) -> list[str]:
    """A line with a marker at each place, and its error bars if ``whiskers``."""
    parts = [element("path", d=path_of(one, plot, shift=shift), **line_style(index))]
    for place, value, reached in zip(one.x, one.y, one.ends(), strict=True):
        x, y = plot.at_x(place) + shift, plot.at_y(value)
        whisker = ""
        if reached[0] < reached[1] and whiskers:
            low, high = (number(plot.at_y(end)) for end in reached)
            caps = f"M{number(x - 4)} {low}h8M{number(x - 4)} {high}h8M{number(x)} {low}V{high}"
            whisker = element("path", d=caps, **stroke(ink(index), 1.2))
        hint = f"{one.name}, {rounded(place)}: {with_errors(value, reached, percent=percent)}"
        parts.append(element("g", tooltip(hint) + whisker + marker(index, x, y), class_="sa-point"))
    return parts
