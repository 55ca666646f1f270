"""Answers to many examples, batch by batch, and the metrics of answers that are texts."""

from collections.abc import Callable, Sequence

import torch

from structattn.data import Example
from structattn.tasks.memory import check_memory, explained_memory
from structattn.tasks.metrics import metric
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.task import Task

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
