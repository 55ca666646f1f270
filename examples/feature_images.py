"""Two vectors as images, as in DiSAN's figure 8: the weights of each feature of a word in two contexts."""

import math
from collections.abc import Sequence

from structattn.pictures import Limits
from structattn.pictures.cells import draw_colour_bar, draw_image
from structattn.pictures.numbers import Matrix, tick, vector
from structattn.pictures.svg import BOLD, MARGIN, element, picture, stroke, text, text_width, tooltip, top_of


def fold(values: Sequence[float]) -> Matrix:
    """A vector row by row, about two rows to three columns: 600 features are 20 by 30. The last row may be short."""
    num_columns = max(1, math.ceil(math.sqrt(len(values) * 1.5)))
    num_rows = max(1, math.ceil(len(values) / num_columns))
    padded = [*values, *[None] * (num_rows * num_columns - len(values))]
    return [padded[r * num_columns : (r + 1) * num_columns] for r in range(num_rows)]


def vector_comparison(
    first: Sequence[float], second: Sequence[float], names: tuple[str, str], *, title: str, value_label: str = "weight"
) -> str:
    """Two vectors on one scale, their difference on a diverging scale, and their cosine."""
    left, right = vector(first, "first"), vector(second, "second")
    if len(left) != len(right):
        raise ValueError(f"expected two vectors of one size; got {len(left)} and {len(right)} values")
    difference = [a - b for a, b in zip(left, right, strict=True)]
    shared, symmetric = Limits().scale([*left, *right]), Limits(diverging=True).scale(difference)
    product = math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))
    cosine = sum(a * b for a, b in zip(left, right, strict=True)) / product if product else 0.0
    rows = fold(left)
    cell = round(min(14, max(4, 240 / max(len(rows), len(rows[0])))))
    width, height = cell * len(rows[0]), cell * len(rows)
    top = top_of(title) + 26
    body, x = [], MARGIN
    # The two vectors share the colour bar beside the second.
    for values, name, scale, label in (
        (left, names[0], shared, None),
        (right, names[1], shared, value_label),
        (difference, "difference", symmetric, "first − second"),
    ):
        body.append(text(x, top - 9, name, size=12.5, weight=BOLD, width=width + 12))
        body += draw_image(fold(values), x, top, width=width, height=height, scale=scale)
        hint = tooltip(f"{name}: from {tick(min(values, default=0.0))} to {tick(max(values, default=0.0))}")
        frame = {"x": x, "y": top, "width": width, "height": height, "pointer_events": "all"}
        body.append(element("rect", hint, **frame, **stroke("rule")))
        x += width + 16
        if label is not None:
            body += draw_colour_bar(scale, x, top + 18, length=min(max(height - 22, 50.0), 150.0), label=label)
            x += max(text_width(label, 10.5), 46.0) + 20
    body.append(text(MARGIN, top + height + 18, f"cosine {cosine:.3f}", size=12, role="soft"))
    return picture(x - 4, max(top + height + 20, top + 84) + MARGIN, body, label=title, title=title)
