"""Arcs over a line of words: dependency trees, comparisons of trees, and attention on a sentence.

An arc need not belong to a tree. Labelled arcs are stacked in levels, so that their labels never collide and crossing
arcs stay apart; arcs without labels are smooth curves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from structattn.pictures.drawn_numbers import Number
from structattn.pictures.svg import (
    BOLD,
    MARGIN,
    element,
    fill,
    find_top,
    is_right_to_left,
    isolate,
    number,
    picture,
    stroke,
    text,
    text_width,
    tooltip,
    visible,
)

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
        strong: draw a plain arc thick.
        dashed: draw a dashed line, for an arc that is no longer there.

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
    strong: bool = False
    dashed: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """Leftmost and rightmost position, in the order of the words."""
        start = self.end if self.start is None else self.start
        return min(start, self.end), max(start, self.end)

    @property
    def length(self) -> int:
        """Number of steps between its ends."""
        return self.ends[1] - self.ends[0]


class Side:
    """The arcs on one side of the line: their levels, their ends, and how high they reach."""

    def __init__(self, words: Sequence[str], arcs: Sequence[Arc], centres: Sequence[Number], *, up: bool) -> None:
        self.words, self.arcs, self.centres = words, arcs, centres
        self.sign = -1.0 if up else 1.0
        self.stacked = any(arc.label and arc.start is not None for arc in arcs)
        self.heights = self._heights()
        self.height = max(self.heights, default=0.0) + (20.0 if arcs else 0.0)
        self.ports = self._ports()

    def _heights(self) -> list[Number]:
        heights = [0.0] * len(self.arcs)
        order = sorted(range(len(self.arcs)), key=lambda i: (self.arcs[i].start is None, self.arcs[i].length))
        for rank, index in enumerate(order):
            arc = self.arcs[index]
            covering = [heights[earlier] for earlier in order[:rank] if _overlap(arc, self.arcs[earlier])]
            distance = abs(self.centres[arc.ends[0]] - self.centres[arc.ends[1]])
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
            start = arc.end if arc.start is None else arc.start
            for role, (near, far) in enumerate(((start, arc.end), (arc.end, start))):
                if not (arc.start is None and role == 0):
                    reach = self.centres[far] - self.centres[near]
                    key = 0.0 if reach == 0 else 1 / reach
                    ends.setdefault(near, []).append((key, index, role))
        ports = {}
        for word, incident in ends.items():
            room = text_width(visible(self.words[word]), WORD) + 10
            step = min(8.0, room / len(incident))
            for rank, (_, index, role) in enumerate(sorted(incident)):
                ports[index, role] = self.centres[word] + (rank - (len(incident) - 1) / 2) * step
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
        plain = 1.0 if arc.faint else 2.4 if arc.strong else 1.5
        width = plain if arc.weight is None else 0.8 + 3.4 * strength
        head = 3.2 + width / 2
        arrow = f"M{number(end)} {number(base)}l{number(-head)} {number(sign * head * 2)}h{number(2 * head)}z"
        opacity = _FAINT if arc.faint else None
        if arc.weight is not None:
            opacity = round(0.25 + 0.75 * strength, 3)
        dashes = "4 3" if arc.dashed else None
        line = element("path", d=path, stroke_dasharray=dashes, **stroke(arc.role, width))
        body = tooltip(self._hint(arc)) + line
        drawn = element("g", body + element("path", d=arrow, **fill(arc.role)), class_="sa-arc", opacity=opacity)
        if not arc.label:
            return drawn, ""
        if arc.start is None:
            return drawn, text(end + 6, peak + (8 if sign < 0 else 0), arc.label, size=LABEL, role=arc.role, halo=True)
        middle = ((start + end) / 2, peak + LABEL * 0.36)
        return drawn, text(*middle, arc.label, size=LABEL, anchor="middle", role=arc.role, halo=True)

    def _hint(self, arc: Arc) -> str:
        start = "root" if arc.start is None else isolate(visible(self.words[arc.start]))
        hint = f"{start} → {isolate(visible(self.words[arc.end]))}"
        hint += f" ({arc.label})" if arc.label and arc.start is not None else ""
        return hint if arc.weight is None else f"{hint}: {arc.weight:.3f}"


def _overlap(first: Arc, second: Arc) -> bool:
    (a, b), (c, d) = first.ends, second.ends
    if first.start is None:
        return c <= a <= d
    return max(a, c) < min(b, d)


# Up to this width a name is in front of its arcs.
_NAME = 110.0


def arc_diagram(
    words: Sequence[str],
    above: Sequence[Arc],
    *,
    below: Sequence[Arc] = (),
    names: tuple[str, str] = ("", ""),
    notes: Sequence[tuple[str, Sequence[object]]] = (),
    emphasis: Sequence[int] = (),
    title: str | None = None,
) -> str:
    """Words in a line with arcs above and, if given, below.

    Args:
        words: the sentence.
        above: arcs over the words.
        below: arcs under the words.
        names: names of the arcs above and below; short ones, of one or more lines, are written in front of their arcs.
        notes: rows of small text under the words, each with its name; for example tags or distances.
        emphasis: positions of words to emphasise.
        title: a heading.

    Returns:
        A self-contained SVG document; every arc is one element of class ``sa-arc``.

    Raises:
        ValueError: if an arc leaves the line, or a row of notes has the wrong length.

    Example:
        >>> svg = arc_diagram(["a", "dog"], [Arc(1, 0, label="det"), Arc(None, 1, label="root")])
        >>> svg.count('class="sa-arc"')
        2
    """
    _check(words, [*above, *below], notes)
    label = title or " ".join(visible(word) for word in words)
    centres = _space_words(words, [*above, *below], notes)
    in_front = all(_name_width(name) <= _NAME for name in names)
    asides = [name for name, _ in notes] + [line for name in names for line in name.split("\n") if in_front]
    gutter = max((text_width(aside, 11) + 18 for aside in asides if aside), default=0.0)
    span = (centres[-1] + text_width(visible(words[-1]), WORD) / 2 if words else 40.0) + 8
    if is_right_to_left(words):
        centres = [span - centre for centre in centres]
    # The name of an arrow from the root stands at its right, and the last word may be the root.
    names_of_roots = [(arc.end, arc.label) for arc in (*above, *below) if arc.start is None]
    span = max(span, *(centres[end] + 10 + text_width(label, LABEL) for end, label in names_of_roots), 0.0)
    centres = [centre + MARGIN + gutter for centre in centres]
    top = Side(words, above, centres, up=True)
    bottom = Side(words, below, centres, up=False)

    line = find_top(title) + (16 if names[0] and not in_front else 0) + top.height + WORD
    body = _lines(names[0], line - WORD - top.height / 2 if in_front else find_top(title) + 7)
    for index, (word, centre) in enumerate(zip(words, centres, strict=True)):
        width = text_width(visible(word), WORD)
        if index in emphasis:
            box = {"x": centre - width / 2 - 4, "y": line - WORD - 1, "width": width + 8, "height": WORD + 8}
            body.append(element("rect", **box, rx=4, **fill("chip")))
        weight = BOLD if index in emphasis else None
        body.append(text(centre, line, word, size=WORD, anchor="middle", weight=weight))
    floor = line + 6
    for name, row in notes:
        floor += 16
        body.append(text(MARGIN, floor, name, size=11, role="soft"))
        body += [
            text(centre, floor, str(note), size=11, anchor="middle", role="soft")
            for centre, note in zip(centres, row, strict=True)
            if str(note)
        ]
    body += top.draw(line - WORD - 2)
    body += bottom.draw(floor + 6)
    height = floor + 6 + bottom.height
    if names[1] and in_front:
        body += _lines(names[1], floor + 6 + bottom.height / 2)
    elif names[1]:
        height += 12
        body += _lines(names[1], height - 4)
    width = max([gutter + span, *(text_width(name, 11) for name in names if not in_front)])
    return picture(2 * MARGIN + width, height + MARGIN, body, label=label, title=title)


def _name_width(name: str) -> Number:
    return max(text_width(line, 11) for line in name.split("\n"))


def _lines(name: str, middle: Number) -> list[str]:
    """The lines of a name at the left margin, centred on a height."""
    lines = name.split("\n") if name else []
    first = middle + 4 - 7 * (len(lines) - 1)
    return [text(MARGIN, first + 14 * i, line, size=11, role="soft") for i, line in enumerate(lines)]


def _space_words(
    words: Sequence[str], arcs: Sequence[Arc], notes: Sequence[tuple[str, Sequence[object]]]
) -> list[Number]:
    """The horizontal centre of each word, such that notes and labels of arcs have room."""
    widths = [
        max(text_width(visible(word), WORD), *(text_width(str(row[i]), 11) for _, row in notes), 10.0)
        for i, word in enumerate(words)
    ]
    centres: list[Number] = []
    for index, width in enumerate(widths):
        centres.append(centres[-1] + (widths[index - 1] + width) / 2 + 18 if centres else width / 2 + 4)
    for arc in sorted(arcs, key=lambda arc: arc.length):
        left, right = arc.ends
        missing = text_width(arc.label, LABEL) + 34 - (centres[right] - centres[left]) if arc.label else 0.0
        if left != right and missing > 0:
            centres[right:] = [centre + missing for centre in centres[right:]]
    return centres


def _check(words: Sequence[str], arcs: Sequence[Arc], notes: Sequence[tuple[str, Sequence[object]]]) -> None:
    for arc in arcs:
        for position in (arc.start, arc.end):
            if position is not None and not 0 <= position < len(words):
                raise ValueError(
                    f"an arc touches position {position} of {len(words)} words; expected 0 to {len(words) - 1}"
                )
    for name, row in notes:
        if len(row) != len(words):
            raise ValueError(f"notes {name!r} have {len(row)} entries; expected one for each of the {len(words)} words")
