"""What is drawn beside a heat map: its colour bar, and the keys to hatching, outlines and faded rows."""

from collections.abc import Sequence

from structattn.pictures.cells import FADED, Panel, hatch, is_empty
from structattn.pictures.colours import LEVELS, Scale
from structattn.pictures.numbers import Number, tick
from structattn.pictures.svg import element, fill, level_colour, stroke, text, text_width


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
            tick(scale.minimum + share * (scale.maximum - scale.minimum)),
            size=10,
            role="soft",
        )
        for share in (0.0, 0.5, 1.0)
    ]
    outline = element("rect", x=x, y=y, width=11, height=length, **stroke("rule", 0.8))
    return [text(x, y - 9, label, size=10.5, role="soft"), *bar, outline, *ticks]


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
        keys.append((element("rect", x=x + 1, y=top + 1, width=9, height=9, **stroke("mark", 1.8)), marks_label))
    if any(panel.faded for panel in panels):
        top = y + 20 * len(keys)
        shade = {**level_colour(scale, LEVELS), "opacity": FADED}
        keys.append((element("rect", x=x, y=top, width=11, height=11, **shade), faded_label))
    parts = [sign + text(x + 17, y + 20 * i + 9.5, label, size=10, role="soft") for i, (sign, label) in enumerate(keys)]
    return parts, max((17 + text_width(label, 10) for _, label in keys), default=0.0)
