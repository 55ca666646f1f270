"""From what users pass to a model to examples of its task, from these to answers, and from texts to their metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from structattn.data import Example
from structattn.errors import ConfigError
from structattn.syntax import Sentence
from structattn.tasks.memory import check_memory, explained_memory
from structattn.tasks.metrics import metric
from structattn.tasks.task import Task


@dataclass(frozen=True)
class Prediction:
    """A model's prediction for one example.

    Attributes:
        id: the example's id, or its position if it has none.
        label: the most probable label; ``None`` for regression.
        score: the predicted score; ``None`` for classification.
        probabilities: probability of every class; for regression the classes are the whole scores. Texts have none.
        text: the generated text; ``None`` for labels and scores.
        log_probability: the log-probability of the text, length-normalised as in its search.
        details: plain values that are written beside the answer by their names, such as what it rests on.
    """

    id: str
    label: str | None
    score: float | None
    probabilities: Mapping[str, float]
    text: str | None = None
    log_probability: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answer(self) -> str | float:
        """The label, the score or the text, whichever the task predicts."""
        if self.text is not None:
            return self.text
        return self.label if self.label is not None else float(self.score or 0.0)


@dataclass(frozen=True)
class Evaluation:
    """Predictions and their metrics.

    Attributes:
        metrics: value of each metric of the task. ``unseen_labels`` is present if some gold labels are not classes
            of the model: the number of such examples or, for a tagger, words. They count as wrong.
        predictions: one for each example, in order.
        gold: the true answers, in the same order.
    """

    metrics: Mapping[str, float]
    predictions: tuple[Prediction, ...]
    gold: tuple[str | float, ...]


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


# Maximum number of pairs of words in a batch to predict, unless it is a single example.
_PAIRS = 8_000_000


def answers_by_length(
    examples: Sequence[Example],
    answer: Callable[[list[Example]], list[Prediction]],
    *,
    size_of: Callable[[Example], int],
    batch_size: int,
    device: torch.device | None = None,
) -> list[Prediction]:
    """Answers in the order of the examples; similar lengths share a batch, which saves padding and changes no answer.

    Batches of long examples, such as documents, are smaller, as attention needs memory for every pair of words.

    Args:
        examples: the examples to answer.
        answer: answers one batch.
        size_of: the length of an example.
        batch_size: maximum number of examples per batch.
        device: where they run; the CPU if ``None``.

    Raises:
        StructAttnError: if a batch needs more memory than there is; long ones are estimated before any is run.

    Example:
        >>> from structattn.syntax import Sentence
        >>> def answer(batch):
        ...     return [Prediction(example.id, example.sentences[0].words[0], None, {}) for example in batch]
        >>> examples = [Example([Sentence.from_text(text)], id=text) for text in ("a long one", "short", "two words")]
        >>> found = answers_by_length(examples, answer, size_of=lambda example: len(example.sentences[0]), batch_size=2)
        >>> [prediction.label for prediction in found]
        ['a', 'short', 'two']
    """
    sizes = [size_of(example) for example in examples]
    batches = _batches_by_length(sizes, batch_size)
    options = "batch_size, or train with a smaller max_length"
    if batches:
        largest = max(batches, key=lambda rows: len(rows) * sizes[rows[-1]] ** 2)
        longest, where = largest[-1], device or torch.device("cpu")
        check_memory(
            answer, examples[longest], count=len(largest), longest=sizes[longest], device=where, options=options
        )
    found: dict[int, Prediction] = {}
    for rows in batches:
        with explained_memory(len(rows), sizes[rows[-1]], options=options):
            found.update(zip(rows, answer([examples[one] for one in rows]), strict=True))
    return [found[index] for index in range(len(examples))]


def _batches_by_length(sizes: Sequence[int], batch_size: int) -> list[list[int]]:
    """Batches of indices, the shortest first, each of one example or with at most `_PAIRS` pairs of words."""
    batches: list[list[int]] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        newest = batches[-1] if batches else None
        if newest is None or len(newest) == batch_size or (len(newest) + 1) * sizes[index] ** 2 > _PAIRS:
            batches.append([])
        batches[-1].append(index)
    return batches


def measured_texts(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], *, what: str = "text"
) -> Evaluation:
    """The task's metrics for answers that are texts, such as translations, apart from those that concern no example.

    Args:
        task: the task, which names the metrics.
        examples: with the gold texts as labels.
        predictions: one for each example.
        what: what an error calls the text.

    Raises:
        ValueError: if an example has no text, or there are no examples.
    """
    gold = []
    for index, example in enumerate(examples):
        if not isinstance(example.label, str):
            raise ValueError(f"{example.describe(index)} has no {what} to compare with")
        gold.append(example.label)
    answers = [str(prediction.answer) for prediction in predictions]
    chosen = [metric(name) for name in task.metrics]
    metrics = {one.name: one.value(gold, answers) for one in chosen if one.concerns_any(gold)}
    return Evaluation(metrics, tuple(predictions), tuple(gold))
