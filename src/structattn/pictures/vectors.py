"""Feature-wise quantities as images: the weight of each feature of a word (DiSAN, figure 8) and gates (figure 7).

Hundreds of values are one small image with a shared scale, drawn as one path per colour.
"""

import math
from collections.abc import Sequence
from typing import Any

from structattn.pictures.cells import LABEL_LIMIT, draw_colour_bar, draw_image, label_width
from structattn.pictures.colours import Scale
from structattn.pictures.matrices import Matrix, matrix, shared_scale, vector
from structattn.pictures.numbers import Number, tick
from structattn.pictures.svg import element, fill, isolated, picture, stroke, text, text_width, tooltip, visible

_MARGIN = 16.0


def vector_image(
    values: Any,
    *,
    shape: tuple[int, int] = (20, 30),
    title: str | None = None,
    minimum: Number | None = None,
    maximum: Number | None = None,
    diverging: bool = False,
    value_label: str = "weight",
) -> str:
    """One vector as an image, row by row.

    Args:
        values: the vector, for example the 600 source2token weights of one word.
        shape: rows and columns of the image; the last row may be incomplete.
        title: a heading.
        minimum: value of the lowest colour.
        maximum: value of the highest colour.
        diverging: use the blue-orange map, symmetric around 0.
        value_label: the name of the quantity.

    Raises:
        ValueError: if the vector does not fit the shape or a value is not finite.

    Example:
        >>> vector_image([0.0, 0.5, 1.0], shape=(1, 3)).count("<path")
        3
    """
    folded = _folded(vector(values, "values"), shape)
    scale = shared_scale([folded], minimum=minimum, maximum=maximum, diverging=diverging)
    return _row_of_images([(folded, "", scale, value_label)], title=title or "", note="")


def vector_comparison(
    first: Any,
    second: Any,
    names: tuple[str, str],
    *,
    shape: tuple[int, int] = (20, 30),
    title: str | None = None,
    value_label: str = "weight",
) -> str:
    """Two vectors on one scale, their difference on a diverging scale, and their cosine.

    Args:
        first: a vector, for example the weights of a word in one sentence.
        second: another of the same size.
        names: what they are.
        shape: as in ``vector_image``.
        title: a heading.
        value_label: the name of the quantity.

    Raises:
        ValueError: if the sizes differ or do not fit the shape.

    Example:
        >>> "cosine 1.000" in vector_comparison([1, 2], [2, 4], ("a", "b"), shape=(1, 2))
        True
    """
    left, right = vector(first, "first"), vector(second, "second")
    if len(left) != len(right):
        raise ValueError(f"expected two vectors of one size; got {len(left)} and {len(right)} values")
    images = [_folded(left, shape), _folded(right, shape)]
    difference = _folded([a - b for a, b in zip(left, right, strict=True)], shape)
    shared, symmetric = shared_scale(images), shared_scale([difference], diverging=True)
    product = math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))
    cosine = sum(a * b for a, b in zip(left, right, strict=True)) / product if product else 0.0
    panels = [
        (images[0], names[0], shared, None),
        (images[1], names[1], shared, value_label),
        (difference, "difference", symmetric, "first − second"),
    ]
    return _row_of_images(panels, title=title or "", note=f"cosine {cosine:.3f}")


