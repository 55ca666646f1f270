"""Arcs over a line of words: dependency trees, comparisons of trees, and attention on a sentence.

An arc need not belong to a tree. Labelled arcs are stacked in levels, so that their labels never collide and crossing
arcs stay apart; arcs without labels are smooth curves.
"""

from collections.abc import Sequence

from structattn.pictures.numbers import Number
from structattn.pictures.sides import LABEL, WORD, Arc, Side, length_of
from structattn.pictures.svg import (
    BOLD,
    MARGIN,
    element,
    fill,
    is_right_to_left,
    picture,
    text,
    text_width,
    top_of,
    visible,
)

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
    places = _place(words, [*above, *below], notes)
    in_front = all(_name_width(name) <= _NAME for name in names)
    asides = [name for name, _ in notes] + [line for name in names for line in name.split("\n") if in_front]
    gutter = max((text_width(aside, 11) + 18 for aside in asides if aside), default=0.0)
    span = (places[-1] + text_width(visible(words[-1]), WORD) / 2 if words else 40.0) + 8
    if is_right_to_left(words):
        places = [span - place for place in places]
    places = [place + MARGIN + gutter for place in places]
    top = Side(words, above, places, up=True)
    bottom = Side(words, below, places, up=False)

    line = top_of(title) + (16 if names[0] and not in_front else 0) + top.height + WORD
    body = _lines(names[0], line - WORD - top.height / 2 if in_front else top_of(title) + 7)
    for index, (word, place) in enumerate(zip(words, places, strict=True)):
        width = text_width(visible(word), WORD)
        if index in emphasis:
            box = {"x": place - width / 2 - 4, "y": line - WORD - 1, "width": width + 8, "height": WORD + 8}
            body.append(element("rect", **box, rx=4, **fill("chip")))
        weight = BOLD if index in emphasis else None
        body.append(text(place, line, word, size=WORD, anchor="middle", weight=weight))
    floor = line + 6
    for name, row in notes:
        floor += 16
        body.append(text(MARGIN, floor, name, size=11, role="soft"))
        body += [
            text(place, floor, str(note), size=11, anchor="middle", role="soft")
            for place, note in zip(places, row, strict=True)
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


def _place(words: Sequence[str], arcs: Sequence[Arc], notes: Sequence[tuple[str, Sequence[object]]]) -> list[Number]:
    widths = [
        max(text_width(visible(word), WORD), *(text_width(str(row[i]), 11) for _, row in notes), 10.0)
        for i, word in enumerate(words)
    ]
    places: list[Number] = []
    for index, width in enumerate(widths):
        places.append(places[-1] + (widths[index - 1] + width) / 2 + 18 if places else width / 2 + 4)
    for arc in sorted(arcs, key=length_of):
        left, right = arc.ends
        missing = text_width(arc.label, LABEL) + 34 - (places[right] - places[left]) if arc.label else 0.0
        if left != right and missing > 0:
            places[right:] = [place + missing for place in places[right:]]
    return places


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
