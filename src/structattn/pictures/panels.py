"""Many lines on the same scale, each in a panel of its own with the baseline that all are compared with."""

from collections.abc import Sequence

from structattn.pictures.axes import Series, ink
from structattn.pictures.numbers import Number
from structattn.pictures.plot import Plot, axes_of, axis_labels, band, line, path_of
from structattn.pictures.svg import MARGIN, element, number, picture, stroke, text, tooltip, top_of

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
        width: width of a panel, without the text beside it.
        height: height of a panel, likewise.

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
    axes = axes_of([baseline, *series], x_names=x_names, y_label=y_label, percent=percent)
    left = axes.left
    top = top_of(title) + _KEY
    rows = -(-len(series) // columns)

    body = _key(baseline, left, top_of(title) + 10)
    for index, one in enumerate(series):
        row, column = divmod(index, columns)
        corner = (left + column * (width + _GAP), top + row * (height + _HEADING + _GAP) + _HEADING)
        plot = axes.plot(*corner, width, height)
        drawn = [*plot.rules(), *(plot.values(percent=percent) if column == 0 else ())]
        # The places are written below the last panel of each column.
        drawn += plot.below(axes.x_ticks, axes.x_names, 15, size=9.5) if index + columns >= len(series) else []
        drawn += [text(plot.left, plot.top - 7, one.name, size=11.5, width=width)]
        drawn += [band(baseline, plot, role="soft"), band(one, plot, role=ink(0)), _grey(baseline, plot)]
        body.append(element("g", "".join([*drawn, *line(one, 0, plot, percent=percent)]), class_="sa-panel"))
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
    return element("g", tooltip(baseline.name) + element("path", d=path_of(baseline, plot), **_GREY))
