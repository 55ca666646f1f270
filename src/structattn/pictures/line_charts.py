"""Line charts of scores against a number: accuracy against sentence length, attractors or data size."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from structattn.pictures.axes import Series, format_with_errors, ink, line_style, marker, nice_ticks, series_legend
from structattn.pictures.drawn_numbers import Number, format_value
from structattn.pictures.svg import MARGIN, element, fill, find_top, number, picture, stroke, text, text_width, tooltip


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
            written = format_value(value, percent=percent)
            body.append(text(x, self.at_y(value) + 4, written, size=11, anchor="end", role="soft"))
        return body

    def below(self, values: Sequence[Number], notes: Sequence[str], distance: Number, *, size: Number) -> list[str]:
        """Text under places of the horizontal axis."""
        return [
            text(self.at_x(value), self.bottom + distance, note, size=size, anchor="middle", role="soft")
            for value, note in zip(values, notes, strict=True)
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


def fit_axes(
    series: Sequence[Series], *, x_names: Sequence[str] | None, y_label: str, percent: bool, from_zero: bool = False
) -> Axes:
    """The axes that cover all series; the vertical one has its values and its name on its left."""
    covered = _reach(series, percent=percent)
    y_ticks = nice_ticks(min([0.0, *covered]) if from_zero else min(covered), max(covered))
    left = MARGIN + (18 if y_label else 0) + max(text_width(format_value(t, percent=percent), 11) for t in y_ticks) + 8
    xs = [x for curve in series for x in curve.x]
    x_ticks = [float(i) for i in range(len(x_names))] if x_names is not None else nice_ticks(min(xs), max(xs))
    names = x_names if x_names is not None else [format_value(value) for value in x_ticks]
    low, high = float(min([*xs, *x_ticks])), float(max([*xs, *x_ticks]))
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
    values = [value for curve in series for value in curve.reach()]
    if not values or any(len(curve.x) != len(curve.y) for curve in series):
        raise ValueError("a line chart needs series with at least one place and one value for each")
    if percent and all(0 <= value <= 1 for curve in series for value in curve.y):
        # Values are shares, so an error bar ends at 0 and 1.
        values = [min(max(value, 0.0), 1.0) for value in values]
    return values


def band(curve: Series, plot: Plot, *, role: str) -> str:
    """The range of the errors of a series, shaded."""
    at_y = plot.at_y
    edges = sorted(zip(map(plot.at_x, curve.x), curve.ends(), strict=True))
    outline = [(x, at_y(high)) for x, (_, high) in edges] + [(x, at_y(low)) for x, (low, _) in reversed(edges)]
    path = "L".join(f"{number(x)} {number(y)}" for x, y in outline)
    return element("g", element("path", d=f"M{path}Z", **fill(role)), class_="sa-band", opacity=0.15)


def trace(curve: Series, plot: Plot, *, shift: Number = 0.0) -> str:
    """The path of a line from place to place, from the left."""
    points = sorted((plot.at_x(x) + shift, plot.at_y(value)) for x, value in zip(curve.x, curve.y, strict=True))
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def line(
    curve: Series, index: int, plot: Plot, *, shift: Number = 0.0, percent: bool = False, whiskers: bool = False
) -> list[str]:
    """A line with a marker at each place, and its error bars if ``whiskers``."""
    parts = [element("path", d=trace(curve, plot, shift=shift), **line_style(index))]
    for x_value, value, ends in zip(curve.x, curve.y, curve.ends(), strict=True):
        x, y = plot.at_x(x_value) + shift, plot.at_y(value)
        whisker = ""
        if ends[0] < ends[1] and whiskers:
            low, high = (number(plot.at_y(end)) for end in ends)
            caps = f"M{number(x - 4)} {low}h8M{number(x - 4)} {high}h8M{number(x)} {low}V{high}"
            whisker = element("path", d=caps, **stroke(ink(index), 1.2))
        hint = f"{curve.name}, {format_value(x_value)}: {format_with_errors(value, ends, percent=percent)}"
        parts.append(element("g", tooltip(hint) + whisker + marker(index, x, y), class_="sa-point"))
    return parts


def line_chart(
    series: Sequence[Series],
    *,
    title: str | None = None,
    x_label: str = "",
    y_label: str = "",
    x_names: Sequence[str] | None = None,
    counts: Sequence[int] | None = None,
    percent: bool = False,
    bands: bool = False,
    from_zero: bool = False,
    width: Number = 640.0,
    height: Number = 340.0,
) -> str:
    """Lines with markers, error bars, and the number of examples at each place.

    Args:
        series: the lines.
        title: a heading.
        x_label: name of the horizontal axis.
        y_label: name of the vertical axis.
        x_names: names of the places 0, 1, 2, ... of the horizontal axis; by default it is numeric.
        counts: number of examples at each place of the first series, written under the axis.
        percent: show values as percentages.
        bands: shade the range of the errors, in place of error bars.
        from_zero: start the vertical axis at zero.
        width: width of the plot in pixels, without margins.
        height: height of the plot in pixels, without margins.

    Returns:
        A self-contained SVG document; every point is one element of class ``sa-point``.

    Raises:
        ValueError: if there is nothing to draw or lengths differ.

    Example:
        >>> svg = line_chart([Series("a", [0, 1, 2], [0.9, 0.8, 0.85])], percent=True)
        >>> svg.count('class="sa-point"')
        3
    """
    if counts is not None and series and len(counts) != len(series[0].x):
        raise ValueError(f"got {len(counts)} counts for the {len(series[0].x)} places of {series[0].name!r}")
    axes = fit_axes(series, x_names=x_names, y_label=y_label, percent=percent, from_zero=from_zero)
    left = axes.left
    legend = series_legend(series, left, find_top(title) + 14, room=width, indent=32, sample=_sample)
    top = find_top(title) + (24 + legend.below if legend.body else 4)
    plot = axes.plot(left, top, width, height)

    body = [*plot.rules(), *plot.values(percent=percent), *plot.below(axes.x_ticks, axes.x_names, 17, size=11)]
    if counts is not None:
        notes = [f"n = {count}" if len(counts) < 13 else str(count) for count in counts]
        body += plot.below(series[0].x, notes, 31, size=9.5)
    if bands:
        # Below all lines, so that none is hidden.
        body += [band(curve, plot, role=ink(index)) for index, curve in enumerate(series)]
    # Error bars at one place would hide each other; named places have room to set the series side by side.
    apart = 5.0 if x_names is not None and not bands and any(curve.errors is not None for curve in series) else 0.0
    for index, curve in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * apart
        body += line(curve, index, plot, shift=shift, percent=percent, whiskers=not bands)
    body += legend.body
    floor = plot.bottom + (34 if counts is not None else 20)
    body += axis_labels(x_label, y_label, middle=(left + width / 2, top + height / 2), floor=floor)
    floor += 20 if x_label else 0
    label = title or y_label or "line chart"
    return picture(max(left + width, legend.right) + MARGIN, floor + 12, body, label=label, title=title)


def _sample(index: int, x: Number, y: Number) -> list[str]:
    return [element("path", d=f"M{number(x)} {number(y - 4)}h26", **line_style(index)), marker(index, x + 13, y - 4)]


_GAP = 26.0
_HEADING = 20.0
_KEY = 18.0
_GREY = {**stroke("soft", 1.6), "stroke_dasharray": "4 3", "stroke_linejoin": "round"}


def line_panels(
    series: Sequence[Series],
    baseline: Series,
    *,
    title: str | None = None,
    x_label: str = "",
    y_label: str = "",
    x_names: Sequence[str] | None = None,
    percent: bool = False,
    columns: int = 3,
    width: Number = 220.0,
    height: Number = 130.0,
) -> str:
    """Small charts on one scale, each with a line and its band over those of a grey baseline.

    It shows more lines than can be told apart in one ``line_chart``.

    Args:
        series: the lines, one for each panel.
        baseline: the line in all panels.
        title: a heading.
        x_label: name of the horizontal axis.
        y_label: name of the vertical axis.
        x_names: names of the places 0, 1, 2, ... of the horizontal axis; by default it is numeric.
        percent: show values as percentages.
        columns: number of panels side by side.
        width: width of a panel in pixels, without the text beside it.
        height: height of a panel in pixels, without its heading and the text below it.

    Returns:
        A self-contained SVG document.

    Raises:
        ValueError: if there is nothing to draw, or ``columns`` is not positive.

    Example:
        >>> plain = Series("plain", [0, 1], [0.6, 0.8], errors=[0.1, 0.1])
        >>> svg = line_panels([Series("tree", [0, 1], [0.7, 0.8]), Series("order", [0, 1], [0.6, 0.9])], plain)
        >>> svg.count('class="sa-panel"')
        2
    """
    if not series or columns < 1:
        raise ValueError(f"expected at least one series and one column, got {len(series)} and {columns}")
    axes = fit_axes([baseline, *series], x_names=x_names, y_label=y_label, percent=percent)
    left = axes.left
    top = find_top(title) + _KEY
    rows = -(-len(series) // columns)

    body = _key(baseline, left, find_top(title) + 10)
    for index, curve in enumerate(series):
        row, column = divmod(index, columns)
        corner = (left + column * (width + _GAP), top + row * (height + _HEADING + _GAP) + _HEADING)
        plot = axes.plot(*corner, width, height)
        drawn = [*plot.rules(), *(plot.values(percent=percent) if column == 0 else ())]
        # The places are written below the last panel of each column.
        drawn += plot.below(axes.x_ticks, axes.x_names, 15, size=9.5) if index + columns >= len(series) else []
        drawn += [text(plot.left, plot.top - 7, curve.name, size=11.5, width=width)]
        drawn += [band(baseline, plot, role="soft"), band(curve, plot, role=ink(0)), _grey(baseline, plot)]
        body.append(element("g", "".join([*drawn, *line(curve, 0, plot, percent=percent)]), class_="sa-panel"))
    floor = top + rows * (height + _HEADING + _GAP) - _GAP + 18
    right = left + min(columns, len(series)) * (width + _GAP) - _GAP
    middle = ((left + right) / 2, top + rows * (height + _HEADING + _GAP) / 2)
    body += axis_labels(x_label, y_label, middle=middle, floor=floor)
    floor += 20 if x_label else 0
    return picture(right + MARGIN, floor + 12, body, label=title or y_label or "line charts", title=title)


def _key(baseline: Series, left: Number, y: Number) -> list[str]:
    """The key to the grey line."""
    sample = element("path", d=f"M{number(left)} {number(y - 4)}h26", **_GREY)
    return [sample, text(left + 32, y, f"{baseline.name}, in every panel", size=11.5)]


def _grey(baseline: Series, plot: Plot) -> str:
    return element("g", tooltip(baseline.name) + element("path", d=trace(baseline, plot), **_GREY))
