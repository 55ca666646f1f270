"""Phrase trees as boxes above the words."""

from collections.abc import Sequence

from structattn.pictures.cells import draw_colour_bar
from structattn.pictures.colours import Scale, scale_for
from structattn.pictures.matrices import vector
from structattn.pictures.numbers import Number, tick
from structattn.pictures.svg import (
    colour,
    element,
    fill,
    is_right_to_left,
    isolated,
    number,
    picture,
    stroke,
    text,
    text_width,
    tooltip,
    visible,
)
from structattn.syntax.constituency import ConstituencyTree

_MARGIN = 16.0
_WORD = 14.0
_BOX = 20.0
_LEVEL = 40.0


def constituency_tree(
    words: Sequence[str],
    spans: ConstituencyTree | Sequence[tuple[str, int, int]],
    *,
    tags: Sequence[str] | None = None,
    values: Sequence[Number] | None = None,
    value_label: str = "value",
    minimum: Number | None = None,
    maximum: Number | None = None,
    diverging: bool = False,
    title: str | None = None,
    right_to_left: bool | None = None,
) -> str:
    """A phrase tree above its words; nodes may be shaded by a value each (an attention weight, a sentiment).

    Args:
        words: the sentence.
        spans: ``(label, start, end)`` of each phrase, half-open, a parent before its child; or a ``ConstituencyTree``.
        tags: part of speech of each word.
        values: one value for each phrase.
        value_label: the name of the values, above the colour bar.
        minimum: value of the lowest colour.
        maximum: value of the highest colour.
        diverging: use the blue-orange map.
        title: a heading.
        right_to_left: whether the first word stands on the right; by default recognised from the script.

    Returns:
        A self-contained SVG document; every phrase is one element of class ``sa-phrase``.

    Raises:
        ValueError: if phrases cross or leave the sentence, or lengths disagree.

    Example:
        >>> svg = constituency_tree(["a", "dog", "barks"], [("S", 0, 3), ("NP", 0, 2)])
        >>> svg.count('class="sa-phrase"')
        2
    """
    phrases = list(spans.spans if isinstance(spans, ConstituencyTree) else spans)
    if tags is None and isinstance(spans, ConstituencyTree) and any(spans.tags):
        tags = [tag or "" for tag in spans.tags]
    shades = None if values is None else vector(values, "values")
    for what, given, expected in (("tags", tags, words), ("values", shades, phrases)):
        if given is not None and len(given) != len(expected):
            raise ValueError(f"got {len(given)} {what}; expected {len(expected)}")
    scale = None if shades is None else scale_for(shades, minimum=minimum, maximum=maximum, diverging=diverging)
    parents, leaf_parents = _phrase_parents(phrases, len(words))
    levels = _levels(parents)
    places = _leaf_places(words, phrases, tags)
    reach = places[-1] + text_width(visible(words[-1]), _WORD) / 2 if words else 40.0
    if is_right_to_left(words) if right_to_left is None else right_to_left:
        places = [reach + _MARGIN - place for place in places]
    centres = _centres(parents, leaf_parents, levels, places)

    top = _MARGIN + (34 if title else 4)
    floor = top + _BOX + max(levels, default=-1) * _LEVEL + (_LEVEL if phrases else 0.0)
    heights = [floor - (level + 1) * _LEVEL for level in levels]
    word_top = floor + (4 if tags is None else 0)
    links = [
        (centres[parent], heights[parent] + _BOX / 2, centres[i], heights[i] - _BOX / 2)
        for i, parent in enumerate(parents)
        if parent >= 0
    ]
    links += [
        (centres[parent], heights[parent] + _BOX / 2, places[leaf], word_top - 6)
        for leaf, parent in enumerate(leaf_parents)
        if parent >= 0
    ]
    path = "".join(f"M{number(a)} {number(b)}L{number(c)} {number(d)}" for a, b, c, d in links)
    body = [text(_MARGIN, _MARGIN + 14, title, size=15, weight=650)] if title else []
    body += [element("path", d=path, **stroke("soft", 1.0))] if path else []
    for i, (label, start, end) in enumerate(phrases):
        said = f"{label}: {' '.join(isolated(visible(word)) for word in words[start:end])}"
        value = None if shades is None else shades[i]
        body.append(_phrase(label, centres[i], heights[i], said=said, scale=scale, value=value))
    base = word_top + (6 if tags is None else 22)
    if tags is not None:
        body += [
            text(x, word_top + 6, tag, size=10.5, anchor="middle", role="soft")
            for x, tag in zip(places, tags, strict=True)
            if tag
        ]
    body += [text(x, base + 5, word, size=_WORD, anchor="middle") for x, word in zip(places, words, strict=True)]
    width = max(reach + _MARGIN + 4, _MARGIN * 2 + text_width(title or "", 15) * 1.08)
    if scale is not None:
        body += draw_colour_bar(scale, width + 12, top + 16, length=90, label=value_label)
        width += 12 + max(text_width(value_label, 10.5), 48.0) + _MARGIN
    height = max(base + 5 + _MARGIN, top + 120 if scale is not None else 0.0)
    return picture(width, height, body, label=title or " ".join(visible(word) for word in words))


