"""The parts of a heat map: cells, their labels, the colour bar, and the keys to hatching, outlines and faded rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from structattn.pictures.colours import LEVELS, Scale
from structattn.pictures.drawn_numbers import Matrix, Number, format_tick, matrix
from structattn.pictures.svg import (
    colour,
    element,
    fill,
    isolate,
    level_colour,
    level_stroke,
    number,
    stroke,
    text,
    text_width,
    tooltip,
    visible,
)

LABEL_LIMIT = 130.0
FADED = 0.3


@dataclass(frozen=True)
class Panel:
    """One matrix with its words: a row is a query (the word that attends), a column is a key (the word attended to).

    Attributes:
        rows: a label for each row; may be empty if the rows have no names.
        columns: a label for each column; may be empty if the columns have no names.
        weights: the matrix, as nested sequences, an array or a tensor; ``None`` or minus infinity means "not allowed".
        title: what the matrix shows.
        marks: cells ``(row, column)`` to outline, for example the syntactic head of each word.
        faded: rows to draw lightly, for example queries that the matrix was not trained for.

    Raises:
        ValueError: from the functions that draw it, if the sizes disagree or a value is NaN or plus infinity.

    Example:
        >>> Panel(["a", "b"], ["a", "b"], [[1, 0], [0.5, 0.5]], title="forward").title
        'forward'
    """

    rows: Sequence[str]
    columns: Sequence[str]
    weights: Any
    title: str = ""
    marks: Sequence[tuple[int, int]] = ()
    faded: Sequence[int] = ()

    def matrix(self) -> Matrix:
        """The weights as checked rows of floats."""
        subject = f"weights of {self.title!r}" if self.title else "weights"
        rows = matrix(self.weights, subject)
        if self.rows and len(rows) != len(self.rows):
            expected = f"one for each of the {len(self.rows)} row labels"
            raise ValueError(f"{subject} have {len(rows)} rows; expected {expected}")
        for index, row in enumerate(rows):
            if self.columns and len(row) != len(self.columns):
                raise ValueError(
                    f"row {index} of {subject} has {len(row)} values; "
                    f"expected one for each of the {len(self.columns)} column labels"
                )
        for mark in self.marks:
            if not (0 <= mark[0] < len(rows) and 0 <= mark[1] < len(rows[0])):
                raise ValueError(f"mark {mark} lies outside {subject}, which are {len(rows)} x {len(rows[0])}")
        return rows


def draw_cells(
    panel: Panel, x: Number, y: Number, *, cell: Number, scale: Scale, values_size: Number | None, by_row: bool = False
) -> list[str]:
    """The cells of a panel with tooltips; values are written in letters of this size, if there is one.

    With ``by_row`` the largest value of each row has the highest colour.
    """
    rows = panel.matrix()
    boxes, values, hatches = [], [], []
    whole = is_whole(rows)
    for r, row in enumerate(rows):
        empty = is_empty(row, scale)
        shades = replace(scale, maximum=max(filter(None, row), default=0.0)) if by_row and not empty else scale
        opacity = FADED if r in panel.faded else None
        for c, value in enumerate(row):
            left, top = x + c * cell, y + r * cell
            blank = empty or value is None
            paint = fill("chip") if blank else colour(shades, value or 0.0)
            hint = tooltip(f"{_name(panel.rows, r)} → {_name(panel.columns, c)}: {_hint_of_value(value)}")
            boxes.append(element("rect", hint, x=left, y=top, width=cell, height=cell, opacity=opacity, **paint))
            if blank:
                hatches.append(hatch(left, top, cell))
            elif values_size is not None and value is not None:
                shown = format_tick(value) if whole else _short(value)
                if shown == "0" and scale.minimum == 0.0:
                    continue
                middle = (left + cell / 2, top + cell / 2 + values_size * 0.36)
                values.append(
                    text(*middle, shown, size=values_size, anchor="middle", role=shades.text_role(value), inert=True)
                )
    width, height = cell * max(map(len, rows), default=0), cell * len(rows)
    parts = [
        element("g", "".join(boxes), class_="sa-cells sa-s-paper", stroke="#ffffff", stroke_width=min(1.0, cell / 12)),
        element("path", d="".join(hatches), pointer_events="none", **stroke("hatch", 0.8)) if hatches else "",
        *values,
        element("rect", x=x, y=y, width=width, height=height, pointer_events="none", **stroke("rule")),
    ]
    return parts + [outline(x + c * cell, y + r * cell, cell) for r, c in panel.marks]


def outline(x: Number, y: Number, side: Number) -> str:
    """The outline of a marked cell: a dark line in a light one, one of which stands out from any colour."""
    inset = min(2.0, side / 5)
    box = {"x": x + inset, "y": y + inset, "width": side - 2 * inset, "height": side - 2 * inset}
    lines = (("white", 2 * inset), ("black", 0.7 * inset))
    return "".join(element("rect", pointer_events="none", **box, **stroke(role, width)) for role, width in lines)


def draw_row_labels(labels: Sequence[str], x: Number, y: Number, *, cell: Number, size: Number) -> list[str]:
    """Row labels, right-aligned before ``x``."""
    return [
        text(x - 7, y + (r + 0.5) * cell + size * 0.36, label, size=size, anchor="end", width=LABEL_LIMIT)
        for r, label in enumerate(labels)
    ]


def draw_column_labels(
    labels: Sequence[str], x: Number, y: Number, *, cell: Number, size: Number, tilt: Number
) -> list[str]:
    """Column labels above ``y``, tilted by a number of degrees."""
    if not tilt:
        return [text(x + (c + 0.5) * cell, y - 7, label, size=size, anchor="middle") for c, label in enumerate(labels)]
    return [
        text(x + (c + 0.5) * cell + size * 0.3, y - 6, label, size=size, rotate=-tilt, width=LABEL_LIMIT)
        for c, label in enumerate(labels)
    ]


def label_width(label: str, size: Number) -> Number:
    """The room that a row or column label takes, at most ``LABEL_LIMIT``."""
    return min(text_width(visible(label), size), LABEL_LIMIT)


def hatch(x: Number, y: Number, size: Number) -> str:
    """Path data of the diagonals of a square cell; drawn rather than a pattern, so that no ``id`` is needed."""
    half = size / 2
    lines = ((x, y + half, half), (x, y + size, size), (x + half, y + size, half))
    return "".join(f"M{number(a)} {number(b)}l{number(d)} {number(-d)}" for a, b, d in lines)


def is_whole(rows: Matrix) -> bool:
    """Whether all values are whole numbers, such as distances, which need less room."""
    return all(value is None or value == int(value) for row in rows for value in row)


def is_empty(row: Sequence[Number | None], scale: Scale) -> bool:
    """Whether a row of weights attends to nothing. Where values may be negative, zero is a value like any other."""
    return scale.minimum == 0.0 and all(value is None or value == 0.0 for value in row)


def draw_image(rows: Matrix, x: Number, y: Number, *, width: Number, height: Number, scale: Scale) -> list[str]:
    """A matrix as an image of the given size: one path per colour level, so that thousands of values stay small.

    Each value is a short thick line, which takes half as many characters as a box.
    """
    if not rows or not rows[0]:
        return []
    cell_width, cell_height = width / len(rows[0]), height / len(rows)
    paths: dict[int, list[str]] = {}
    for r, row in enumerate(rows):
        for c, value in enumerate(row):
            if value is not None:
                start = f"M{number(x + c * cell_width)} {number(y + (r + 0.5) * cell_height)}"
                paths.setdefault(scale.level(value), []).append(f"{start}h{number(cell_width)}")
    return [
        element("path", d="".join(lines), shape_rendering="crispEdges", **level_stroke(scale, level, cell_height))
        for level, lines in sorted(paths.items())
    ]


def _name(labels: Sequence[str], index: int) -> str:
    return isolate(visible(labels[index])) if labels else str(index)


def _short(value: Number) -> str:
    digits = f"{value:.2f}"
    shown = f"{float(digits):.0f}" if float(digits).is_integer() else digits.replace("0.", ".", 1)
    return "0" if float(digits) == 0.0 else shown.replace("-", "−")


def _hint_of_value(value: Number | None) -> str:
    return "not allowed" if value is None else f"{round(value, 4) + 0.0:g}".replace("-", "−")


def tilt_for(width: Number, cell: Number, size: Number) -> Number:
    """By how many degrees column labels of this width are tilted, so that none touches its neighbour."""
    if width <= cell - 4:
        return 0.0
    return 50.0 if cell * math.sin(math.radians(50.0)) >= size else 90.0


def tilt_height(width: Number, size: Number, tilt: Number) -> Number:
    """How high a tilted label reaches."""
    return width * math.sin(math.radians(tilt)) + size * 0.7


def tilt_reach(width: Number, tilt: Number) -> Number:
    """How far a tilted label reaches to the right."""
    return width * math.cos(math.radians(tilt))


def draw_colour_bar(scale: Scale, x: Number, y: Number, *, length: Number, label: str) -> list[str]:
    """A vertical colour bar, ``length`` high from ``y``, with its name above it and three ticks."""
    step = length / (LEVELS + 1)
    bar = [
        element("rect", x=x, y=y + (LEVELS - level) * step, width=11, height=step + 0.5, **level_colour(scale, level))
        for level in range(LEVELS + 1)
    ]
    ticks = [
        text(
            x + 17,
            y + length * (1 - share) + 3.5,
            format_tick(scale.minimum + share * (scale.maximum - scale.minimum)),
            size=10,
            role="soft",
        )
        for share in (0.0, 0.5, 1.0)
    ]
    outline = element("rect", x=x, y=y, width=11, height=length, **stroke("rule", 0.8))
    return [text(x, y - 9, label, size=10.5, role="soft"), *bar, outline, *ticks]


def draw_colour_strip(scale: Scale, x: Number, y: Number, *, label: str) -> tuple[list[str], Number]:
    """A horizontal colour bar below a figure, after its name and between its ends; and the width that it takes."""
    step = 100 / (LEVELS + 1)
    low, high = format_tick(scale.minimum), format_tick(scale.maximum)
    first = x + text_width(f"{label}  {low}", 10.5) + 6
    bar = [
        element("rect", x=first + level * step, y=y, width=step + 0.5, height=11, **level_colour(scale, level))
        for level in range(LEVELS + 1)
    ]
    bar.append(element("rect", x=first, y=y, width=100, height=11, **stroke("rule", 0.8)))
    bar.append(text(x, y + 9.5, label, size=10.5, role="soft"))
    bar.append(text(first - 5, y + 9.5, low, size=10.5, role="soft", anchor="end"))
    bar.append(text(first + 106, y + 9.5, high, size=10.5, role="soft"))
    return bar, first + 106 + text_width(high, 10.5) - x


def draw_legend(
    panels: Sequence[Panel], scale: Scale, x: Number, y: Number, *, marks_label: str, faded_label: str = "faded"
) -> tuple[list[str], Number]:
    """The keys that the panels need (hatching, outlines, faded rows), from ``y`` down; and the width they take."""
    keys: list[tuple[str, str]] = []
    if any(is_empty(row, scale) or None in row for panel in panels for row in panel.matrix()):
        box = element("rect", x=x, y=y, width=11, height=11, **fill("chip"))
        keys.append((box + element("path", d=hatch(x, y, 11), **stroke("hatch", 0.8)), "not allowed"))
    if any(panel.marks for panel in panels):
        top = y + 20 * len(keys)
        box = element("rect", x=x, y=top, width=11, height=11, **level_colour(scale, LEVELS // 2))
        keys.append((box + outline(x, top, 11), marks_label))
    if any(panel.faded for panel in panels):
        top = y + 20 * len(keys)
        shade = {**level_colour(scale, LEVELS), "opacity": FADED}
        keys.append((element("rect", x=x, y=top, width=11, height=11, **shade), faded_label))
    parts = [sign + text(x + 17, y + 20 * i + 9.5, label, size=10, role="soft") for i, (sign, label) in enumerate(keys)]
    return parts, max((17 + text_width(label, 10) for _, label in keys), default=0.0)
