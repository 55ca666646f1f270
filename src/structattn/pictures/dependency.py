"""Dependency trees as arcs over the words, one tree or two for comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from structattn.pictures.arcs import arc_diagram
from structattn.pictures.numbers import Number, vector, vector_of
from structattn.pictures.sides import Arc
from structattn.syntax.dependency import DependencyTree


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
    above = tree_arcs(first, _labels(heads, labels), weights, roles=["ink" if same else "series0" for same in shared])
    faint = 2 * sum(shared) > len(shared)  # the shared ones, where they are more than half
    below: list[Arc] = []
    captions = ("", "")
    if second is not None and other is not None:
        below = tree_arcs(second, _labels(other, None), roles=["ink" if same else "mark" for same in shared])
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


def tree_arcs(
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    weights: Sequence[Number] | None = None,
    *,
    roles: Sequence[str] | None = None,
) -> list[Arc]:
    """One arc for each word, from its head.

    Args:
        heads: CoNLL ids, 0 for the root.
        labels: the relation of each word to its head.
        weights: weight of each arc, between 0 and 1.
        roles: the ink of each arc.

    Raises:
        ValueError: if lengths disagree or a weight is not finite.

    Example:
        >>> [(arc.start, arc.end, arc.label) for arc in tree_arcs([2, 0])]
        [(1, 0, ''), (None, 1, 'root')]
    """
    for what, given in (("labels", labels), ("weights", weights)):
        if given is not None and len(given) != len(heads):
            raise ValueError(f"got {len(given)} {what} for {len(heads)} words")
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
    ids = [int(head) for head in (heads.heads if isinstance(heads, DependencyTree) else vector_of(heads))]
    if len(ids) != len(words):
        raise ValueError(f"got {len(ids)} heads for {len(words)} words")
    for word, head in enumerate(ids, start=1):
        if not 0 <= head <= len(words) or head == word:
            raise ValueError(f"word {word} has head {head}; expected another word up to {len(words)}, or 0")
    return ids


def _labels(tree: object, labels: Sequence[str] | None) -> Sequence[str] | None:
    return tree.labels if labels is None and isinstance(tree, DependencyTree) else labels