def _phrase(label: str, x: Number, y: Number, *, said: str, scale: Scale | None, value: Number | None) -> str:
    width = max(text_width(label, 12) + 12, 22.0)
    if scale is None or value is None:
        paint, role, shown = fill("chip"), "ink", said
    else:
        paint, role, shown = colour(scale, value), scale.text_role(value), f"{said}: {tick(value)}"
    box = element("rect", x=x - width / 2, y=y - _BOX / 2, width=width, height=_BOX, rx=5, **paint)
    outline = element("rect", x=x - width / 2, y=y - _BOX / 2, width=width, height=_BOX, rx=5, **stroke("rule"))
    letters = text(x, y + 4.3, label, size=12, anchor="middle", role=role, weight=550)
    return element("g", tooltip(shown) + box + outline + letters, class_="sa-phrase")


def _phrase_parents(phrases: Sequence[tuple[str, int, int]], num_words: int) -> tuple[list[int], list[int]]:
    """The phrase above each phrase and above each word, -1 where there is none."""
    parents, leaf_parents = [-1] * len(phrases), [-1] * num_words
    open_phrases: list[int] = []
    for index in sorted(range(len(phrases)), key=lambda i: (phrases[i][1], -phrases[i][2], i)):
        label, start, end = phrases[index]
        if not 0 <= start < end <= num_words:
            raise ValueError(f"phrase {label} covers words {start} to {end}; expected a part of 0 to {num_words}")
        while open_phrases and phrases[open_phrases[-1]][2] <= start:
            open_phrases.pop()
        if open_phrases and phrases[open_phrases[-1]][2] < end:
            other = phrases[open_phrases[-1]]
            raise ValueError(f"phrase {label} ({start}, {end}) crosses phrase {other[0]} ({other[1]}, {other[2]})")
        parents[index] = open_phrases[-1] if open_phrases else -1
        open_phrases.append(index)
        # Children come later in this order, so the last phrase to claim a word is the lowest one over it.
        leaf_parents[start:end] = [index] * (end - start)
    return parents, leaf_parents


def _bottom_up(parents: Sequence[int]) -> list[int]:
    """Every child before its parent."""
    children: dict[int, list[int]] = {}
    for child, parent in enumerate(parents):
        children.setdefault(parent, []).append(child)
    order, waiting = [], list(children.get(-1, []))
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += children.get(node, [])
    return order[::-1]


def _levels(parents: Sequence[int]) -> list[int]:
    levels = [0] * len(parents)
    for node in _bottom_up(parents):
        if parents[node] >= 0:
            levels[parents[node]] = max(levels[parents[node]], levels[node] + 1)
    return levels


def _centres(
    parents: Sequence[int], leaf_parents: Sequence[int], levels: Sequence[int], places: Sequence[Number]
) -> list[Number]:
    below: list[list[Number]] = [[] for _ in parents]
    for leaf, parent in enumerate(leaf_parents):
        if parent >= 0:
            below[parent].append(places[leaf])
    centres = [0.0] * len(levels)
    for node in _bottom_up(parents):
        centres[node] = (min(below[node]) + max(below[node])) / 2
        if parents[node] >= 0:
            below[parents[node]].append(centres[node])
    return centres


def _leaf_places(
    words: Sequence[str], phrases: Sequence[tuple[str, int, int]], tags: Sequence[str] | None
) -> list[Number]:
    widths = [
        max(text_width(visible(word), _WORD), text_width(tags[i], 10.5) if tags is not None else 0.0, 14.0)
        for i, word in enumerate(words)
    ]
    for label, start, end in phrases:
        if end - start == 1:
            widths[start] = max(widths[start], text_width(label, 12) + 12)
    places: list[Number] = []
    for index, width in enumerate(widths):
        places.append(places[-1] + (widths[index - 1] + width) / 2 + 16 if places else _MARGIN + width / 2)
    return places
