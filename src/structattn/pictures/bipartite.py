"""Attention as lines between two columns of words, for reading one head at a time."""

from collections.abc import Sequence
from typing import Any

from structattn.pictures.matrices import Panel
from structattn.pictures.numbers import Number
from structattn.pictures.svg import element, isolated, number, picture, stroke, text, text_width, tooltip, visible

_MARGIN = 16.0


def attention_arcs(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Any,
    *,
    threshold: Number = 0.01,
    title: str | None = None,
) -> str:
    """Attention as lines between two columns of words: queries on the left, keys on the right.

    Args:
        rows: the queries.
        columns: the keys.
        weights: ``(query, key)``, as nested sequences, an array or a tensor.
        threshold: lines up to this weight are left out.
        title: a heading.

    Example:
        >>> svg = attention_arcs(["a", "dog"], ["a", "dog"], [[1, 0], [0.25, 0.75]])
        >>> svg.count('class="sa-arc"')
        3
    """
    matrix = Panel(rows, columns, weights).matrix()
    pitch, gap = 24.0, 190.0
    left = _MARGIN + max(text_width(visible(word), 13) for word in [*rows, "query"])
    right = left + gap
    width = right + max(text_width(visible(word), 13) for word in [*columns, "key"]) + _MARGIN
    top = _MARGIN + (30 if title else 0) + 26
    body = [text(_MARGIN, _MARGIN + 14, title, size=15, weight=650)] if title else []
    body.append(text(left, top - 12, "query", size=11, role="soft", anchor="end"))
    body.append(text(right, top - 12, "key", size=11, role="soft"))
    for r, row in enumerate(matrix):
        for c, value in enumerate(row):
            if value is not None and value > threshold:
                y_left, y_right, middle = top + pitch * (r + 0.5), top + pitch * (c + 0.5), left + gap / 2
                path = f"M{number(left + 8)} {number(y_left)}C{number(middle)} {number(y_left)} "
                path += f"{number(middle)} {number(y_right)} {number(right - 8)} {number(y_right)}"
                said = tooltip(f"{isolated(visible(rows[r]))} → {isolated(visible(columns[c]))}: {value:.3f}")
                line = element("path", d=path, stroke_linecap="round", **stroke("series0", 0.8 + 4.2 * min(value, 1.0)))
                body.append(element("g", said + line, class_="sa-arc", opacity=round(0.15 + 0.75 * min(value, 1.0), 3)))
    for words, x, anchor in ((rows, left, "end"), (columns, right, "start")):
        body += [text(x, top + pitch * (i + 0.5) + 4.5, word, size=13, anchor=anchor) for i, word in enumerate(words)]
    height = top + pitch * max(len(rows), len(columns), 1) + _MARGIN
    width = max(width, _MARGIN * 2 + text_width(title or "", 15) * 1.08)
    return picture(width, height, body, label=title or "attention")
