"""Converts what users pass to a model (examples, sentences, texts, pairs) to examples of its task."""

from collections.abc import Sequence

from structattn.data import Example
from structattn.errors import ConfigError
from structattn.syntax import Sentence
from structattn.tasks.task import Task

Item = Example | Sentence | str | tuple[Sentence | str, ...]


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


def num_words(example: Example) -> int:
    """Length of an example: the words of all its sentences."""
    return sum(len(sentence) for sentence in example.sentences)


def example_of(item: Item, index: int, task: Task) -> Example:
    """An example from an example, sentence, text or tuple; texts are split into words.

    Args:
        item: example, sentence, text, or tuple of these.
        index: its place, which becomes its id if it has none.
        task: says how many sentences an example has.

    Raises:
        ValueError: if it does not have as many sentences as the task takes.
        ConfigError: if a sentence is longer than the task allows, and may not be truncated.
        TypeError: if it is none of the above.

    Example:
        >>> from structattn.tasks import get_task
        >>> example_of("ein Hund", 3, get_task("translation")).id
        '3'
    """
    if not isinstance(item, Example):
        item = Example(sentences_of(item, index))
    if len(item.sentences) != task.arity:
        raise ValueError(
            f"task {task.name!r} takes {task.arity} sentence(s), example {item.id or index} has {len(item.sentences)}"
        )
    item = item if item.id else Example(item.sentences, item.label, id=str(index), weight=item.weight)
    return task.limited(item)


def checked_examples(items: Sequence[Item], task: Task, *, batch_size: int) -> list[Example]:
    """The inputs of ``predict`` as examples.

    Args:
        items: as ``example_of`` takes them.
        task: says how many sentences an example has.
        batch_size: examples per batch.

    Raises:
        ConfigError: if the batch size is below 1.
        ValueError: if one does not have as many sentences as the task takes.
        TypeError: for one text instead of a list, or an item that ``example_of`` refuses.

    Example:
        >>> from structattn.tasks import get_task
        >>> found = checked_examples(["ein Hund", "eine Katze"], get_task("translation"), batch_size=2)
        >>> [example.id for example in found]
        ['0', '1']
    """
    if isinstance(items, str):
        raise TypeError(f"expected a list of examples, got one text; write predict([{items[:20]!r}])")
    if batch_size < 1:
        raise ConfigError(f"batch_size: expected at least 1, got {batch_size}")
    return [example_of(item, index, task) for index, item in enumerate(items)]
