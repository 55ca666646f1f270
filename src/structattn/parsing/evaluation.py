"""Attachment scores of a parser, as Universal Dependencies counts them, punctuation included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from structattn.syntax import Sentence


@dataclass(frozen=True)
class Attachment:
    """Shares of all words, punctuation included.

    Attributes:
        uas: words with the right head (unlabelled attachment score).
        las: words with the right head and the right label, subtypes such as ``nmod:poss`` included.
        las_universal: the same without subtypes, as in the CoNLL 2018 shared task.
        tags: words with the right tag.
        words: how many words were counted.
    """

    uas: float
    las: float
    las_universal: float
    tags: float
    words: int


def attachment(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> Attachment:
    """Compare trees and tags over the same words, word by word.

    Args:
        gold: sentences with gold trees.
        predicted: the same sentences with predicted trees.

    Raises:
        ValueError: if they are not the same sentences, if one has no tree, or if there are no words.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> gold = Sentence(["kids", "wash"], ["NOUN", "VERB"], DependencyTree([2, 0], ["nsubj", "root"]))
        >>> guess = Sentence(["kids", "wash"], ["NOUN", "NOUN"], DependencyTree([2, 0], ["obj", "root"]))
        >>> attachment([gold], [guess])
        Attachment(uas=1.0, las=0.5, las_universal=0.5, tags=0.5, words=2)
    """
    if len(gold) != len(predicted):
        raise ValueError(f"expected as many predicted sentences as gold ones, got {len(predicted)} for {len(gold)}")
    words = heads = labels = universal = tags = 0
    for number, (right, guess) in enumerate(zip(gold, predicted, strict=True)):
        if right.words != guess.words:
            raise ValueError(f"sentence {number}: expected the words {right.words[:5]}..., got {guess.words[:5]}...")
        for (head, label), (guessed_head, guessed_label) in zip(_arcs(right), _arcs(guess), strict=True):
            same = head == guessed_head
            heads += same
            labels += same and label == guessed_label
            universal += same and label.split(":")[0] == guessed_label.split(":")[0]
        tags += sum(a == b for a, b in zip(right.tags or (), guess.tags or (), strict=False))
        words += len(right)
    if not words:
        raise ValueError("expected at least one word to compare")
    return Attachment(heads / words, labels / words, universal / words, tags / words, words)


def _arcs(sentence: Sentence) -> Iterator[tuple[int, str]]:
    tree = sentence.dependency
    if tree is None:
        raise ValueError(f"expected a dependency tree to compare, {' '.join(sentence.words[:5])!r} has none")
    return zip(tree.heads, tree.labels or [""] * len(tree), strict=True)
