"""Gold trees: a treebank to learn from, and attachment scores as Universal Dependencies counts them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from structattn.errors import ParseError
from structattn.syntax import Sentence, read_conllu


def read_gold(path: str) -> list[Sentence]:
    """The sentences of a treebank that a parser can learn from; those without words are left out.

    Each must have tags and a labelled tree with exactly one root.
    """
    sentences = []
    for number, sentence in enumerate(read_conllu(path), start=1):
        if not len(sentence):
            continue
        tree = sentence.dependency
        name = f"sentence {number} ({sentence.metadata.get('sent_id', ' '.join(sentence.words[:5]))})"
        if tree is None or tree.labels is None or sentence.tags is None:
            raise ParseError(f"{name}: expected heads, labels and tags to learn from, they are missing", file=path)
        if len(tree.roots) != 1:
            raise ParseError(f"{name}: expected a tree with one root, got {len(tree.roots)} roots", file=path)
        # The other columns, which nothing here reads, would take most of the memory.
        sentences.append(Sentence(sentence.words, sentence.tags, tree))
    if not sentences:
        raise ParseError("expected at least one sentence with words", file=path)
    return sentences


@dataclass(frozen=True)
class Attachment:
    """Shares of all words, punctuation included, and the number of words."""

    uas: float
    las: float
    las_universal: float
    tags: float
    words: int


def score_attachment(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> Attachment:
    """Compare trees and tags over the same words, word by word.

    Args:
        gold: sentences with gold trees.
        predicted: the same sentences with predicted trees.

    Returns:
        Shares of all words, punctuation included, with the right head (``uas``), with the right head and label
        (``las``), the same without subtypes such as ``nmod:poss`` (``las_universal``, as in the CoNLL 2018 shared
        task), and with the right tag (``tags``); and the number of words.

    Raises:
        ValueError: if they are not the same sentences, if one has no tree, or if there are no words.

    Example:
        >>> import structattn as sa
        >>> gold = sa.Sentence(["kids", "wash"], ["NOUN", "VERB"], sa.DependencyTree([2, 0], ["nsubj", "root"]))
        >>> guess = sa.Sentence(["kids", "wash"], ["NOUN", "NOUN"], sa.DependencyTree([2, 0], ["obj", "root"]))
        >>> score_attachment([gold], [guess])
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
