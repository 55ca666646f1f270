"""Bars and lines for scores: accuracy against sentence length, attractors or data size, with deviations and counts."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from structattn.pictures.axes import Series, ink, line_style, marker, nice_ticks
from structattn.pictures.numbers import Number, rounded
from structattn.pictures.svg import (
    MARGIN,
    element,
    fill,
    number,
    picture,
    stroke,
    text,
    text_width,
    tooltip,
    top_of,
    visible,
)

_KEY = 11.5  # the size of the names of series


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
    values = [value for one in series for value in one.reach()]
    places = [x for one in series for x in one.x]
    if not values or any(len(one.x) != len(one.y) for one in series):
        raise ValueError("a line chart needs series with at least one place and one value for each")
    if counts is not None and len(counts) != len(series[0].x):
        raise ValueError(f"got {len(counts)} counts for the {len(series[0].x)} places of {series[0].name!r}")
    if percent and all(0 <= value <= 1 for one in series for value in one.y):
        # Shares: a bar ends where there are none beyond.
        values = [min(max(value, 0.0), 1.0) for value in values]
    y_ticks = nice_ticks(min([0.0, *values]) if from_zero else min(values), max(values))
    x_ticks = [float(i) for i in range(len(x_names))] if x_names is not None else nice_ticks(min(places), max(places))
    low_x, high_x = float(min([*places, *x_ticks])), float(max([*places, *x_ticks]))
    spare = (high_x - low_x or 1.0) * (0.5 / max(len(x_names), 1) if x_names is not None else 0.03)
    left = MARGIN + (18 if y_label else 0) + max(text_width(rounded(t, percent=percent), 11) for t in y_ticks) + 8
    legend = _legend(series, left, top_of(title) + 14, room=width, indent=32, sample=_sample)
    top = top_of(title) + (24 + legend.below if legend.body else 4)
    bottom = top + height

    def at_x(value: Number) -> Number:
        return left + width * (value - low_x + spare) / (high_x - low_x + 2 * spare)

    def at_y(value: Number) -> Number:
        inside = min(max(value, y_ticks[0]), y_ticks[-1])
        return bottom - height * (inside - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    body = []
    for value in y_ticks:
        y = at_y(value)
        body.append(element("path", d=f"M{number(left)} {number(y)}h{number(width)}", **stroke("rule", 0.8)))
        body.append(text(left - 7, y + 4, rounded(value, percent=percent), size=11, anchor="end", role="soft"))
    for index, value in enumerate(x_ticks):
        name = x_names[index] if x_names is not None else rounded(value)
        body.append(text(at_x(value), bottom + 17, name, size=11, anchor="middle", role="soft"))
    for x, count in zip(series[0].x, counts or (), strict=False):
        note = f"n = {count}" if len(counts or ()) < 13 else str(count)
        body.append(text(at_x(x), bottom + 31, note, size=9.5, anchor="middle", role="soft"))
    # Error bars at one place would hide each other; named places have room to set the series side by side.
    apart = 5.0 if x_names is not None and not bands and any(one.errors is not None for one in series) else 0.0
    if bands:
        # Below all lines, so that none is hidden.
        body += [_band(one, index, [at_x(x) for x in one.x], at_y) for index, one in enumerate(series)]
    for index, one in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * apart
        beside = [at_x(x) + shift for x in one.x]
        body += _line(one, index, beside, at_y, percent=percent, whiskers=not bands)
    body += legend.body
    floor = bottom + (34 if counts is not None else 20)
    if x_label:
        floor += 20
        body.append(text(left + width / 2, floor - 2, x_label, size=11.5, anchor="middle", role="soft"))
    if y_label:
        place = (MARGIN + 9, top + height / 2)
        body.append(text(*place, y_label, size=11.5, anchor="middle", role="soft", rotate=-90))
    label = title or y_label or "line chart"
    return picture(max(left + width, legend.right) + MARGIN, floor + 12, body, label=label, title=title)


def bar_chart(
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    title: str | None = None,
    value_label: str = "",
    percent: bool = False,
    width: Number = 420.0,
) -> str:
    """Horizontal bars, grouped by label, with their values written at the end and error bars if there are any.

    Args:
        labels: one for each group of bars.
        series: one bar for each label; the places ``x`` are not used.
        title: a heading.
        value_label: name of the quantity.
        percent: show values as percentages.
        width: of the plot, without margins.

    Raises:
        ValueError: if a series does not have one value for each label.

    Example:
        >>> bar_chart(["forward", "backward"], [Series("entropy", [], [1.2, 0.4])]).count('class="sa-bar"')
        2
    """
    for one in series:
        if len(one.y) != len(labels):
            raise ValueError(f"series {one.name!r} has {len(one.y)} values for {len(labels)} labels")
    reach = [0.0, *(value for one in series for value in one.reach())]
    ticks = nice_ticks(min(reach), max(reach))
    thick = 18.0 if len(series) == 1 else 13.0
    group = thick * len(series) + 12
    left = MARGIN + min(max((text_width(visible(label), 12) for label in labels), default=0.0), 220.0) + 10
    legend = _legend(series, left, top_of(title) + 18, room=width, indent=18, sample=_chip)
    top = top_of(title) + (24 + legend.below if legend.body else 0) + 4
    bottom = top + group * len(labels)

    def at(value: Number) -> Number:
        return left + width * (value - ticks[0]) / (ticks[-1] - ticks[0])

    body = []
    for value in ticks:
        line = f"M{number(at(value))} {number(top)}V{number(bottom)}"
        body.append(element("path", d=line, **stroke("soft" if value == 0 else "rule", 0.8)))
        body.append(
            text(at(value), bottom + 16, rounded(value, percent=percent), size=11, anchor="middle", role="soft")
        )
    for row, label in enumerate(labels):
        y = top + row * group + 6
        body.append(text(left - 8, y + thick * len(series) / 2 + 4, label, size=12, anchor="end", width=220.0))
        for index, one in enumerate(series):
            body += _bar(one, index, row, label, y=y + index * thick, thick=thick, at=at, percent=percent)
    body += legend.body
    if value_label:
        body.append(text(left + width / 2, bottom + 36, value_label, size=11.5, anchor="middle", role="soft"))
    height = bottom + (42 if value_label else 22) + 8
    label = title or value_label or "bar chart"
    return picture(max(left + width + 64, legend.right) + MARGIN, height, body, label=label, title=title)


class _Legend(NamedTuple):
    """The names of several series, beside samples of their marks: what is drawn, how far it goes below its first line,
    and where it ends on the right."""

    body: list[str]
    below: Number
    right: Number


def _legend(
    series: Sequence[Series],
    left: Number,
    y: Number,
    *,
    room: Number,
    indent: Number,
    sample: Callable[[int, Number, Number], list[str]],
) -> _Legend:
    """The legend, on the base line ``y`` and on further ones where there is no room; empty for a single series."""
    body: list[str] = []
    x, below, right = left, 0.0, left
    for index, one in enumerate(series if len(series) > 1 else ()):
        end = indent + text_width(one.name, _KEY)
        if x > left and x + end > left + room:
            x, below = left, below + 18.0
        body += [*sample(index, x, y + below), text(x + indent, y + below, one.name, size=_KEY)]
        x += end + 20
        right = max(right, x)
    return _Legend(body, below, right)


def _chip(index: int, x: Number, y: Number) -> list[str]:
    return [element("rect", x=x, y=y - 10, width=12, height=12, rx=2, **fill(ink(index)))]


def _band(one: Series, index: int, places: Sequence[Number], at_y: Callable[[Number], Number]) -> str:
    ends = sorted(zip(places, one.ends(), strict=True))
    edge = [(x, at_y(high)) for x, (_, high) in ends] + [(x, at_y(low)) for x, (low, _) in reversed(ends)]
    path = "L".join(f"{number(x)} {number(y)}" for x, y in edge)
    return element("g", element("path", d=f"M{path}Z", **fill(ink(index))), class_="sa-band", opacity=0.15)


def _line(
    one: Series,
    index: int,
    places: Sequence[Number],
    at_y: Callable[[Number], Number],
    *,
    percent: bool,
    whiskers: bool,
) -> list[str]:
    heights = [at_y(value) for value in one.y]
    order = sorted(range(len(places)), key=lambda i: places[i])
    path = "".join(f"{'L' if rank else 'M'}{number(places[i])} {number(heights[i])}" for rank, i in enumerate(order))
    parts = [element("path", d=path, **line_style(index))]
    for x, y, place, value, ends in zip(places, heights, one.x, one.y, one.ends(), strict=True):
        whisker = ""
        if ends[0] < ends[1] and whiskers:
            low, high = (number(at_y(end)) for end in ends)
            caps = f"M{number(x - 4)} {low}h8M{number(x - 4)} {high}h8M{number(x)} {low}V{high}"
            whisker = element("path", d=caps, **stroke(ink(index), 1.2))
        hint = f"{one.name}, {rounded(place)}: {_with_errors(value, ends, percent=percent)}"
        parts.append(element("g", tooltip(hint) + whisker + marker(index, x, y), class_="sa-point"))
    return parts


def _bar(
    one: Series,
    index: int,
    row: int,
    label: str,
    *,
    y: Number,
    thick: Number,
    at: Callable[[Number], Number],
    percent: bool,
) -> list[str]:
    value, zero = one.y[row], at(0.0)
    ends = one.ends()[row]
    end = at(value)
    hint = f"{label}, {one.name}: {_with_errors(value, ends, percent=percent)}"
    box = {"x": min(zero, end), "y": y + 1, "width": abs(end - zero), "height": thick - 2}
    bar = element("rect", rx=1.5, **box, **fill(ink(index)))
    if ends[0] < ends[1]:
        low, high, middle = number(at(ends[0])), number(at(ends[1])), y + thick / 2
        caps = f"M{low} {number(middle - 3)}v6M{high} {number(middle - 3)}v6M{low} {number(middle)}H{high}"
        bar += element("path", d=caps, **stroke("ink", 1.1))
    tip, anchor = (at(ends[1]) + 6, "start") if value >= 0 else (at(ends[0]) - 6, "end")
    place = (tip, y + thick / 2 + 3.8)
    written = text(
        *place, rounded(value, percent=percent, trim=False), size=10.5, anchor=anchor, role="soft", halo=True
    )
    return [element("g", tooltip(hint) + bar, class_="sa-bar"), written]


def _with_errors(value: Number, ends: tuple[Number, Number], *, percent: bool) -> str:
    """A value as a tooltip has it, with the ends of its error bar where it has one."""
    below, above = value - ends[0], ends[1] - value
    said = rounded(value, percent=percent)
    if not below and not above:
        return said
    if math.isclose(below, above, rel_tol=1e-6):
        return f"{said} ± {rounded(above, percent=percent)}"
    return f"{said} ({rounded(ends[0], percent=percent)} to {rounded(ends[1], percent=percent)})"


def _sample(index: int, x: Number, y: Number) -> list[str]:
    line = element("path", d=f"M{number(x)} {number(y - 4)}h26", **line_style(index))
    return [line, marker(index, x + 13, y - 4)]