def gate_image(
    words: Sequence[str],
    gates: Any,
    *,
    title: str | None = None,
    minimum: Number | None = 0.0,
    maximum: Number | None = 1.0,
    value_label: str = "gate",
    feature_label: str = "feature",
) -> str:
    """A gate as an image with a row per word and a column per feature, and beside it the mean of each word.

    Args:
        words: the sentence.
        gates: ``(word, feature)``; in DiSAN a gate near 1 keeps the word, near 0 takes its context.
        title: a heading.
        minimum: value of the lowest colour.
        maximum: value of the highest colour.
        value_label: the name of the quantity.
        feature_label: the name of the horizontal axis.

    Raises:
        ValueError: if there is not one row for each word, or a value is not finite.

    Example:
        >>> "0.75" in gate_image(["a", "dog"], [[0.5, 1.0], [0.0, 0.5]])
        True
    """
    rows = matrix(gates, "gates")
    if len(rows) != len(words):
        raise ValueError(f"gates have {len(rows)} rows; expected one for each of the {len(words)} words")
    num_features = len(rows[0]) if rows else 0
    scale = shared_scale([rows], minimum=minimum, maximum=maximum)
    pitch = 18.0
    # Whole pixels for each feature, as long as they fit.
    image_width = num_features * max(1, min(6, 600 // max(num_features, 1))) if num_features <= 600 else 600
    left = _MARGIN + max((label_width(word, 12) for word in words), default=0.0) + 8
    top = _MARGIN + (30.0 if title else 0.0) + 22
    height = pitch * len(words)
    bars = left + image_width + 14
    body = [text(_MARGIN, _MARGIN + 14, title, size=15, weight=650)] if title else []
    body.append(text(left, top - 9, f"{num_features} features →" if num_features else "no words", size=11, role="soft"))
    body.append(text(bars, top - 9, "mean", size=11, role="soft"))
    body += draw_image(rows, left, top, width=image_width, height=height, scale=scale)
    for index, (word, row) in enumerate(zip(words, rows, strict=True)):
        y, kept = top + index * pitch, [value for value in row if value is not None]
        mean = sum(kept) / len(kept) if kept else 0.0
        share = (mean - scale.minimum) / ((scale.maximum - scale.minimum) or 1.0)
        said = tooltip(f"{isolated(visible(word))}: mean {value_label} {mean:.4f}, {len(kept)} {feature_label}s")
        bar = {"x": bars, "y": y + 3, "width": 70 * min(max(share, 0.0), 1.0), "height": pitch - 6}
        body.append(text(left - 7, y + pitch / 2 + 4.3, word, size=12, anchor="end", width=LABEL_LIMIT))
        body.append(element("rect", said, **bar, **fill("series0")))
        body.append(text(bars + 76, y + pitch / 2 + 4, f"{mean:.2f}".replace("-", "−"), size=10.5, role="soft"))
    body.append(element("rect", x=left, y=top, width=image_width, height=height, **stroke("rule")))
    right = bars + 76 + 44
    body += draw_colour_bar(scale, right, top + 6, length=min(max(height - 6, 64.0), 150.0), label=value_label)
    width = max(right + 56, _MARGIN + text_width(title or "", 15) * 1.08) + _MARGIN
    return picture(width, top + max(height, 80.0) + _MARGIN, body, label=title or "gate")


def _folded(values: Sequence[Number], shape: tuple[int, int]) -> Matrix:
    num_rows, num_columns = shape
    if num_columns < 1 or not (num_rows - 1) * num_columns < max(len(values), 1) <= num_rows * num_columns:
        raise ValueError(f"{len(values)} values do not fold into {num_rows} rows of {num_columns}")
    padded = [*values, *[None] * (num_rows * num_columns - len(values))]
    return [list(padded[r * num_columns : (r + 1) * num_columns]) for r in range(num_rows)]


def _row_of_images(images: Sequence[tuple[Matrix, str, Scale, str | None]], *, title: str, note: str) -> str:
    """Images side by side; each names its scale, and draws the colour bar if it has a label for it."""
    cell = round(min(14, max(4, 240 / max(len(images[0][0][0]), len(images[0][0])))))
    width, height = cell * len(images[0][0][0]), cell * len(images[0][0])
    top = _MARGIN + (30.0 if title else 0.0) + (20.0 if any(name for _, name, _, _ in images) else 0.0) + 6
    body = [text(_MARGIN, _MARGIN + 14, title, size=15, weight=650)] if title else []
    x = _MARGIN
    for rows, name, scale, label in images:
        if name:
            body.append(text(x, top - 9, name, size=12.5, weight=650, width=width + 12))
        body += draw_image(rows, x, top, width=width, height=height, scale=scale)
        values = [value for row in rows for value in row if value is not None]
        said = tooltip(f"{name or title}: from {tick(min(values, default=0.0))} to {tick(max(values, default=0.0))}")
        frame = {"x": x, "y": top, "width": width, "height": height, "pointer_events": "all"}
        body.append(element("rect", said, **frame, **stroke("rule")))
        x += width + 16
        if label is not None:
            body += draw_colour_bar(scale, x, top + 18, length=min(max(height - 22, 50.0), 150.0), label=label)
            x += max(text_width(label, 10.5), 46.0) + 20
    bottom = top + height
    if note:
        bottom += 20
        body.append(text(_MARGIN, bottom - 2, note, size=12, role="soft"))
    end = max(x - 4, _MARGIN * 2 + text_width(title, 15) * 1.08)
    return picture(end, max(bottom, top + 84) + _MARGIN, body, label=title or "vector")
