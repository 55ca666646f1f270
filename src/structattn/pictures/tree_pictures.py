"""Trees over a sentence: dependencies as arcs, phrases as boxes above the words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from structattn.pictures.arc_diagram import Arc, arc_diagram
from structattn.pictures.cells import draw_colour_bar
from structattn.pictures.colours import Limits, Scale
from structattn.pictures.drawn_numbers import Number, format_tick, to_list, vector
from structattn.pictures.svg import (
    MARGIN,
    colour,
    element,
    fill,
    find_top,
    is_right_to_left,
    isolate,
    number,
    picture,
    stack,
    stroke,
    text,
    text_width,
    tooltip,
    visible,
)
from structattn.syntax.constituency_tree import ConstituencyTree, Span
from structattn.syntax.dependency_tree import DependencyTree


def dependency_tree(
    words: Sequence[str],
    heads: DependencyTree | Sequence[int],
    labels: Sequence[str] | None = None,
    *,
    weights: Sequence[Number] | None = None,
    other: DependencyTree | Sequence[int] | None = None,
    names: tuple[str, str] = ("first", "second"),
    tags: Sequence[str] | None = None,
    notes: Mapping[str, Sequence[object]] | None = None,
    emphasis: Sequence[int] = (),
    title: str | None = None,
) -> str:
    """A dependency tree as arcs from heads to dependents; a second tree, if given, is drawn below for comparison.

    Arcs that the two trees do not share are coloured, and the number of equal heads is written beside the second tree.
    The rarer kind of arcs, shared or not, stands out; the others are faint. Crossing arcs (non-projective trees) are
    drawn as they are.

    Args:
        words: the sentence.
        heads: CoNLL ids, 0 for the root; or a ``DependencyTree``, whose labels are used.
        labels: the relation of each word to its head.
        weights: between 0 and 1 for each word's arc (a probability, an attention weight), as width and opacity.
        other: a second tree over the same words.
        names: the names of the two trees.
        tags: part of speech of each word.
        notes: further rows of text under the words, by name.
        emphasis: positions of words to emphasise.
        title: a heading.

    Raises:
        ValueError: if lengths disagree or a head does not exist; the message names both numbers.

    Example:
        >>> svg = dependency_tree(["a", "dog", "barks"], [2, 3, 0], ["det", "nsubj", "root"])
        >>> svg.count('class="sa-arc"')
        3
    """
    first = _heads(words, heads)
    second = None if other is None else _heads(words, other)
    shared = [True] * len(words) if second is None else [a == b for a, b in zip(first, second, strict=True)]
    above = tree_arcs(first, _labels(heads, labels), weights, roles=["ink" if same else "series2" for same in shared])
    faint = 2 * sum(shared) > len(shared)  # the shared ones, where they are more than half
    below: list[Arc] = []
    captions = ("", "")
    if second is not None and other is not None:
        below = tree_arcs(second, _labels(other, None), roles=["ink" if same else "series3" for same in shared])
        captions = (names[0], f"{names[1]}\n{sum(shared)} of {len(words)} agree")
        above, below = ([replace(arc, faint=shared[arc.end] == faint) for arc in arcs] for arcs in (above, below))
    rows: list[tuple[str, Sequence[object]]] = [] if tags is None else [("tag", tags)]
    return arc_diagram(
        words,
        above,
        below=below,
        names=captions,
        notes=rows + list((notes or {}).items()),
        emphasis=emphasis,
        title=title,
    )


def edited_tree(
    words: Sequence[str], tree: DependencyTree, before: DependencyTree, *, tags: Sequence[str] | None = None
) -> str:
    """A tree and the arcs that an edit has changed, as the explorer shows them: thick now, and dashed before."""
    new, old = (list(zip(part.heads, part.labels or [""] * len(words), strict=True)) for part in (tree, before))
    changed = [arc != former for arc, former in zip(new, old, strict=True)]
    roles = ["edit" if is_changed else "soft" for is_changed in changed]
    arcs = [replace(arc, strong=changed[arc.end]) for arc in tree_arcs(tree.heads, tree.labels, roles=roles)]
    gone = [arc for arc in tree_arcs(before.heads) if before.heads[arc.end] != tree.heads[arc.end]]
    arcs += [replace(arc, label="", role="soft", dashed=True) for arc in gone]
    notes: list[tuple[str, Sequence[object]]] = [] if tags is None else [("tag", tags)]
    return stack([arc_diagram(words, arcs, notes=notes), _edit_key(bool(gone))])


def _edit_key(is_moved: bool) -> str:
    """What the thick and the dashed lines are."""
    body = []
    x = MARGIN
    for label, role, width, dashes in (("edited", "edit", 2.4, None), ("before", "soft", 1.5, "4 3"))[: 1 + is_moved]:
        body.append(element("path", d=f"M{number(x)} 12h22", stroke_dasharray=dashes, **stroke(role, width)))
        body.append(text(x + 28, 15.5, label, size=11, role="soft"))
        x += 46 + text_width(label, 11)
    return picture(x, 24, body, label="thick: edited; dashed: before")


def tree_arcs(
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    weights: Sequence[Number] | None = None,
    *,
    roles: Sequence[str] | None = None,
) -> list[Arc]:
    """One arc for each word, from its head (a CoNLL id), with its relation, weight and ink."""
    for kind, entries in (("labels", labels), ("weights", weights)):
        if entries is not None and len(entries) != len(heads):
            raise ValueError(f"got {len(entries)} {kind} for {len(heads)} words")
    strengths = None if weights is None else vector(weights, "weights")
    return [
        Arc(
            head - 1 if head else None,
            word,
            label=labels[word] if labels is not None else ("root" if not head else ""),
            weight=None if strengths is None else strengths[word],
            role="ink" if roles is None else roles[word],
        )
        for word, head in enumerate(heads)
    ]


def _heads(words: Sequence[str], heads: DependencyTree | Sequence[int]) -> list[int]:
    ids = [int(head) for head in (heads.heads if isinstance(heads, DependencyTree) else to_list(heads))]
    if len(ids) != len(words):
        raise ValueError(f"got {len(ids)} heads for {len(words)} words")
    for word, head in enumerate(ids, start=1):
        if not 0 <= head <= len(words) or head == word:
            raise ValueError(f"word {word} has head {head}; expected another word up to {len(words)}, or 0")
    return ids


def _labels(tree: object, labels: Sequence[str] | None) -> Sequence[str] | None:
    return tree.labels if labels is None and isinstance(tree, DependencyTree) else labels


_WORD = 14.0
_BOX = 20.0
_LEVEL = 40.0


def constituency_tree(
    words: Sequence[str],
    spans: ConstituencyTree | Sequence[Span],
    *,
    tags: Sequence[str] | None = None,
    values: Sequence[Number] | None = None,
    value_label: str = "value",
    limits: Limits | None = None,
    title: str | None = None,
) -> str:
    """A phrase tree above its words; phrases may be shaded by a value each (an attention weight, a sentiment).

    Args:
        words: the sentence.
        spans: the tree, or the half-open spans ``(label, start, end)`` of its phrases.
        tags: part of speech of each word; those of the tree by default.
        values: one value for each phrase, in the order of ``ConstituencyTree.spans``.
        value_label: the name of the values, above the colour bar.
        limits: the ends of their colour scale.
        title: a heading.

    Returns:
        A self-contained SVG document; every phrase is one element of class ``sa-phrase``.

    Raises:
        ValueError: if phrases cross or leave the sentence, or lengths disagree.

    Example:
        >>> svg = constituency_tree(["a", "dog", "barks"], [("S", 0, 3), ("NP", 0, 2)])
        >>> svg.count('class="sa-phrase"')
        2
    """
    tree = spans if isinstance(spans, ConstituencyTree) else ConstituencyTree(words, spans)
    if tags is None and any(tree.tags):
        tags = [tag or "" for tag in tree.tags]
    shades = None if values is None else vector(values, "values")
    lengths = {"words": (words, tree.words), "tags": (tags, words), "values": (shades, tree.spans)}
    for kind, (entries, expected) in lengths.items():
        if entries is not None and len(entries) != len(expected):
            raise ValueError(f"got {len(entries)} {kind}; expected {len(expected)}")
    scale = None if shades is None else (limits or Limits()).scale(shades)
    levels = _levels(tree)
    word_centres = _space_leaves(words, tree.spans, tags)
    reach = word_centres[-1] + text_width(visible(words[-1]), _WORD) / 2 if words else 40.0
    if is_right_to_left(words):
        word_centres = [reach + MARGIN - centre for centre in word_centres]
    centres = _centre_phrases(tree, word_centres)

    top = find_top(title) + 4
    floor = top + _BOX + max(levels, default=-1) * _LEVEL + (_LEVEL if tree.spans else 0.0)
    heights = [floor - (level + 1) * _LEVEL for level in levels]
    word_top = floor + (4 if tags is None else 0)
    links = [
        (centres[parent], heights[parent] + _BOX / 2, centres[i], heights[i] - _BOX / 2)
        for i, parent in enumerate(tree.parents)
        if parent >= 0
    ]
    links += [
        (centres[parent], heights[parent] + _BOX / 2, word_centres[leaf], word_top - 6)
        for leaf, parent in enumerate(tree.leaf_parents)
        if parent >= 0
    ]
    path = "".join(_edge(*link) for link in links)
    body = [element("path", d=path, **stroke("soft", 1.0))] if path else []
    for i, (label, start, end) in enumerate(tree.spans):
        hint = f"{label}: {' '.join(isolate(visible(word)) for word in words[start:end])}"
        value = None if shades is None else shades[i]
        body.append(_phrase(label, centres[i], heights[i], hint=hint, scale=scale, value=value))
    base = word_top + (6 if tags is None else 22)
    if tags is not None:
        body += [
            text(x, word_top + 6, tag, size=10.5, anchor="middle", role="soft")
            for x, tag in zip(word_centres, tags, strict=True)
            if tag
        ]
    body += [text(x, base + 5, word, size=_WORD, anchor="middle") for x, word in zip(word_centres, words, strict=True)]
    width = reach + MARGIN + 4
    if scale is not None:
        body += draw_colour_bar(scale, width + 12, top + 16, length=90, label=value_label)
        width += 12 + max(text_width(value_label, 10.5), 48.0) + MARGIN
    height = max(base + 5 + MARGIN, top + 120 if scale is not None else 0.0)
    return picture(width, height, body, label=title or " ".join(visible(word) for word in words), title=title)


def _edge(x: Number, y: Number, child_x: Number, child_y: Number) -> str:
    """An edge down, across and down again; as a phrase is above its own words, no such edge crosses another."""
    if abs(x - child_x) < 0.05:
        return f"M{number(x)} {number(y)}V{number(child_y)}"
    return f"M{number(x)} {number(y)}V{number(y + (_LEVEL - _BOX) / 2)}H{number(child_x)}V{number(child_y)}"


def _phrase(label: str, x: Number, y: Number, *, hint: str, scale: Scale | None, value: Number | None) -> str:
    width = max(text_width(label, 12) + 12, 22.0)
    if scale is None or value is None:
        paint, role, shown = fill("chip"), "ink", hint
    else:
        paint, role, shown = colour(scale, value), scale.text_role(value), f"{hint}: {format_tick(value)}"
    box = element("rect", x=x - width / 2, y=y - _BOX / 2, width=width, height=_BOX, rx=5, **paint)
    outline = element("rect", x=x - width / 2, y=y - _BOX / 2, width=width, height=_BOX, rx=5, **stroke("rule"))
    letters = text(x, y + 4.3, label, size=12, anchor="middle", role=role)
    return element("g", tooltip(shown) + box + outline + letters, class_="sa-phrase")


def _levels(tree: ConstituencyTree) -> list[int]:
    """How many phrases are between each phrase and the words, on the longest path."""
    levels = [0] * len(tree.spans)
    # Parents come first, so in reverse every child comes before its parent.
    for node, parent in reversed(list(enumerate(tree.parents))):
        if parent >= 0:
            levels[parent] = max(levels[parent], levels[node] + 1)
    return levels


def _centre_phrases(tree: ConstituencyTree, word_centres: Sequence[Number]) -> list[Number]:
    below: list[list[Number]] = [[] for _ in tree.spans]
    for leaf, parent in enumerate(tree.leaf_parents):
        if parent >= 0:
            below[parent].append(word_centres[leaf])
    centres = [0.0] * len(tree.spans)
    for node, parent in reversed(list(enumerate(tree.parents))):
        centres[node] = (min(below[node]) + max(below[node])) / 2
        if parent >= 0:
            below[parent].append(centres[node])
    return centres


def _space_leaves(words: Sequence[str], spans: Sequence[Span], tags: Sequence[str] | None) -> list[Number]:
    """The horizontal centre of each word, such that its tag and the labels of phrases over it alone have room."""
    widths = [
        max(text_width(visible(word), _WORD), text_width(tags[i], 10.5) if tags is not None else 0.0, 14.0)
        for i, word in enumerate(words)
    ]
    for label, start, end in spans:
        if end - start == 1:
            widths[start] = max(widths[start], text_width(label, 12) + 12)
    centres: list[Number] = []
    for index, width in enumerate(widths):
        centres.append(centres[-1] + (widths[index - 1] + width) / 2 + 16 if centres else MARGIN + width / 2)
    return centres
