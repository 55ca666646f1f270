"""One side of a line of words: the arcs above it, or those below, in levels so that none hides another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from structattn.pictures.numbers import Number
from structattn.pictures.svg import element, fill, isolated, number, stroke, text, text_width, tooltip, visible

WORD = 14.0
"""Letter size of the words."""

LABEL = 10.5
"""Letter size of the labels on arcs."""

_LEVEL = 24.0
_FAINT = 0.45


@dataclass(frozen=True)
class Arc:
    """An arrow between two words of a line.

    Attributes:
        start: 0-based position where the arrow starts; ``None`` for an arrow from the root, above the line.
        end: 0-based position where the arrow points.
        label: text on the arc.
        weight: between 0 and 1, shown as width and opacity; ``None`` for a plain arc.
        role: the ink, a key of ``colours.INKS``.
        faint: draw a plain arc thin and light, so that others stand out.

    Example:
        >>> Arc(1, 0, label="det").weight is None
        True
    """

    start: int | None
    end: int
    label: str = ""
    weight: Number | None = None
    role: str = "ink"
    faint: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """Leftmost and rightmost position, in the order of the words."""
        start = self.end if self.start is None else self.start
        return min(start, self.end), max(start, self.end)


class Side:
    """The arcs on one side of the line: their levels, their ends, and how high they reach."""

    def __init__(self, words: Sequence[str], arcs: Sequence[Arc], places: Sequence[Number], *, up: bool) -> None:
        self.words, self.arcs, self.places = words, arcs, places
        self.sign = -1.0 if up else 1.0
        self.stacked = any(arc.label and arc.start is not None for arc in arcs)
        self.heights = self._heights()
        self.height = max(self.heights, default=0.0) + (20.0 if arcs else 0.0)
        self.ports = self._ports()

    def _heights(self) -> list[Number]:
        heights = [0.0] * len(self.arcs)
        order = sorted(range(len(self.arcs)), key=lambda i: (self.arcs[i].start is None, length_of(self.arcs[i])))
        for rank, index in enumerate(order):
            arc = self.arcs[index]
            covering = [heights[other] for other in order[:rank] if _overlap(arc, self.arcs[other])]
            distance = abs(self.places[arc.ends[0]] - self.places[arc.ends[1]])
            if arc.start is None:
                heights[index] = max(covering, default=6.0) + 22
            elif self.stacked:
                heights[index] = max(covering, default=4.0) + _LEVEL
            else:
                heights[index] = 20.0 if not distance else min(10 + 0.36 * distance, 66 + 0.1 * distance)
        return heights

    def _ports(self) -> dict[tuple[int, int], Number]:
        """Where each end of each arc meets its word: short arcs outside, long arcs inside, so that none cross."""
        ends: dict[int, list[tuple[Number, int, int]]] = {}
        for index, arc in enumerate(self.arcs):
            other = arc.end if arc.start is None else arc.start
            for role, (here, there) in enumerate(((other, arc.end), (arc.end, other))):
                if not (arc.start is None and role == 0):
                    reach = self.places[there] - self.places[here]
                    key = 0.0 if reach == 0 else 1 / reach
                    ends.setdefault(here, []).append((key, index, role))
        ports = {}
        for word, incident in ends.items():
            room = text_width(visible(self.words[word]), WORD) + 10
            step = min(8.0, room / len(incident))
            for rank, (_, index, role) in enumerate(sorted(incident)):
                ports[index, role] = self.places[word] + (rank - (len(incident) - 1) / 2) * step
        return ports

    def draw(self, base: Number) -> list[str]:
        """All arcs from a base line, the strongest last, then their labels."""
        order = sorted(range(len(self.arcs)), key=lambda i: (self.arcs[i].weight or 0.0, -self.heights[i]))
        drawn = [self._arc(index, base) for index in order]
        return [arc for arc, _ in drawn] + [label for _, label in drawn]

    def _arc(self, index: int, base: Number) -> tuple[str, str]:
        arc, sign = self.arcs[index], self.sign
        end = self.ports[index, 1]
        start = self.ports.get((index, 0), end)
        peak, tip = base + sign * self.heights[index], base + sign * 5
        strength = 1.0 if arc.weight is None else min(max(arc.weight, 0.0), 1.0)
        if arc.start is None:
            path = f"M{number(end)} {number(peak)}V{number(tip)}"
        elif arc.start == arc.end:
            reach = base + sign * 32
            path = f"M{number(start)} {number(base)}C{number(start - 14)} {number(reach)} "
            path += f"{number(end + 14)} {number(reach)} {number(end)} {number(tip)}"
        elif self.stacked:
            turn = min(9.0, abs(end - start) / 2)
            turn_x, turn_y = math.copysign(turn, end - start), -sign * turn
            path = f"M{number(start)} {number(base)}V{number(peak + turn_y)}Q{number(start)} {number(peak)} "
            path += f"{number(start + turn_x)} {number(peak)}H{number(end - turn_x)}Q{number(end)} {number(peak)} "
            path += f"{number(end)} {number(peak + turn_y)}V{number(tip)}"
        else:
            reach = base + (peak - base) * 4 / 3
            path = f"M{number(start)} {number(base)}C{number(start)} {number(reach)} "
            path += f"{number(end)} {number(reach)} {number(end)} {number(tip)}"
        plain = 1.0 if arc.faint else 1.5
        width = plain if arc.weight is None else 0.8 + 3.4 * strength
        head = 3.2 + width / 2
        arrow = f"M{number(end)} {number(base)}l{number(-head)} {number(sign * head * 2)}h{number(2 * head)}z"
        opacity = _FAINT if arc.faint else None
        if arc.weight is not None:
            opacity = round(0.25 + 0.75 * strength, 3)
        body = tooltip(self._hint(arc)) + element("path", d=path, **stroke(arc.role, width))
        drawn = element("g", body + element("path", d=arrow, **fill(arc.role)), class_="sa-arc", opacity=opacity)
        if not arc.label:
            return drawn, ""
        if arc.start is None:
            return drawn, text(end + 6, peak + (8 if sign < 0 else 0), arc.label, size=LABEL, role=arc.role, halo=True)
        middle = ((start + end) / 2, peak + LABEL * 0.36)
        return drawn, text(*middle, arc.label, size=LABEL, anchor="middle", role=arc.role, halo=True)

    def _hint(self, arc: Arc) -> str:
        start = "root" if arc.start is None else isolated(visible(self.words[arc.start]))
        hint = f"{start} → {isolated(visible(self.words[arc.end]))}"
        hint += f" ({arc.label})" if arc.label and arc.start is not None else ""
        return hint if arc.weight is None else f"{hint}: {arc.weight:.3f}"


def length_of(arc: Arc) -> int:
    """How many words an arc spans."""
    return arc.ends[1] - arc.ends[0]


def _overlap(first: Arc, second: Arc) -> bool:
    (a, b), (c, d) = first.ends, second.ends
    if first.start is None:
        return c <= a <= d
    return max(a, c) < min(b, d)
