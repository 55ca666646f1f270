"""Sentences in every form that users have them in, converted to what a model reads."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from torch import nn

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError
from structattn.tasks import SentenceModel, SequenceModel, TaskBatch, TaskModel
from structattn.tasks.model import Item

ModuleType = TypeVar("ModuleType", bound=nn.Module)


def batches_of(
    model: nn.Module, sentences: SentenceBatch | TaskBatch | Item | Sequence[Item], vocabulary: Vocabulary | None
) -> list[tuple[SentenceBatch, list[int]]]:
    """Batches, and for each of their sentences its place among all sentences."""
    if isinstance(sentences, SentenceBatch):
        return [(sentences, list(range(len(sentences))))]
    if isinstance(sentences, TaskBatch):
        arity = len(sentences.sentences)
        return [
            (side, [row * arity + number for row in range(len(side))])
            for number, side in enumerate(sentences.sentences)
        ]
    flat = [sentence for text in texts_of(sentences) for sentence in text]
    known = vocabulary if vocabulary is not None else vocabulary_of(model)
    if known is None:
        raise ConfigError(
            f"{type(model).__name__} has no vocabulary: pass vocabulary=, or a batch made by structattn.collate"
        )
    read = _reader(model)
    return [(collate([read(sentence) for sentence in flat], known), list(range(len(flat))))] if flat else []


def _reader(model: nn.Module) -> Callable[[Sentence], Sentence]:
    """Maps a sentence to what the model encodes: possibly with other trees, and retokenized."""
    writer = first_of(model, SequenceModel)
    if writer is not None:
        return writer.source_of
    asked = first_of(model, SentenceModel)
    return PhraseTrees() if asked is None else asked.trees


def sentences_of(item: object, index: int = 0) -> tuple[Sentence, ...]:
    """The sentences of an example, a sentence, a text or a pair; texts are split into words.

    Raises:
        TypeError: for anything else; the message names its place.

    Example:
        >>> [sentence.words for sentence in sentences_of(("A dog.", Sentence(["hush"])))]
        [('A', 'dog', '.'), ('hush',)]
    """
    if isinstance(item, Example):
        return item.sentences
    parts = item if isinstance(item, tuple) else (item,)
    for part in parts:
        if not isinstance(part, Sentence | str):
            kind = type(part).__name__
            raise TypeError(f"expected an Example, a Sentence, a text or a tuple of these; item {index} is {kind}")
    return tuple(Sentence.from_text(part) if isinstance(part, str) else part for part in parts)


def items_of(sentences: Item | Sequence[Item]) -> list[Item]:
    """The items of a list; one item is a list of itself."""
    return [sentences] if isinstance(sentences, Example | Sentence | str | tuple) else list(sentences)


def with_found_trees(
    model: nn.Module, sentences: SentenceBatch | TaskBatch | Item | Sequence[Item]
) -> SentenceBatch | TaskBatch | Sequence[Item]:
    """Items with the trees that the model's own parser finds, if it remembers one; batches as they are."""
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
    """The first module of a kind, wherever it is wrapped."""
    return next((module for module in model.modules() if isinstance(module, kind)), None)


def vocabulary_of(model: nn.Module) -> Vocabulary | None:
    """The vocabulary that a model carries, wherever it is wrapped."""
    for module in model.modules():
        found = getattr(module, "vocabulary", None)
        if isinstance(found, Vocabulary):
            return found
    return None
