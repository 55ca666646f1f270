"""Heat maps of attention: one matrix, or small multiples on one shared scale.

A row is a query (the word that looks), a column is a key (the word that is looked at), as everywhere in this library.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from structattn.pictures.cells import (
    draw_cells,
    draw_colour_bar,
    draw_column_labels,
    draw_legend,
    draw_row_labels,
    is_whole,
    label_width,
    tilt_height,
    tilt_reach,
)
from structattn.pictures.colours import Scale
from structattn.pictures.matrices import Panel, shared_scale
from structattn.pictures.numbers import Number
from structattn.pictures.svg import picture, text, text_width

_MARGIN = 16.0


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Any,
    *,
    title: str | None = None,
    minimum: Number | None = None,
    maximum: Number | None = None,
    diverging: bool = False,
    show_values: bool = False,
    marks: Sequence[tuple[int, int]] = (),
    marks_label: str = "marked",
    row_axis: str = "query",
    column_axis: str = "key",
    value_label: str = "weight",
) -> str:
    """A matrix as coloured cells, with its words, a colour bar, and the value of each cell in a tooltip.

    A row in which nothing is attended to (all zero) and cells that are not allowed (``None`` or minus infinity) are
    hatched, so that "nothing to look at" is not mistaken for "looks at everything a little".

    Args:
        rows: one label per row; the queries.
        columns: one label per column; the keys.
        weights: the matrix, as nested sequences, an array or a tensor.
        title: a heading.
        minimum: value of the lowest colour; by default 0, or the smallest value if it is negative.
        maximum: value of the highest colour; by default the largest value.
        diverging: use the blue-orange map, symmetric around 0, for differences.
        show_values: also write the numbers into the cells.
        marks: cells ``(row, column)`` to outline.
        marks_label: what an outlined cell means, for the legend.
        row_axis: the name of the row axis.
        column_axis: the name of the column axis.
        value_label: the name of the quantity, above the colour bar.

    Returns:
        A self-contained SVG document.

    Raises:
        ValueError: if the sizes disagree or a value is NaN or plus infinity.

    Example:
        >>> svg = heatmap(["a", "dog"], ["a", "dog"], [[1, 0], [0.25, 0.75]], title="head 1")
        >>> svg.count("<title>")
        4
    """
    panel = Panel(rows, columns, weights, "", marks)
    cell = round(min(30, max(9, 560 / max(len(rows), len(columns), 1))))
    return _figure(
        [panel],
        _layout([panel], 1, max(cell, 36) if show_values else cell, column_axis),
        scale=shared_scale([panel.matrix()], minimum=minimum, maximum=maximum, diverging=diverging),
        title=title or "",
        show_values=show_values,
        axes=(row_axis, column_axis),
        legend=(value_label, marks_label),
    )


def heatmap_grid(
    panels: Sequence[Panel],
    *,
    columns: int = 3,
    title: str | None = None,
    minimum: Number | None = None,
    maximum: Number | None = None,
    diverging: bool = False,
    show_values: bool = False,
    marks_label: str = "marked",
    row_axis: str = "query",
    column_axis: str = "key",
    value_label: str = "weight",
) -> str:
    """Several matrices side by side on one shared scale, for example the heads of a layer.

    Args:
        panels: the matrices, row by row.
        columns: how many panels stand side by side.
        title: a heading over all of them.
        minimum: as in ``heatmap``, over all panels.
        maximum: as in ``heatmap``, over all panels.
        diverging: as in ``heatmap``.
        show_values: as in ``heatmap``.
        marks_label: as in ``heatmap``.
        row_axis: as in ``heatmap``.
        column_axis: as in ``heatmap``.
        value_label: as in ``heatmap``.

    Raises:
        ValueError: if there is no panel, ``columns`` is below one, or a panel is malformed.

    Example:
        >>> words = ["a", "dog"]
        >>> heads = [Panel(words, words, [[1, 0], [0.5, 0.5]], title=name) for name in ("forward · word", "backward")]
        >>> "forward · word" in heatmap_grid(heads)
        True
    """
    if not panels or columns < 1:
        raise ValueError(f"a grid needs panels and columns; got {len(panels)} panels in {columns} columns")
    size = max(max(len(panel.rows), len(panel.columns)) for panel in panels)
    cell = round(min(24, max(7, 260 / max(size, 1))))
    matrices = [panel.matrix() for panel in panels]
    if show_values:
        cell = max(cell, 24 if all(is_whole(rows) for rows in matrices) else 30)
    scale = shared_scale(matrices, minimum=minimum, maximum=maximum, diverging=diverging)
    return _figure(
        panels,
        _layout(panels, columns, cell, column_axis),
        scale=scale,
        title=title or "",
        show_values=show_values,
        axes=(row_axis, column_axis),
        legend=(value_label, marks_label),
    )


@dataclass(frozen=True)
class _Layout:
    """Where the panels of a figure stand; all lengths in pixels."""

    cell: Number
    size: Number
    left: Number
    above: Number
    overhang: Number
    tilted: bool
    heading: Number
    body_width: Number
    body_height: Number
    columns: int
    same_rows: bool

    @property
    def pitch(self) -> tuple[Number, Number]:
        labels = 0.0 if self.same_rows else self.left
        across = max(self.body_width + 24, round(self.body_width + self.overhang - self.cell / 2 + 10))
        return across + labels, self.heading + self.above + self.body_height + 22


def _layout(panels: Sequence[Panel], columns: int, cell: Number, column_axis: str) -> _Layout:
    size = min(12.5, max(7.0, cell * 0.56))
    row_width = max((label_width(word, size) for panel in panels for word in panel.rows), default=0.0)
    column_width = max((label_width(word, size) for panel in panels for word in panel.columns), default=0.0)
    tilted = column_width > cell - 4
    widest = max(cell * max(len(panel.columns), 1) for panel in panels)
    titles = max(min(text_width(panel.title, 13), 230.0) for panel in panels)
    return _Layout(
        cell=cell,
        size=size,
        # Whole pixels keep the cells sharp.
        left=round(max(row_width + 8, text_width(column_axis, 11) + 26)),
        above=round(max(tilt_height(column_width, size), size) + 10 if tilted else size + 10),
        overhang=tilt_reach(column_width) if tilted else 0.0,
        tilted=tilted,
        heading=20.0 if any(panel.title for panel in panels) else 0.0,
        body_width=round(max(widest, titles if len(panels) > 1 else 0.0)),
        body_height=max(cell * max(len(panel.rows), 1) for panel in panels),
        columns=min(columns, len(panels)),
        same_rows=all(list(panel.rows) == list(panels[0].rows) for panel in panels),
    )


def _figure(
    panels: Sequence[Panel],
    layout: _Layout,
    *,
    scale: Scale,
    title: str,
    show_values: bool,
    axes: tuple[str, str],
    legend: tuple[str, str],
) -> str:
    cell, size = layout.cell, layout.size
    across, down = layout.pitch
    x_first = _MARGIN + 16 + layout.left
    top = _MARGIN + (30.0 if title else 0.0)
    y_first = top + layout.heading + layout.above
    body = [text(_MARGIN, _MARGIN + 14, title, size=15, weight=650)] if title else []
    for index, panel in enumerate(panels):
        row, column = divmod(index, layout.columns)
        x, y = x_first + column * across, y_first + row * down
        if panel.title:
            place = (x, y - layout.above - 5)
            body.append(text(*place, panel.title, size=13, weight=650, width=max(layout.body_width + 16, 230.0)))
        if not (panel.rows and panel.columns):
            body.append(text(x + 4, y + 16, "no words", size=12, role="soft"))
        body += draw_cells(panel, x, y, cell=cell, scale=scale, values_size=size - 2.5 if show_values else None)
        body += draw_column_labels(panel.columns, x, y, cell=cell, size=size, tilted=layout.tilted)
        if column == 0 or not layout.same_rows:
            body += draw_row_labels(panel.rows, x, y, cell=cell, size=size)
        if column == 0:
            middle = y + cell * max(len(panel.rows), 1) / 2
            body.append(text(x - 7, y - 7, f"{axes[1]} →", size=11, role="soft", anchor="end"))
            place = (_MARGIN + 9, middle)
            body.append(text(*place, f"← {axes[0]}", size=11, role="soft", anchor="middle", rotate=-90))

    drawn = layout.body_width if len(panels) > 1 else cell * max(len(panels[0].columns), 1)
    right = x_first + (layout.columns - 1) * across + drawn + 22
    reach = right - 22 + max(layout.overhang - cell / 2 + size, 0.0)
    length = min(max(layout.body_height - 16, 64.0), 150.0)
    body += draw_colour_bar(scale, right, y_first + 16, length=length, label=legend[0])
    keys, keys_width = draw_legend(panels, scale, right, y_first + 16 + length + 16, marks_label=legend[1])
    num_rows = math.ceil(len(panels) / layout.columns)
    height = max(top + num_rows * down, y_first + length + 32 + 20 * len(keys)) + 2
    width = max(right + max(keys_width, text_width(legend[0], 10.5), 48.0), reach, _title_end(title)) + _MARGIN
    return picture(width, height, body + keys, label=_description(panels, title))


def _title_end(title: str) -> Number:
    return _MARGIN + text_width(title, 15) * 1.08


def _description(panels: Sequence[Panel], title: str) -> str:
    names = "; ".join(panel.title for panel in panels if panel.title)
    return ". ".join(part for part in (title, f"Heat maps: {names}" if names else "Heat map") if part)
