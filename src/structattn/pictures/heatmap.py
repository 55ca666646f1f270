"""Heat maps of attention: one matrix, or small multiples on one shared scale; and images of gates.

A row is a query (the word that attends), a column is a key (the word attended to), as everywhere in this library.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from structattn.pictures.cells import (
    LABEL_LIMIT,
    Panel,
    draw_cells,
    draw_colour_bar,
    draw_colour_strip,
    draw_column_labels,
    draw_image,
    draw_legend,
    draw_row_labels,
    is_whole,
    label_width,
    tilt_for,
    tilt_height,
    tilt_reach,
)
from structattn.pictures.colours import Limits, Scale
from structattn.pictures.drawn_numbers import Number, format_tick, matrix
from structattn.pictures.svg import (
    BOLD,
    MARGIN,
    element,
    figure_width,
    fill,
    find_top,
    isolate,
    picture,
    stroke,
    text,
    text_width,
    tooltip,
    visible,
)

# In pixels; it limits how many panels of a grid are side by side.
_WIDEST = 1600
# Of a figure for print: pixels of a cell, and of its letters.
_LEAST_CELL, _PRINTED = 11, 9.6


@dataclass(frozen=True)
class Names:
    """The names of the parts of a heat map.

    Attributes:
        rows: the row axis.
        columns: the column axis.
        values: the quantity, above the colour bar.
        marks: what an outlined cell means, in the legend.
        faded: what a faded row means, in the legend.

    Example:
        >>> svg = heatmap(["NP"], ["dogs"], [[1]], names=Names(rows="phrase", columns="word"))
        >>> "← phrase" in svg, "word →" in svg
        (True, True)
    """

    rows: str = "query"
    columns: str = "key"
    values: str = "weight"
    marks: str = "marked"
    faded: str = "faded"


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Any,
    *,
    title: str | None = None,
    marks: Sequence[tuple[int, int]] = (),
    limits: Limits | None = None,
    names: Names | None = None,
    show_values: bool = False,
    by_row: bool = False,
) -> str:
    """A matrix as coloured cells, with its words, a colour bar, and the value of each cell in a tooltip.

    A row in which nothing is attended to (all zero) and cells that are not allowed (``None`` or minus infinity) are
    hatched, so that a row without an allowed key is not mistaken for uniform attention.

    Args:
        rows: one label per row; the queries.
        columns: one label per column; the keys.
        weights: the matrix, as nested sequences, an array or a tensor.
        title: a heading.
        marks: cells ``(row, column)`` to outline.
        limits: the ends of the colour scale; from 0 (or the smallest value, if negative) to the largest by default.
        names: the names of axes, values and marks.
        show_values: also write the numbers into the cells.
        by_row: give the largest value of each row the highest colour, so that diffuse rows can be read as well.

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
    layout = _layout([panel], 1, max(cell, 36) if show_values else cell, names or Names())
    return _figure([panel], layout, limits=limits or Limits(), title=title, show_values=show_values, by_row=by_row)


