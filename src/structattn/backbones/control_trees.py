"""Controls for HYDRA's pretraining: trees that carry no information about their sentences."""

import random
from collections.abc import Sequence
from dataclasses import replace

from structattn.syntax import ConstituencyTree, Sentence


def with_other_trees(sentences: Sequence[Sentence], *, seed: int) -> list[Sentence]:
    """Every sentence with the structures of a random other one of the same length: the control for HYDRA's claim.

    A sentence that is the only one of its length keeps its own.

    Example:
        >>> from structattn.syntax import DependencyTree
        >>> one = Sentence(["a", "b"], dependency=DependencyTree([2, 0]))
        >>> other = Sentence(["c", "d"], dependency=DependencyTree([0, 1]))
        >>> [sentence.dependency.heads for sentence in with_other_trees([one, other], seed=0)]
        [(0, 1), (2, 0)]
    """
    chosen = random.Random(seed)
    by_length: dict[int, list[int]] = {}
    for index, sentence in enumerate(sentences):
        by_length.setdefault(len(sentence), []).append(index)
    donors = list(range(len(sentences)))
    for group in by_length.values():
        order = group[:]
        chosen.shuffle(order)
        # Along a random cycle no sentence keeps its own.
        for index, donor in zip(order, order[1:] + order[:1], strict=True):
            donors[index] = donor
    return [_with_trees_of(sentence, sentences[donor]) for sentence, donor in zip(sentences, donors, strict=True)]


def _with_trees_of(sentence: Sentence, other: Sentence) -> Sentence:
    phrases = other.constituency
    if phrases is not None:
        phrases = ConstituencyTree(sentence.words, phrases.spans, tags=phrases.tags)
    return replace(
        sentence,
        dependency=other.dependency,
        constituency=phrases,
        relations=other.relations,
        # The lines of a CoNLL-U sentence would still have the old tree.
        rows=(),
        comments=(),
    )
