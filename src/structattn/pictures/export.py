"""Figures for papers: the same matrices and lines as PNG, PDF or any other format that matplotlib writes.

Needs the extra ``plot``; matplotlib is imported when a figure is saved, and its global settings are left alone.
"""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from structattn.pictures.axes import Series
from structattn.pictures.cells import is_empty
from structattn.pictures.colours import INKS, NUM_SERIES, Scale
from structattn.pictures.matrices import Panel, shared_scale
from structattn.pictures.numbers import Number
from structattn.pictures.svg import shorten, visible
from structattn.syntax.errors import require

# The first installed family that knows a character draws it.
_FAMILIES = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Hebrew",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
    "Microsoft YaHei",
)
_MARKERS = ("o", "s", "^", "D", "x", "h")
_LINES = ("-", "--", ":", "-.", (0, (8, 2)), (0, (4, 2)))


def save_panels(
    path: str | os.PathLike[str],
    panels: Sequence[Panel],
    *,
    columns: int = 3,
    title: str | None = None,
    minimum: Number | None = None,
    maximum: Number | None = None,
    diverging: bool = False,
    row_axis: str = "query",
    column_axis: str = "key",
    value_label: str = "weight",
    dpi: int = 200,
) -> None:
    """Save matrices side by side on one scale: attention heads, gates (words by features), folded vectors.

    Args:
        path: where to write; the ending chooses the format (``.png``, ``.pdf``, ``.svg``, ``.eps``).
        panels: the matrices; a side without labels gets no ticks.
        columns: how many panels stand side by side.
        title: a heading over all of them.
        minimum: value of the lowest colour, over all panels.
        maximum: value of the highest colour, over all panels.
        diverging: use the blue-orange map, symmetric around 0.
        row_axis: the name of the row axis.
        column_axis: the name of the column axis.
        value_label: the name of the quantity, beside the colour bar.
        dpi: dots per inch, for pixel formats.

    Raises:
        MissingExtra: if matplotlib is not installed.
        ValueError: if there is no panel, a panel is malformed, or the format is unknown.
    """
    if not panels or columns < 1:
        raise ValueError(f"a grid needs panels and columns; got {len(panels)} panels in {columns} columns")
    matrices = [panel.matrix() for panel in panels]
    scale = shared_scale(matrices, minimum=minimum, maximum=maximum, diverging=diverging)
    columns = min(columns, len(panels))
    num_rows = math.ceil(len(panels) / columns)
    with _styled():
        sides = [_size(panel) for panel in panels]
        width, height = max(w for w, _ in sides), max(h for _, h in sides)
        figure = _figure(columns * width + 0.9, num_rows * height + (0.4 if title else 0.1))
        axes = figure.subplots(num_rows, columns, squeeze=False)
        image = None
        for index, place in enumerate(axes.flat):
            if index < len(panels):
                image = _draw(place, panels[index], scale, row_axis=row_axis, column_axis=column_axis)
            else:
                place.set_axis_off()
        bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=28)
        bar.set_label(value_label, fontsize=8)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_edgecolor(INKS["rule"][0])
        _save(figure, path, title=title, dpi=dpi)


def save_lines(
    path: str | os.PathLike[str],
    series: Sequence[Series],
    *,
    title: str | None = None,
    x_label: str = "",
    y_label: str = "",
    x_names: Sequence[str] | None = None,
    percent: bool = False,
    dpi: int = 200,
) -> None:
    """Save a line chart with error bars; the arguments are those of ``line_chart``.

    Raises:
        MissingExtra: if matplotlib is not installed.
        ValueError: if there is nothing to draw or the format is unknown.
    """
    if not any(len(one.y) for one in series):
        raise ValueError("a line chart needs series with at least one place and one value for each")
    with _styled():
        figure = _figure(5.2, 3.3)
        place = figure.subplots()
        for index, one in enumerate(series):
            style = index % NUM_SERIES
            place.errorbar(
                list(one.x),
                list(one.y),
                yerr=None if one.errors is None else list(one.errors),
                label=one.name,
                color=INKS[f"series{style}"][0],
                marker=_MARKERS[style],
                linestyle=_LINES[style],
                markersize=4.5,
                linewidth=1.4,
                elinewidth=0.9,
                capsize=2.5,
            )
        if x_names is not None:
            place.set_xticks(range(len(x_names)), list(x_names))
        if percent:
            place.yaxis.set_major_formatter(require("matplotlib.ticker", "plot").PercentFormatter(1.0, decimals=0))
        place.set_xlabel(x_label, fontsize=9)
        place.set_ylabel(y_label, fontsize=9)
        place.tick_params(labelsize=8)
        place.grid(axis="y", color=INKS["rule"][0], linewidth=0.6)
        for side in ("top", "right"):
            place.spines[side].set_visible(False)
        if len(series) > 1:
            place.legend(frameon=False, fontsize=8)
        _save(figure, path, title=title, dpi=dpi)


