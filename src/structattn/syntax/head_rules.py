"""Which child is the head of a phrase, for Penn Treebank labels.

Separate from the tree because this is knowledge about one annotation scheme. The idea and most priorities are those of
Magerman (1995) and Collins (1999, appendix A).
"""

from collections.abc import Sequence

_LEFT, _RIGHT = "left", "right"


def find_heads(
    spans: Sequence[tuple[str, int, int]],
    tags: Sequence[str | None],
    parents: Sequence[int],
    leaf_parents: Sequence[int],
) -> list[int]:
    """Head of every word as a CoNLL id."""
    children: list[list[tuple[int, int]]] = [[] for _ in spans]
    for index, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append((spans[index][1], index))
    for word, parent in enumerate(leaf_parents):
        if parent >= 0:
            children[parent].append((word, ~word))
    heads = [0] * len(tags)
    head_word = [0] * len(spans)
    for index in range(len(spans) - 1, -1, -1):
        ordered = [child for _, child in sorted(children[index])]
        labels = [plain_label(spans[child][0] if child >= 0 else tags[~child] or "") for child in ordered]
        chosen = ordered[_choose(plain_label(spans[index][0]), labels)]
        head_word[index] = head_word[chosen] if chosen >= 0 else ~chosen
        for child in ordered:
            if child != chosen:
                heads[head_word[child] if child >= 0 else ~child] = head_word[index] + 1
    return heads


def plain_label(label: str) -> str:
    """Cut function tags and indices off a label.

    Example:
        >>> plain_label("NP-SBJ-1"), plain_label("NP=2"), plain_label("-LRB-")
        ('NP', 'NP', '-LRB-')
    """
    for position, character in enumerate(label):
        if position and character in "-=" and not label.startswith("-"):
            return label[:position]
    return label


def _choose(label: str, children: Sequence[str]) -> int:
    return len(children) - 1
