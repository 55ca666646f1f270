"""Two vectors against each other, for DiSAN's figure 8: the weights of each feature of a word in two contexts."""

import math
from collections.abc import Sequence

from structattn.pictures.axes import nice_ticks
from structattn.pictures.drawn_numbers import format_value, vector
from structattn.pictures.svg import MARGIN, element, fill, find_top, number, picture, stroke, text, text_width, tooltip


def feature_scatter(
    first: Sequence[float], second: Sequence[float], names: tuple[str, str], *, title: str, size: float = 340.0
) -> str:
    """A point for each feature, both axes on one scale, the line where both are equal, and the cosine."""
    across, up = vector(first, "first"), vector(second, "second")
    if len(across) != len(up):
        raise ValueError(f"expected two vectors of one size; got {len(across)} and {len(up)} values")
    ticks = nice_ticks(min([0.0, *across, *up]), max([0.0, *across, *up]))
    low, span = ticks[0], ticks[-1] - ticks[0]
    left = MARGIN + 22 + max(text_width(format_value(tick), 11) for tick in ticks) + 8
    top = find_top(title)
    bottom = top + size
    body = []
    for tick in ticks:
        share = size * (tick - low) / span
        across_at, up_at = number(left + share), number(bottom - share)
        lines = f"M{number(left)} {up_at}h{number(size)}M{across_at} {number(top)}v{number(size)}"
        body.append(element("path", d=lines, **stroke("rule", 0.8)))
        body.append(text(left - 7, bottom - share + 4, format_value(tick), size=11, anchor="end", role="soft"))
        body.append(text(left + share, bottom + 17, format_value(tick), size=11, anchor="middle", role="soft"))
    equal = {**stroke("soft", 1.2), "stroke_dasharray": "5 4"}
    body.append(element("path", d=f"M{number(left)} {number(bottom)}l{number(size)} {number(-size)}", **equal))
    for feature, (a, b) in enumerate(zip(across, up, strict=True)):
        place = {"cx": left + size * (a - low) / span, "cy": bottom - size * (b - low) / span}
        hint = tooltip(f"feature {feature}: {a:.3g} and {b:.3g}")
        body.append(element("circle", hint, **place, r=2.6, opacity=0.55, **fill("series0")))
    body.append(text(left + size / 2, bottom + 37, names[0], size=12, anchor="middle", width=size + 60))
    body.append(text(MARGIN + 10, top + size / 2, names[1], size=12, anchor="middle", rotate=-90, width=size))
    said = f"{len(across)} features, cosine {cosine(across, up):.3f}; dashed: the same weight in both"
    body.append(text(MARGIN, bottom + 60, said, size=12, role="soft"))
    width = max(left + size, MARGIN + text_width(said, 12)) + 2 * MARGIN
    return picture(width, bottom + 64 + MARGIN, body, label=title, title=title)


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """0 if one of them is."""
    product = math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))
    return sum(a * b for a, b in zip(first, second, strict=True)) / product if product else 0.0
