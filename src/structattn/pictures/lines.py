"""Lines for scores against a number: accuracy against sentence length, attractors or data size."""

from collections.abc import Sequence
from typing import NamedTuple

from structattn.pictures.axes import Series, ink, line_style, marker, nice_ticks, series_legend, with_errors
from structattn.pictures.numbers import Number, rounded
from structattn.pictures.svg import MARGIN, element, fill, number, picture, stroke, text, text_width, tooltip, top_of


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
    """Lines with markers, error bars, and the number of examples behind each place.

    Args:
        series: the lines.
        title: a heading.
        x_label: name of the horizontal axis.
        y_label: name of the vertical axis.
        x_names: names of the places 0, 1, 2, ... of the horizontal axis; by default it is numeric.
        counts: number of examples at each place of the first series, written under the axis.
        percent: show values as percentages.
        bands: shade what lies within the errors, in place of error bars.
        from_zero: let the vertical axis start at zero.
        width: of the plot, without margins.
        height: of the plot, without margins.

    Raises:
        ValueError: if there is nothing to draw or lengths differ.

    Example:
        >>> svg = line_chart([Series("a", [0, 1, 2], [0.9, 0.8, 0.85])], percent=True)
        >>> svg.count('class="sa-point"')
        3
    """
    reach = _reach(series, counts, percent=percent)
    y_ticks = nice_ticks(min([0.0, *reach]) if from_zero else min(reach), max(reach))
    left = MARGIN + (18 if y_label else 0) + max(text_width(rounded(t, percent=percent), 11) for t in y_ticks) + 8
    legend = series_legend(series, left, top_of(title) + 14, room=width, indent=32, sample=_sample)
    top = top_of(title) + (24 + legend.below if legend.body else 4)
    places = [x for one in series for x in one.x]
    x_ticks = [float(i) for i in range(len(x_names))] if x_names is not None else nice_ticks(min(places), max(places))
    plot = _Plot(left, top, width, height, *_ends(places, x_ticks, has_names=x_names is not None), y_ticks)

    body = plot.values(percent=percent)
    names = x_names if x_names is not None else [rounded(value) for value in x_ticks]
    body += plot.below(x_ticks, names, 17, size=11)
    if counts is not None:
        notes = [f"n = {count}" if len(counts) < 13 else str(count) for count in counts]
        body += plot.below(series[0].x, notes, 31, size=9.5)
    if bands:
        # Below all lines, so that none is hidden.
        body += [_band(one, index, plot) for index, one in enumerate(series)]
    # Error bars at one place would hide each other; named places have room to set the series side by side.
    apart = 5.0 if x_names is not None and not bands and any(one.errors is not None for one in series) else 0.0
    for index, one in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * apart
        body += _line(one, index, plot, shift, percent=percent, whiskers=not bands)
    body += legend.body
    floor = plot.bottom + (34 if counts is not None else 20)
    if x_label:
        floor += 20
        body.append(text(left + width / 2, floor - 2, x_label, size=11.5, anchor="middle", role="soft"))
    if y_label:
        place = (MARGIN + 9, top + height / 2)
        body.append(text(*place, y_label, size=11.5, anchor="middle", role="soft", rotate=-90))
    label = title or y_label or "line chart"
    return picture(max(left + width, legend.right) + MARGIN, floor + 12, body, label=label, title=title)


class _Plot(NamedTuple):
    """The field that lines are drawn in: its corner and size, the values at its ends, and the vertical axis."""

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
        return self.top + self.height

    def at_x(self, value: Number) -> Number:
        beyond = value - self.low + self.spare
        return self.left + self.width * beyond / (self.high - self.low + 2 * self.spare)

    def at_y(self, value: Number) -> Number:
        inside = min(max(value, self.ticks[0]), self.ticks[-1])
        return self.bottom - self.height * (inside - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])

    def values(self, *, percent: bool) -> list[str]:
        """The rules of the vertical axis, with their values."""
        body = []
        for value in self.ticks:
            y = self.at_y(value)
            line = f"M{number(self.left)} {number(y)}h{number(self.width)}"
            written = rounded(value, percent=percent)
            body.append(element("path", d=line, **stroke("rule", 0.8)))
            body.append(text(self.left - 7, y + 4, written, size=11, anchor="end", role="soft"))
        return body

    def below(self, places: Sequence[Number], notes: Sequence[str], distance: Number, *, size: Number) -> list[str]:
        """What is written under places of the horizontal axis."""
        return [
            text(self.at_x(place), self.bottom + distance, note, size=size, anchor="middle", role="soft")
            for place, note in zip(places, notes, strict=True)
        ]


def _reach(series: Sequence[Series], counts: Sequence[int] | None, *, percent: bool) -> list[Number]:
    """What the vertical axis has to cover."""
    values = [value for one in series for value in one.reach()]
    if not values or any(len(one.x) != len(one.y) for one in series):
        raise ValueError("a line chart needs series with at least one place and one value for each")
    if counts is not None and len(counts) != len(series[0].x):
        raise ValueError(f"got {len(counts)} counts for the {len(series[0].x)} places of {series[0].name!r}")
    if percent and all(0 <= value <= 1 for one in series for value in one.y):
        # Shares: a bar ends where there are none beyond.
        values = [min(max(value, 0.0), 1.0) for value in values]
    return values


def _ends(places: Sequence[Number], ticks: Sequence[Number], *, has_names: bool) -> tuple[Number, Number, Number]:
    """The first and the last place of the horizontal axis, and what is left free beyond them."""
    low, high = float(min([*places, *ticks])), float(max([*places, *ticks]))
    return low, high, (high - low or 1.0) * (0.5 / max(len(ticks), 1) if has_names else 0.03)


def _band(one: Series, index: int, plot: _Plot) -> str:
    at_y = plot.at_y
    ends = sorted(zip(map(plot.at_x, one.x), one.ends(), strict=True))
    edge = [(x, at_y(high)) for x, (_, high) in ends] + [(x, at_y(low)) for x, (low, _) in reversed(ends)]
    path = "L".join(f"{number(x)} {number(y)}" for x, y in edge)
    return element("g", element("path", d=f"M{path}Z", **fill(ink(index))), class_="sa-band", opacity=0.15)


def _line(one: Series, index: int, plot: _Plot, shift: Number, *, percent: bool, whiskers: bool) -> list[str]:
    places, heights = [plot.at_x(x) + shift for x in one.x], [plot.at_y(value) for value in one.y]
    order = sorted(range(len(places)), key=lambda i: places[i])
    path = "".join(f"{'L' if rank else 'M'}{number(places[i])} {number(heights[i])}" for rank, i in enumerate(order))
    parts = [element("path", d=path, **line_style(index))]
    for x, y, place, value, ends in zip(places, heights, one.x, one.y, one.ends(), strict=True):
        whisker = ""
        if ends[0] < ends[1] and whiskers:
            low, high = (number(plot.at_y(end)) for end in ends)
            caps = f"M{number(x - 4)} {low}h8M{number(x - 4)} {high}h8M{number(x)} {low}V{high}"
            whisker = element("path", d=caps, **stroke(ink(index), 1.2))
        hint = f"{one.name}, {rounded(place)}: {with_errors(value, ends, percent=percent)}"
        parts.append(element("g", tooltip(hint) + whisker + marker(index, x, y), class_="sa-point"))
    return parts


def _sample(index: int, x: Number, y: Number) -> list[str]:
    line = element("path", d=f"M{number(x)} {number(y - 4)}h26", **line_style(index))
    return [line, marker(index, x + 13, y - 4)]
