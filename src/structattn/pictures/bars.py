"""Horizontal bars for named scores: entropies of heads, relations, systems."""

from collections.abc import Callable, Sequence

from structattn.pictures.axes import Series, format_with_errors, ink, nice_ticks, series_legend
from structattn.pictures.drawn_numbers import Number, format_value
from structattn.pictures.svg import (
    MARGIN,
    element,
    fill,
    find_top,
    number,
    picture,
    stroke,
    text,
    text_width,
    tooltip,
    visible,
)


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
        width: width of the plot in pixels, without margins.

    Returns:
        A self-contained SVG document; every bar is one element of class ``sa-bar``.

    Raises:
        ValueError: if a series does not have one value for each label.

    Example:
        >>> bar_chart(["forward", "backward"], [Series("entropy", [], [1.2, 0.4])]).count('class="sa-bar"')
        2
    """
    for bars in series:
        if len(bars.y) != len(labels):
            raise ValueError(f"series {bars.name!r} has {len(bars.y)} values for {len(labels)} labels")
    reach = [0.0, *(value for bars in series for value in bars.reach())]
    ticks = nice_ticks(min(reach), max(reach))
    thick = 18.0 if len(series) == 1 else 13.0
    group = thick * len(series) + 12
    left = MARGIN + min(max((text_width(visible(label), 12) for label in labels), default=0.0), 220.0) + 10
    legend = series_legend(series, left, find_top(title) + 18, room=width, indent=18, sample=_chip)
    top = find_top(title) + (24 + legend.below if legend.body else 0) + 4
    bottom = top + group * len(labels)

    def at(value: Number) -> Number:
        return left + width * (value - ticks[0]) / (ticks[-1] - ticks[0])

    body = []
    for value in ticks:
        line = f"M{number(at(value))} {number(top)}V{number(bottom)}"
        body.append(element("path", d=line, **stroke("soft" if value == 0 else "rule", 0.8)))
        body.append(
            text(at(value), bottom + 16, format_value(value, percent=percent), size=11, anchor="middle", role="soft")
        )
    for row, label in enumerate(labels):
        y = top + row * group + 6
        body.append(text(left - 8, y + thick * len(series) / 2 + 4, label, size=12, anchor="end", width=220.0))
        for index, bars in enumerate(series):
            body += _bar(bars, index, row, label, y=y + index * thick, thick=thick, at=at, percent=percent)
    body += legend.body
    if value_label:
        body.append(text(left + width / 2, bottom + 36, value_label, size=11.5, anchor="middle", role="soft"))
    height = bottom + (42 if value_label else 22) + 8
    label = title or value_label or "bar chart"
    return picture(max(left + width + 64, legend.right) + MARGIN, height, body, label=label, title=title)


def _bar(
    bars: Series,
    index: int,
    row: int,
    label: str,
    *,
    y: Number,
    thick: Number,
    at: Callable[[Number], Number],
    percent: bool,
) -> list[str]:
    value, zero = bars.y[row], at(0.0)
    ends = bars.ends()[row]
    end = at(value)
    hint = f"{label}, {bars.name}: {format_with_errors(value, ends, percent=percent)}"
    box = {"x": min(zero, end), "y": y + 1, "width": abs(end - zero), "height": thick - 2}
    bar = element("rect", rx=1.5, **box, **fill(ink(index)))
    if ends[0] < ends[1]:
        low, high, middle = number(at(ends[0])), number(at(ends[1])), y + thick / 2
        caps = f"M{low} {number(middle - 3)}v6M{high} {number(middle - 3)}v6M{low} {number(middle)}H{high}"
        bar += element("path", d=caps, **stroke("ink", 1.1))
    tip, anchor = (at(ends[1]) + 6, "start") if value >= 0 else (at(ends[0]) - 6, "end")
    position = (tip, y + thick / 2 + 3.8)
    written = text(
        *position, format_value(value, percent=percent, trim=False), size=10.5, anchor=anchor, role="soft", halo=True
    )
    return [element("g", tooltip(hint) + bar, class_="sa-bar"), written]


def _chip(index: int, x: Number, y: Number) -> list[str]:
    return [element("rect", x=x, y=y - 10, width=12, height=12, rx=2, **fill(ink(index)))]
