"""Find out which structures of a sentence a model reads, by changing them."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from structattn.data import Example
from structattn.errors import ConfigError, MissingStructure
from structattn.inspection.looking import look
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import TaskModel

STRUCTURES = ("order", "dependency", "constituency")

_WORDS = ("the", "keys", "near", "a", "cabinet")
_CHAIN, _STAR = (0, 1, 2, 3, 4), (3, 3, 0, 3, 3)
_LEFT, _RIGHT = (((0, 5), (0, 4), (0, 3), (0, 2)), ((0, 5), (1, 5), (2, 5)))
# The sum over words in another order may differ in the last bits.
_ROUNDING = 1e-5


def structures_read(model: TaskModel) -> tuple[str, ...]:
    """Which structures of a sentence, besides its words, the answer or the attention of a model depends on.

    The model answers a sentence of five words twice, with two trees that have little in common; if nothing differs, it
    does not read them. It reads the order if the answer to the reversed sentence, with the same trees, differs.

    Args:
        model: a model of a task.

    Returns:
        Some of ``"order"``, ``"dependency"`` and ``"constituency"``.

    Raises:
        ConfigError: if the model needs a relation between words that no tree has; and as ``look``.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["a", "cabinet", "keys", "near", "the"])
        >>> encoder = sa.encoders.build("dependency_tree_lstm", vocab_size=len(vocabulary), dim=4)
        >>> structures_read(sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary))
        ('dependency',)
    """
    known = () if model.vocabulary is None else model.vocabulary.words[2 : 2 + len(_WORDS)]
    words = known if len(known) == len(_WORDS) else _WORDS
    sentence = Sentence(words, ["X"] * 5, _dependencies(_CHAIN), _phrases(words, _LEFT))
    usual, weights = _seen(model, sentence)
    found = []
    answer, _ = _seen(model, _reversed(sentence))
    if bool((answer - usual).abs().max() > _ROUNDING):
        found.append("order")
    for structure, tree in (("dependency", _dependencies(_STAR)), ("constituency", _phrases(words, _RIGHT))):
        other, other_weights = _seen(model, replace(sentence, **{structure: tree}))  # type: ignore[arg-type]
        if not torch.equal(usual, other) or not _all_equal(weights, other_weights):
            found.append(structure)
    return tuple(found)


def _seen(model: TaskModel, sentence: Sentence) -> tuple[Tensor, list[Tensor]]:
    """The answer as numbers, and all attention weights."""
    try:
        found = look(model, Example([sentence] * model.task.arity))
    except MissingStructure as error:
        raise ConfigError(f"expected a model of trees or of words only, got one that needs more: {error}") from None
    answer = found.answer
    numbers = [*answer.probabilities.values(), answer.score or 0.0, answer.log_probability or 0.0]
    return torch.tensor(numbers), [one.weights for one in found.maps]


def _all_equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def _dependencies(heads: Sequence[int]) -> DependencyTree:
    return DependencyTree(heads, ["dep"] * len(heads))


def _phrases(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> ConstituencyTree:
    return ConstituencyTree(words, [("X", *span) for span in spans], tags=["X"] * len(words))


def _reversed(sentence: Sentence) -> Sentence:
    size, words = len(sentence), sentence.words[::-1]
    heads = [0 if head == 0 else size + 1 - head for head in reversed(_CHAIN)]
    spans = [(size - end, size - start) for start, end in _LEFT]
    return Sentence(words, sentence.tags, _dependencies(heads), _phrases(words, spans))
