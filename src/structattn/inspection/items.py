"""Convert whatever users pass (examples, sentences, texts, pairs) to what a model reads."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from torch import nn

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.errors import ConfigError
from structattn.syntax import Sentence
from structattn.tasks.items import Item, sentences_of


class Batch(Protocol):
    """A batch of sentences or of a task: anything with ``sides``, the batches that an encoder reads."""

    @property
    def sides(self) -> tuple[SentenceBatch, ...]:
        """One batch for each sentence of an example."""


def batches_of(
    model: nn.Module, sentences: Batch | Item | Sequence[Item], vocabulary: Vocabulary | None
) -> list[tuple[tuple[SentenceBatch, ...], list[int]]]:
    """The input of each pass of an encoder, and for each row the index of its first sentence among all.

    A pass reads one batch, or one for each sentence of a pair if the model reads them together.
    """
    if (sides := getattr(sentences, "sides", None)) is not None:
        return _passes(sides, together=reads_together(model))
    texts = texts_of(sentences)
    known = vocabulary if vocabulary is not None else vocabulary_of(model)
    if known is None:
        raise ConfigError(
            f"{type(model).__name__} has no vocabulary: pass vocabulary=, or a batch made by structattn.collate"
        )
    task_model = first_with(model, "prepare_sentence")
    read = PhraseTrees() if task_model is None else task_model.prepare_sentence
    together = reads_together(model)
    # Sentences that are read one by one are one batch, whichever text they belong to.
    rows = texts if together else [(sentence,) for text in texts for sentence in text]
    sides = [collate([read(sentence) for sentence in side], known) for side in zip(*rows, strict=True)]
    return _passes(sides, together=together) if sides else []


def _passes(sides: Sequence[SentenceBatch], *, together: bool) -> list[tuple[tuple[SentenceBatch, ...], list[int]]]:
    firsts = [row * len(sides) for row in range(len(sides[0]))]
    if together:
        return [(tuple(sides), firsts)]
    return [((side,), [first + number for first in firsts]) for number, side in enumerate(sides)]


def reads_together(model: nn.Module) -> bool:
    """Whether the model reads the sentences of a pair in one pass."""
    task_model = first_with(model, "reads_together")
    return task_model is not None and bool(task_model.reads_together)


def items_of(sentences: Item | Sequence[Item]) -> list[Item]:
    """The items as a list; a single item becomes a list of one."""
    return [sentences] if isinstance(sentences, Example | Sentence | str | tuple) else list(sentences)


def with_found_trees(model: nn.Module, sentences: Batch | Item | Sequence[Item]) -> Batch | Sequence[Item]:
    """Items with the trees of the model's own parser, if it names one; batches are returned as they are."""
    if hasattr(sentences, "sides"):
        return sentences
    items = items_of(sentences)
    task_model = first_with(model, "find_trees")
    if task_model is None or task_model.find_trees is None:
        return items
    examples: list[Item] = task_model.with_trees(
        [
            item if isinstance(item, Example) else Example(sentences_of(item, index), id=str(index))
            for index, item in enumerate(items)
        ]
    )
    return examples


def texts_of(sentences: Batch | Item | Sequence[Item]) -> list[tuple[Sentence, ...]]:
    """One or two sentences for each text."""
    if (sides := getattr(sentences, "sides", None)) is not None:
        return list(zip(*(side.sentences for side in sides), strict=True))
    return [sentences_of(item, index) for index, item in enumerate(items_of(cast(Item | Sequence[Item], sentences)))]


def first_with(model: nn.Module, attribute: str) -> Any:
    """The first module that has an attribute, however deep inside the model; ``None`` if there is none."""
    return next((module for module in model.modules() if hasattr(module, attribute)), None)


def vocabulary_of(model: nn.Module) -> Vocabulary | None:
    """The vocabulary of a model, however deep inside it."""
    vocabularies = (getattr(module, "vocabulary", None) for module in model.modules())
    return next((vocabulary for vocabulary in vocabularies if hasattr(vocabulary, "words")), None)
