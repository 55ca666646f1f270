"""Sentences of several lengths with everything that a part may read, and the running of laws."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from structattn.data import Example, SentenceBatch, Vocabulary, agreement_treebank, collate
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

#: The name of the matrix that the sample sentences carry.
MATRIX = "same"


def sample_sentences(count: int = 5) -> list[Sentence]:
    """Sentences with labelled dependency trees, phrase trees, tags and a matrix ``same``; the last has a single word.

    Example:
        >>> [len(sentence) for sentence in sample_sentences(3)][-1], sorted(sample_sentences(2)[0].relations)
        (1, ['same'])
    """
    sentences = [example.sentences[0] for example in itertools.islice(agreement_treebank(seed=3), count - 1)]
    brackets = ConstituencyTree.from_brackets("(S (V hush))")
    last = Sentence(["hush"], ["V"], DependencyTree([0], ["root"]), brackets)
    return [_with_matrix(sentence) for sentence in (*sentences, last)]


def vocabulary_of(sentences: Sequence[Sentence]) -> Vocabulary:
    """The words of some sentences."""
    return Vocabulary.from_examples([Example((sentence,)) for sentence in sentences])


def batch_of(sentences: Sequence[Sentence]) -> SentenceBatch:
    """The sentences as a batch, with ids of their own words."""
    return collate(sentences, vocabulary_of(sentences))


def run_laws(laws: Mapping[str, Callable[..., None]], part: Any, **arguments: Any) -> None:
    """Run all laws on a part; the error of one that is broken names it, whatever the part itself raised."""
    for name, law in laws.items():
        try:
            law(part, **arguments)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error


def assert_close(first: Tensor, second: Tensor, values: str, *, atol: float, rtol: float) -> None:
    """Equal shapes, types and numbers, within ``atol`` and ``rtol``."""
    torch.testing.assert_close(first, second, atol=atol, rtol=rtol, msg=lambda message: f"{values}: {message}")


def _with_matrix(sentence: Sentence) -> Sentence:
    size = range(len(sentence))
    matrix = [[float(row % 3 == column % 3) for column in size] for row in size]
    return Sentence(
        sentence.words, sentence.tags, sentence.dependency, sentence.constituency, relations={MATRIX: matrix}
    )
