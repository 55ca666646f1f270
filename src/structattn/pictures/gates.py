"""Feature-wise weights of words, such as gates (DiSAN, figure 7), as an image with one shared scale."""

from collections.abc import Sequence
from typing import Any

from structattn.pictures.cells import LABEL_LIMIT, draw_image, label_width
from structattn.pictures.colours import Limits
from structattn.pictures.legend import draw_colour_bar
from structattn.pictures.numbers import matrix, tick
from structattn.pictures.svg import (
    MARGIN,
    element,
    fill,
    isolated,
    picture,
    stroke,
    text,
    tooltip,
    top_of,
    visible,
)


def gate_image(
    words: Sequence[str],
    gates: Any,
    *,
    title: str | None = None,
    limits: Limits | None = None,
    value_label: str = "gate",
) -> str:
    """A gate as an image with a row per word and a column per feature, and beside it the mean of each word.

    Args:
        words: the sentence.
        gates: ``(word, feature)``; in DiSAN a gate near 1 keeps the word, near 0 takes its context.
        title: a heading.
        limits: the ends of the colour scale; 0 and 1 by default.
        value_label: the name of the quantity.

    Raises:
        ValueError: if there is not one row for each word, or a value is NaN or plus infinity.

    Example:
        >>> "0.75" in gate_image(["a", "dog"], [[0.5, 1.0], [0.0, 0.5]])
        True
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
    top = top_of(title) + 22
    height = pitch * len(words)
    bars = left + image_width + 14
    body = [text(left, top - 9, f"{num_features} features →" if num_features else "no words", size=11, role="soft")]
    body.append(text(bars, top - 9, "mean", size=11, role="soft"))
    body += draw_image(rows, left, top, width=image_width, height=height, scale=scale)
    for index, (word, row) in enumerate(zip(words, rows, strict=True)):
        y, kept = top + index * pitch, [value for value in row if value is not None]
        mean = sum(kept) / len(kept) if kept else 0.0
        share = (mean - scale.minimum) / ((scale.maximum - scale.minimum) or 1.0)
        hint = tooltip(f"{isolated(visible(word))}: mean {value_label} {mean:.4f}, {len(kept)} features")
        bar = {"x": bars, "y": y + 3, "width": 70 * min(max(share, 0.0), 1.0), "height": pitch - 6}
        body.append(text(left - 7, y + pitch / 2 + 4.3, word, size=12, anchor="end", width=LABEL_LIMIT))
        body.append(element("rect", hint, **bar, **fill("series0")))
        body.append(text(bars + 76, y + pitch / 2 + 4, tick(mean), size=10.5, role="soft"))
    body.append(element("rect", x=left, y=top, width=image_width, height=height, **stroke("rule")))
    right = bars + 76 + 44
    body += draw_colour_bar(scale, right, top + 6, length=min(max(height - 6, 64.0), 150.0), label=value_label)
    return picture(right + 56 + MARGIN, top + max(height, 80.0) + MARGIN, body, label=title or "gate", title=title)
