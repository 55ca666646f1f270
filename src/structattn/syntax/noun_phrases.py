"""Base noun phrases of dependency trees: noun phrases that contain no other one."""

from structattn.errors import MissingStructure
from structattn.syntax.sentence import Sentence

_HEADS = frozenset(("NOUN", "PROPN", "PRON"))
_JOINED_BY = frozenset(("det", "amod", "nummod", "compound", "flat", "nmod:poss", "nmod:desc"))


def base_noun_phrases(sentence: Sentence) -> list[tuple[int, int, str]]:
    """The base noun phrases of a sentence in Universal Dependencies, from left to right.

    A phrase is a NOUN, PROPN or PRON with the determiners, adjectives, numbers, possessors, compound and flat parts
    next to it: its span grows to the left and right while the neighbouring word depends, by one of these relations, on
    a word in the span. A phrase inside another one is dropped.

    Args:
        sentence: with universal tags, and a dependency tree with relations.

    Returns:
        Start, end (half-open, counted from 0) and the universal tag of the head of each phrase.

    Raises:
        MissingStructure: for a sentence without tags, tree or relations.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> tree = DependencyTree([3, 3, 4, 0, 4], ["det", "amod", "nsubj", "root", "obj"])
        >>> words = ["the", "old", "dog", "sees", "her"]
        >>> base_noun_phrases(Sentence(words, ["DET", "ADJ", "NOUN", "VERB", "PRON"], tree))
        [(0, 3, 'NOUN'), (4, 5, 'PRON')]
    """
    tree, tags = sentence.dependency, sentence.tags
    if tree is None or tags is None or tree.labels is None:
        raise MissingStructure(
            f"noun phrases need tags and a dependency tree with relations; {sentence.text[:60]!r} lacks them"
        )
    joins = [label in _JOINED_BY or label.startswith("compound") for label in tree.labels]
    found: list[tuple[int, int, str]] = []
    for head, tag in enumerate(tags):
        if tag not in _HEADS:
            continue
        start, end = head, head + 1
        while start > 0 and joins[start - 1] and start <= tree.heads[start - 1] - 1 < end:
            start -= 1
        while end < len(tags) and joins[end] and start <= tree.heads[end] - 1 < end:
            end += 1
        found.append((start, end, tag))
    inside = {p for p in found for q in found if p[:2] != q[:2] and q[0] <= p[0] and p[1] <= q[1]}
    return [phrase for phrase in found if phrase not in inside]
