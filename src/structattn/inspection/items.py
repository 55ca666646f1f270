"""Convert whatever users pass (examples, sentences, texts, pairs) to what a model reads."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from torch import nn

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.errors import ConfigError
from structattn.syntax import Sentence
from structattn.tasks import COMBINATIONS, SentenceModel, SequenceModel, TaskBatch, TaskModel
from structattn.tasks.items import Item, sentences_of

ModuleType = TypeVar("ModuleType", bound=nn.Module)


def batches_of(
    model: nn.Module, sentences: SentenceBatch | TaskBatch | Item | Sequence[Item], vocabulary: Vocabulary | None
) -> list[tuple[tuple[SentenceBatch, ...], list[int]]]:
    """The input of each pass of an encoder, and for each row the index of its first sentence among all.

    A pass reads one batch, or one for each sentence of a pair if the model reads them together.
    """
    if isinstance(sentences, SentenceBatch):
        return [((sentences,), list(range(len(sentences))))]
    if isinstance(sentences, TaskBatch):
        return _passes(sentences.sentences, together=reads_together(model))
    texts = texts_of(sentences)
    known = vocabulary if vocabulary is not None else vocabulary_of(model)
    if known is None:
        raise ConfigError(
            f"{type(model).__name__} has no vocabulary: pass vocabulary=, or a batch made by structattn.collate"
        )
    read = _reader(model)
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
    asked = first_of(model, SentenceModel)
    return asked is not None and COMBINATIONS[asked.task.combine].reads_together


def _reader(model: nn.Module) -> Callable[[Sentence], Sentence]:
    """Maps a sentence to what the model encodes: possibly with other trees, and retokenized."""
    writer = first_of(model, SequenceModel)
    if writer is not None:
        return writer.source_of
    asked = first_of(model, SentenceModel)
    return PhraseTrees() if asked is None else asked.trees


def items_of(sentences: Item | Sequence[Item]) -> list[Item]:
    """The items as a list; a single item becomes a list of one."""
    return [sentences] if isinstance(sentences, Example | Sentence | str | tuple) else list(sentences)


def with_found_trees(
    model: nn.Module, sentences: SentenceBatch | TaskBatch | Item | Sequence[Item]
) -> SentenceBatch | TaskBatch | Sequence[Item]:
    """Items with the trees of the model's own parser, if it names one; batches are returned as they are."""
    if isinstance(sentences, SentenceBatch | TaskBatch):
        return sentences
    items = items_of(sentences)
    asked = first_of(model, TaskModel)  # type: ignore[type-abstract]
    if asked is None or asked.find_trees is None:
        return items
    return asked.with_trees(
        [
            item if isinstance(item, Example) else Example(sentences_of(item, number), id=str(number))
            for number, item in enumerate(items)
        ]
    )


def texts_of(sentences: SentenceBatch | TaskBatch | Item | Sequence[Item]) -> list[tuple[Sentence, ...]]:
    """One or two sentences for each text that a backbone reads as a whole."""
    if isinstance(sentences, SentenceBatch | TaskBatch):
        sides = (sentences,) if isinstance(sentences, SentenceBatch) else sentences.sentences
        return list(zip(*(side.sentences for side in sides), strict=True))
    return [sentences_of(item, index) for index, item in enumerate(items_of(sentences))]


def first_of(model: nn.Module, kind: type[ModuleType]) -> ModuleType | None:
    """The first module of a kind, however deep inside the model."""
    return next((module for module in model.modules() if isinstance(module, kind)), None)


def vocabulary_of(model: nn.Module) -> Vocabulary | None:
    """The vocabulary of a model, however deep inside it."""
    for module in model.modules():
        found = getattr(module, "vocabulary", None)
        if isinstance(found, Vocabulary):
            return found
    return None
