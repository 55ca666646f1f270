"""Line charts of scores against a number: accuracy against sentence length, attractors or data size."""

from collections.abc import Sequence

from structattn.pictures.axes import Series, ink, line_style, marker, series_legend
from structattn.pictures.numbers import Number
from structattn.pictures.plot import axes_of, axis_labels, band, line
from structattn.pictures.svg import MARGIN, element, number, picture, top_of


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
        width: width of the plot, without margins.
        height: height of the plot, without margins.

    Raises:
        ValueError: if there is nothing to draw or lengths differ.

    Example:
        >>> svg = line_chart([Series("a", [0, 1, 2], [0.9, 0.8, 0.85])], percent=True)
        >>> svg.count('class="sa-point"')
        3
    """
    if counts is not None and series and len(counts) != len(series[0].x):
        raise ValueError(f"got {len(counts)} counts for the {len(series[0].x)} places of {series[0].name!r}")
    axes = axes_of(series, x_names=x_names, y_label=y_label, percent=percent, from_zero=from_zero)
    left = axes.left
    legend = series_legend(series, left, top_of(title) + 14, room=width, indent=32, sample=_sample)
    top = top_of(title) + (24 + legend.below if legend.body else 4)
    plot = axes.plot(left, top, width, height)

    body = [*plot.rules(), *plot.values(percent=percent), *plot.below(axes.x_ticks, axes.x_names, 17, size=11)]
    if counts is not None:
        notes = [f"n = {count}" if len(counts) < 13 else str(count) for count in counts]
        body += plot.below(series[0].x, notes, 31, size=9.5)
    if bands:
        # Below all lines, so that none is hidden.
        body += [band(one, plot, role=ink(index)) for index, one in enumerate(series)]
    # Error bars at one place would hide each other; named places have room to set the series side by side.
    apart = 5.0 if x_names is not None and not bands and any(one.errors is not None for one in series) else 0.0
    for index, one in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * apart
        body += line(one, index, plot, shift=shift, percent=percent, whiskers=not bands)
    body += legend.body
    floor = plot.bottom + (34 if counts is not None else 20)
    body += axis_labels(x_label, y_label, middle=(left + width / 2, top + height / 2), floor=floor)
    floor += 20 if x_label else 0
    label = title or y_label or "line chart"
    return picture(max(left + width, legend.right) + MARGIN, floor + 12, body, label=label, title=title)


def _sample(index: int, x: Number, y: Number) -> list[str]:
    return [element("path", d=f"M{number(x)} {number(y - 4)}h26", **line_style(index)), marker(index, x + 13, y - 4)]