def heatmap_grid(
    panels: Sequence[Panel],
    *,
    columns: int = 3,
    title: str | None = None,
    limits: Limits | None = None,
    names: Names | None = None,
    show_values: bool = False,
    by_row: bool = False,
    width: Number | None = None,
) -> str:
    """Several matrices side by side on one shared scale, for example the heads of a layer.

    Labels that all panels share are drawn once, in front of the first panel of each row and above the first row.

    Args:
        panels: the matrices, row by row.
        columns: how many panels are side by side, at most; fewer if they are wide.
        title: a heading over all of them.
        limits: the ends of the colour scale; from 0 (or the smallest value, if negative) to the largest by default.
        names: the names of axes, values and marks.
        show_values: also write the numbers into the cells.
        by_row: give the largest value of each row the highest colour, so that diffuse rows can be read as well.
        width: the pixels that the figure should take at most, for print: cells are then as small as their letters
            allow, fewer panels are side by side, and the colour scale is below them.

    Returns:
        A self-contained SVG document.

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
    # If there are many panels, each may be smaller.
    cell = round(min(24, max(9, (260 if len(panels) < 9 else 230) / max(size, 1))))
    if show_values:
        cell = max(cell, 24 if all(is_whole(panel.matrix()) for panel in panels) else 34)
    options: dict[str, Any] = {"limits": limits or Limits(), "title": title}
    options |= {"show_values": show_values, "by_row": by_row}
    if width is None:
        return _figure(panels, _layout(panels, columns, cell, names or Names()), **options)
    for across in range(min(columns, len(panels)), 0, -1):
        for side in range(max(cell, _LEAST_CELL), _LEAST_CELL - 1, -1):
            figure = _figure(panels, _layout(panels, across, side, names or Names(), printed=True), **options)
            if figure_width(figure) <= width:
                return figure
    return figure


@dataclass(frozen=True)
class _Layout:
    """The positions of the panels of a figure; all lengths in pixels."""

    names: Names
    most_columns: int
    cell: Number
    letters: Number
    left: Number
    above: Number
    overhang: Number
    tilt: Number
    heading: Number
    panel_width: Number
    panel_height: Number
    same_rows: bool
    same_columns: bool
    is_printed: bool

    @property
    def pitch(self) -> tuple[Number, Number]:
        """The distance from the corner of one panel to the next, across and down."""
        labels = 0.0 if self.same_rows else self.left
        above = 6.0 if self.same_columns else self.above
        across = max(self.panel_width + 24, round(self.panel_width + self.overhang - self.cell / 2 + 10))
        return across + labels, self.heading + above + self.panel_height + 22

    @property
    def columns(self) -> int:
        """How many panels are side by side: fewer if they are wide."""
        return max(1, min(self.most_columns, int(_WIDEST // self.pitch[0])))


def _layout(panels: Sequence[Panel], columns: int, cell: Number, names: Names, *, printed: bool = False) -> _Layout:
    letters = min(12.5, max(_PRINTED if printed else 7.0, cell * 0.56))
    row_width = max((label_width(word, letters) for panel in panels for word in panel.rows), default=0.0)
    column_width = max((label_width(word, letters) for panel in panels for word in panel.columns), default=0.0)
    tilt = tilt_for(column_width, cell, letters)
    widest = max(cell * max(len(panel.columns), 1) for panel in panels)
    titles = max(min(text_width(panel.title, 13), 230.0) for panel in panels)
    return _Layout(
        names=names,
        most_columns=min(columns, len(panels)),
        cell=cell,
        letters=letters,
        # Whole pixels keep the cells sharp.
        left=round(max(row_width + 8, text_width(names.columns, 11) + 26)),
        above=round(max(tilt_height(column_width, letters, tilt), letters) + 10 if tilt else letters + 10),
        overhang=tilt_reach(column_width, tilt) if tilt else 0.0,
        tilt=tilt,
        heading=20.0 if any(panel.title for panel in panels) else 0.0,
        panel_width=round(max(widest, titles if len(panels) > 1 else 0.0)),
        panel_height=max(cell * max(len(panel.rows), 1) for panel in panels),
        same_rows=all(list(panel.rows) == list(panels[0].rows) for panel in panels),
        same_columns=all(list(panel.columns) == list(panels[0].columns) for panel in panels),
        is_printed=printed,
    )


def _figure(
    panels: Sequence[Panel], layout: _Layout, *, limits: Limits, title: str | None, show_values: bool, by_row: bool
) -> str:
    scale = limits.scale(value for panel in panels for row in panel.matrix() for value in row)
    cell, names = layout.cell, layout.names
    across, down = layout.pitch
    x_first = MARGIN + 16 + layout.left
    top = find_top(title)
    y_first = top + layout.heading + layout.above
    body: list[str] = []
    for index, panel in enumerate(panels):
        row, column = divmod(index, layout.columns)
        x, y = x_first + column * across, y_first + row * down
        size = layout.letters - 2.5 if show_values else None
        cells = draw_cells(panel, x, y, cell=cell, scale=scale, values_size=size, by_row=by_row)
        body += _panel(panel, cells, x, y, layout, row=row, column=column)

    drawn = layout.panel_width if len(panels) > 1 else cell * max(len(panels[0].columns), 1)
    right = x_first + (layout.columns - 1) * across + drawn + 22
    reach = right - 22 + max(layout.overhang - cell / 2 + layout.letters, 0.0)
    length = min(max(layout.panel_height - 16, 64.0), 150.0)
    shades, values = (scale, names.values) if not by_row else (Scale(0.0, 1.0, scale.colours), "share of row's max.")
    marks = {"marks_label": names.marks, "faded_label": names.faded}
    if layout.is_printed:
        bottom = y_first + (math.ceil(len(panels) / layout.columns) - 1) * down + layout.panel_height + 16
        strip, strip_width = draw_colour_strip(shades, MARGIN, bottom, label=values)
        keys, keys_width = draw_legend(panels, scale, MARGIN, bottom + 20, **marks)
        width = max(right - 22, reach, MARGIN + strip_width, MARGIN + keys_width) + MARGIN / 2
        height = bottom + 20 + 20 * sum("<text" in key for key in keys)
        return picture(width, height, body + strip + keys, label=_description(panels, title), title=title)
    body += draw_colour_bar(shades, right, y_first + 16, length=length, label=values)
    below = y_first + 16 + length + 16
    keys, keys_width = draw_legend(panels, scale, right, below, **marks)
    num_rows = math.ceil(len(panels) / layout.columns)
    height = max(y_first + (num_rows - 1) * down + layout.panel_height + 22, below + 20 * len(keys)) + 2
    width = max(right + max(keys_width, text_width(values, 10.5), 48.0), reach) + MARGIN
    return picture(width, height, body + keys, label=_description(panels, title), title=title)


def _panel(
    panel: Panel, cells: list[str], x: Number, y: Number, layout: _Layout, *, row: int, column: int
) -> list[str]:
    """One matrix with the labels that no other panel shows; the first panel of a row also names the axes."""
    cell, letters = layout.cell, layout.letters
    has_columns = row == 0 or not layout.same_columns
    body = []
    if panel.title:
        width = max(layout.panel_width + 16, 230.0)
        above = layout.above + 5 if has_columns else 9.0
        body.append(text(x, y - above, panel.title, size=13, weight=BOLD, width=width))
    if not (panel.rows and panel.columns):
        body.append(text(x + 4, y + 16, "no words", size=12, role="soft"))
    body += cells
    if has_columns:
        body += draw_column_labels(panel.columns, x, y, cell=cell, size=letters, tilt=layout.tilt)
    if column == 0 or not layout.same_rows:
        body += draw_row_labels(panel.rows, x, y, cell=cell, size=letters)
    if column == 0:
        position = (MARGIN + 9, y + cell * max(len(panel.rows), 1) / 2)
        if has_columns:
            body.append(text(x - 7, y - 7, f"{layout.names.columns} →", size=11, role="soft", anchor="end"))
        body.append(text(*position, f"← {layout.names.rows}", size=11, role="soft", anchor="middle", rotate=-90))
    return body


def _description(panels: Sequence[Panel], title: str | None) -> str:
    names = "; ".join(panel.title for panel in panels if panel.title)
    return ". ".join(part for part in (title, f"Heat maps: {names}" if names else "Heat map") if part)


def gate_image(
    words: Sequence[str],
    gates: Any,
    *,
    title: str | None = None,
    limits: Limits | None = None,
    value_label: str = "gate",
) -> str:
    """A gate, ``(word, feature)``, as an image with a row per word and a column per feature, and the mean of each word.

    In DiSAN a gate near 1 keeps the word, near 0 takes its context; the colour scale goes from 0 to 1.
    """
    rows = matrix(gates, "gates")
    if len(rows) != len(words):
        raise ValueError(f"gates have {len(rows)} rows; expected one for each of the {len(words)} words")
    num_features = len(rows[0]) if rows else 0
    scale = (limits or Limits(0.0, 1.0)).scale(value for row in rows for value in row)
    pitch = 18.0
    # Whole pixels for each feature, as long as they fit.
    image_width = num_features * max(1, min(6, 600 // max(num_features, 1))) if num_features <= 600 else 600
    left = MARGIN + max((label_width(word, 12) for word in words), default=0.0) + 8
    top = find_top(title) + 22
    height = pitch * len(words)
    bars = left + image_width + 14
    body = [text(left, top - 9, f"{num_features} features →" if num_features else "no words", size=11, role="soft")]
    body.append(text(bars, top - 9, "mean", size=11, role="soft"))
    body += draw_image(rows, left, top, width=image_width, height=height, scale=scale)
    for index, (word, row) in enumerate(zip(words, rows, strict=True)):
        y, allowed = top + index * pitch, [value for value in row if value is not None]
        mean = sum(allowed) / len(allowed) if allowed else 0.0
        share = (mean - scale.minimum) / ((scale.maximum - scale.minimum) or 1.0)
        hint = tooltip(f"{isolate(visible(word))}: mean {value_label} {mean:.4f}, {len(allowed)} features")
        bar = {"x": bars, "y": y + 3, "width": 70 * min(max(share, 0.0), 1.0), "height": pitch - 6}
        body.append(text(left - 7, y + pitch / 2 + 4.3, word, size=12, anchor="end", width=LABEL_LIMIT))
        body.append(element("rect", hint, **bar, **fill("series0")))
        body.append(text(bars + 76, y + pitch / 2 + 4, format_tick(mean), size=10.5, role="soft"))
    body.append(element("rect", x=left, y=top, width=image_width, height=height, **stroke("rule")))
    right = bars + 76 + 44
    body += draw_colour_bar(scale, right, top + 6, length=min(max(height - 6, 64.0), 150.0), label=value_label)
    return picture(right + 56 + MARGIN, top + max(height, 80.0) + MARGIN, body, label=title or "gate", title=title)