def _size(panel: Panel) -> tuple[Number, Number]:
    rows = panel.matrix()
    num_rows, num_columns = len(rows), len(rows[0]) if rows else 0
    width = min(max(num_columns * 0.22, 1.4), 6.0 if panel.columns else 3.2)
    height = min(max(num_rows * 0.22, 1.0), 6.0)
    return width + (0.8 if panel.rows else 0.2), height + (0.9 if panel.columns else 0.4)


def _draw(place: Any, panel: Panel, scale: Scale, *, row_axis: str, column_axis: str) -> Any:
    colors = require("matplotlib.colors", "plot")
    shades = colors.ListedColormap(list(scale.colour_map.light)).with_extremes(bad=INKS["rule"][0])
    rows = panel.matrix()
    filled = [[math.nan if value is None else value for value in row] for row in rows] or [[math.nan]]
    # Words are square cells; features are too many for that.
    aspect = "equal" if panel.columns else "auto"
    image = place.imshow(
        filled, cmap=shades, vmin=scale.minimum, vmax=scale.maximum, aspect=aspect, interpolation="nearest"
    )
    place.set_title(panel.title, fontsize=9, loc="left", fontweight="bold")
    labels = [shorten(visible(word), 110, 12) for word in panel.columns]
    place.set_xticks(range(len(labels)), labels, rotation=50, ha="left", rotation_mode="anchor")
    place.set_yticks(range(len(panel.rows)), [shorten(visible(word), 110, 12) for word in panel.rows])
    place.xaxis.tick_top()
    place.xaxis.set_label_position("top")
    place.tick_params(length=0, labelsize=7)
    if panel.columns:
        place.set_xlabel(column_axis, fontsize=7, color=INKS["soft"][0])
    if panel.rows:
        place.set_ylabel(row_axis, fontsize=7, color=INKS["soft"][0])
    for spine in place.spines.values():
        spine.set_edgecolor(INKS["rule"][0])
    patches = require("matplotlib.patches", "plot")
    for r, row in enumerate(rows):
        blank = range(len(row)) if is_empty(row, scale) else [c for c, value in enumerate(row) if value is None]
        for c in blank:
            grey = {"facecolor": INKS["chip"][0], "edgecolor": INKS["hatch"][0], "linewidth": 0.0}
            place.add_patch(patches.Rectangle((c - 0.5, r - 0.5), 1, 1, hatch="//////", **grey))
    for r, c in panel.marks:
        box = patches.Rectangle((c - 0.45, r - 0.45), 0.9, 0.9, fill=False, edgecolor=INKS["mark"][0], linewidth=1.0)
        place.add_patch(box)
    return image


def _figure(width: Number, height: Number) -> Any:
    # The object, not pyplot: no window, no global list of open figures.
    return require("matplotlib.figure", "plot").Figure(figsize=(width, height), layout="constrained")


@contextmanager
def _styled() -> Iterator[None]:
    """Our settings while a figure is made and saved; the caller's settings afterwards."""
    manager = require("matplotlib.font_manager", "plot").fontManager
    installed = {entry.name for entry in manager.ttflist}
    settings = {
        "font.family": [family for family in _FAMILIES if family in installed],
        # A word may contain a dollar sign.
        "text.parse_math": False,
        # Text stays text in PDF and SVG, and files do not differ from run to run.
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "structattn",
    }
    with require("matplotlib", "plot").rc_context(settings):
        yield


def _save(figure: Any, path: str | os.PathLike[str], *, title: str | None, dpi: int) -> None:
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    ending = os.fspath(path).rsplit(".", 1)[-1].lower()
    undated: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(ending, {})
    figure.savefig(path, dpi=dpi, metadata=undated or None)
