"""Several pictures as one."""

import html
import re
from collections.abc import Sequence

from structattn.pictures.svg import MARGIN, number, picture

_SIZE = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)"[^>]*?aria-label="([^"]*)"')


def stack(pictures: Sequence[str]) -> str:
    """Pictures below each other, as one SVG document.

    Args:
        pictures: as the functions of this package return them.

    Raises:
        ValueError: if there are no pictures, or for a text that is not one.

    Example:
        >>> from structattn.pictures import heatmap
        >>> one = heatmap(["a"], ["b"], [[1]])
        >>> stack([one, one]).count("<svg")
        3
    """
    if not pictures:
        raise ValueError("expected at least one picture, got none")
    body, labels = [], []
    top, widest = 0.0, 0
    for one in pictures:
        found = _SIZE.match(one)
        if found is None:
            raise ValueError(f"expected a picture of structattn.pictures, got {one[:40]!r}")
        body.append(one.replace("<svg ", f'<svg y="{number(top)}" ', 1))
        top += int(found[2]) + MARGIN
        widest = max(widest, int(found[1]))
        labels.append(found[3])
    return picture(widest, top - MARGIN, body, label=html.unescape("; ".join(labels)))
