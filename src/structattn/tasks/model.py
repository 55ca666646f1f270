"""The interface of a model that training, evaluation and the command line rely on, whatever it predicts."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from structattn.data import Example, Vocabulary
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError
from structattn.tasks.metrics import metric
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.task import Task

# Maximum number of pairs of words in a batch to predict, unless it is a single example.
_PAIRS = 8_000_000

Item = Example | Sentence | str | tuple[Sentence | str, ...]


@runtime_checkable
class TaskModel(Protocol):
    """A module that learns a task.

    ``forward(batch)`` scores what ``collate`` made, and ``loss_of`` gives the loss of the scores; distributed training
    wraps ``forward`` only.
    """

    task: Task
    encoder: Any
    labels: tuple[str, ...]

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words of the sentences that it reads."""
        ...

    def __call__(self, batch: Any) -> Tensor:
        """Scores."""
        ...

    def collate(self, examples: Sequence[Item]) -> Any:
        """Examples as tensors, with ``to(device)`` and a length."""
        ...

    def loss_of(self, logits: Any, batch: Any) -> Tensor:
        """The loss, given the result of ``forward``."""
        ...

    def loss(self, batch: Any) -> Tensor:
        """The loss of a batch, or of examples."""
        ...

    def predict(self, examples: Any, *, batch_size: int = 64) -> list[Prediction]:
        """Answers, in the order of the examples."""
        ...

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions."""
        ...

    def evaluate(self, examples: Sequence[Example], *, batch_size: int = 64) -> Evaluation:
        """Predict, and measure."""
        ...


def example_of(item: Item, index: int, task: Task) -> Example:
    """An example from an example, sentence, text or tuple; texts are split into words.

    Args:
        item: example, sentence, text, or tuple of these.
        index: its place, which becomes its id if it has none.
        task: says how many sentences an example has.

    Raises:
        ValueError: if it has another number of sentences than the task takes.
        TypeError: if it is none of the above.

    Example:
        >>> from structattn.tasks import get_task
        >>> example_of("ein Hund", 3, get_task("translation")).id
        '3'
    """
    if not isinstance(item, Example):
        parts = item if isinstance(item, tuple) else (item,)
        if not all(isinstance(part, Sentence | str) for part in parts):
            kind = type(item).__name__
            raise TypeError(f"expected an Example, a Sentence, a text or a tuple of these; item {index} is {kind}")
        item = Example([Sentence.from_text(part) if isinstance(part, str) else part for part in parts])
    if len(item.sentences) != task.arity:
        raise ValueError(
            f"task {task.name!r} takes {task.arity} sentence(s), example {item.id or index} has {len(item.sentences)}"
        )
    return item if item.id else Example(item.sentences, item.label, id=str(index), weight=item.weight)


def examples_of(items: Sequence[Item], task: Task, *, batch_size: int) -> list[Example]:
    """What ``predict`` was given, as examples.

    Args:
        items: as ``example_of`` takes them.
        task: says how many sentences an example has.
        batch_size: examples per batch.

    Raises:
        ConfigError: if the batch size is below 1.
        ValueError: if one has another number of sentences than the task takes.
        TypeError: for one text instead of a list, or an item that is no example.

    Example:
        >>> from structattn.tasks import get_task
        >>> [example.id for example in examples_of(["ein Hund", "eine Katze"], get_task("translation"), batch_size=2)]
        ['0', '1']
    """
    if isinstance(items, str):
        raise TypeError(f"expected a list of examples, got one text; write predict([{items[:20]!r}])")
    if batch_size < 1:
        raise ConfigError(f"batch_size: expected at least 1, got {batch_size}")
    return [example_of(item, index, task) for index, item in enumerate(items)]


def answers_by_length(
    examples: Sequence[Example],
    answer: Callable[[list[Example]], list[Prediction]],
    *,
    size_of: Callable[[Example], int],
    batch_size: int,
) -> list[Prediction]:
    """Answers in the order of the examples; those of similar length share a batch: less padding, same answers.

    Of long examples, such as documents, fewer share one, as attention needs memory for every pair of words.

    Args:
        examples: what to answer.
        answer: answers one batch.
        size_of: the length of an example.
        batch_size: how many examples run at a time, at most.

    Example:
        >>> def answer(batch):
        ...     return [Prediction(example.id, example.sentences[0].words[0], None, {}) for example in batch]
        >>> examples = [Example([Sentence.from_text(text)], id=text) for text in ("a long one", "short", "two words")]
        >>> found = answers_by_length(examples, answer, size_of=lambda example: len(example.sentences[0]), batch_size=2)
        >>> [prediction.label for prediction in found]
        ['a', 'short', 'two']
    """
    sizes = [size_of(example) for example in examples]
    found: dict[int, Prediction] = {}
    batch: list[int] = []
    for index in sorted(range(len(examples)), key=sizes.__getitem__):
        if len(batch) == batch_size or (batch and (len(batch) + 1) * sizes[index] ** 2 > _PAIRS):
            found.update(zip(batch, answer([examples[one] for one in batch]), strict=True))
            batch = []
        batch.append(index)
    if batch:
        found.update(zip(batch, answer([examples[one] for one in batch]), strict=True))
    return [found[index] for index in range(len(examples))]


def measured_texts(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], *, what: str = "text"
) -> Evaluation:
    """The task's metrics for answers that are written, such as translations; those that concern nothing are left out.

    Args:
        task: says which metrics.
        examples: with the right texts as labels.
        predictions: one for each.
        what: what an error calls the text.

    Raises:
        ValueError: if an example has no text, or there are no examples.
    """
    gold = []
    for index, example in enumerate(examples):
        if not isinstance(example.label, str):
            raise ValueError(f"example {example.id or index} has no {what} to compare with")
        gold.append(example.label)
    answers = [str(prediction.answer) for prediction in predictions]
    chosen = [metric(name) for name in task.metrics]
    metrics = {one.name: one.value(gold, answers) for one in chosen if one.concerns_any(gold)}
    return Evaluation(metrics, tuple(predictions), tuple(gold))
