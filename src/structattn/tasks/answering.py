"""From what users pass to a model to examples of its task, from these to answers, and from texts to their metrics."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from structattn.data import Example
from structattn.errors import ConfigError, require
from structattn.syntax import Sentence
from structattn.tasks.memory import check_memory, explain_memory
from structattn.tasks.metrics import metric
from structattn.tasks.task import Task

if TYPE_CHECKING:
    from structattn.tasks.reports import Confusion, Report


@dataclass(frozen=True)
class Prediction:
    """A model's prediction for one example.

    Attributes:
        id: the example's id, or its position if it has none.
        label: the most probable label, or several with bars between them, which ``details`` list; ``None`` for
            regression.
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

    @property
    def judged_class(self) -> str | None:
        """The class whose probability tells how an answer changes: the label, or the most probable of several."""
        if self.label is None or self.label in self.probabilities:
            return self.label
        return max(self.probabilities, key=self.probabilities.__getitem__)


@dataclass(frozen=True)
class Evaluation:
    """Predictions and their metrics, and what lies behind these: ``report``, ``confusion``, ``to_pandas``.

    Attributes:
        metrics: value of each metric of the task. ``unseen_labels`` is present if some gold labels are not classes
            of the model: the number of such examples or, for a tagger, words. They count as wrong.
        predictions: one for each example, in order.
        gold: the true answers, in the same order.
        examples: what was predicted, in the same order.
        task: the task.
    """

    metrics: Mapping[str, float]
    predictions: tuple[Prediction, ...]
    gold: tuple[str | float, ...]
    examples: tuple[Example, ...]
    task: Task

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4g}" for name, value in self.metrics.items())
        return f"Evaluation({values}, predictions={len(self.predictions):,})"

    def rows(self) -> Iterator[dict[str, Any]]:
        """What runs keep of each example: id, gold, predicted, class probabilities as scores, details, and texts.

        For trees also the relations of the gold tree, if it has some.
        """
        for prediction, gold, example in zip(self.predictions, self.gold, self.examples, strict=True):
            tree = example.sentences[0].dependency if self.task.answer == "tree" else None
            relations = {"relations": " ".join(tree.labels)} if tree is not None and tree.labels is not None else {}
            yield {
                "id": prediction.id,
                "gold": gold,
                "predicted": prediction.answer,
                "scores": dict(prediction.probabilities),
                **prediction.details,
                **relations,
                "texts": [sentence.text for sentence in example.sentences],
            }

    def report(self) -> "Report":
        """Tables by class, type of span, relation or score, and the surest mistakes; ``print`` shows them."""
        return self.task.report(list(self.rows()))

    def confusion(self) -> "Confusion":
        """How often each class, in rows, was answered with each class, in columns; ``print`` shows it.

        Raises:
            ConfigError: if the answers are not classes.
        """
        confusion = self.report().confusion
        if confusion is None:
            raise ConfigError(f"task {self.task.name!r}: only answers that are classes have a confusion matrix")
        return confusion

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of what ``rows`` has, with the probability of class ``good`` in column ``p(good)``.

        Raises:
            MissingExtra: without the extra ``pandas``.
        """
        rows = []
        for row in self.rows():
            scores = {f"p({name})": value for name, value in row.pop("scores").items()}
            rows.append({**row, **scores, "texts": " / ".join(row["texts"])})
        return require("pandas", "pandas").DataFrame(rows)


Item = Example | Sentence | str | tuple[Sentence | str, ...]


def to_sentences(item: object, index: int = 0) -> tuple[Sentence, ...]:
    """The sentences of an example, a sentence, a text or a pair; texts are split into words.

    Raises ``TypeError`` for anything else; the message names its place.
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


def to_example(item: Item, index: int, task: Task) -> Example:
    """An example of the task from an example, sentence, text or pair; one without an id gets its index.

    Raises an error if the task takes another number of sentences, or refuses their length.
    """
    if not isinstance(item, Example):
        item = Example(to_sentences(item, index), row=index + 1)
    if len(item.sentences) != task.arity:
        raise ValueError(
            f"task {task.name!r} takes {task.arity} sentence(s), example {item.id or index} has {len(item.sentences)}"
        )
    item = item if item.id else dataclasses.replace(item, id=str(index))
    return task.limited(item)


# Maximum number of pairs of words in a batch to predict, unless it is a single example.
_PAIRS = 8_000_000


def answer_by_length(
    examples: Sequence[Example],
    answer: Callable[[list[Example]], list[Prediction]],
    *,
    size_of: Callable[[Example], int],
    batch_size: int,
    device: torch.device | None = None,
) -> list[Prediction]:
    """Answers in the order of the examples; similar lengths share a batch, which saves padding and changes no answer.

    Batches of long examples are smaller, and refused before any is run if there is too little memory on the device.
    """
    sizes = [size_of(example) for example in examples]
    batches = _batches_by_length(sizes, batch_size)
    options = "batch_size, or train with a smaller max_length"
    if batches:
        largest = max(batches, key=lambda rows: len(rows) * sizes[rows[-1]] ** 2)
        longest, device = largest[-1], device or torch.device("cpu")
        check_memory(
            answer, examples[longest], count=len(largest), longest=sizes[longest], device=device, options=options
        )
    predictions: dict[int, Prediction] = {}
    for rows in batches:
        with explain_memory(len(rows), sizes[rows[-1]], options=options):
            predictions.update(zip(rows, answer([examples[row] for row in rows]), strict=True))
    return [predictions[index] for index in range(len(examples))]


def _batches_by_length(sizes: Sequence[int], batch_size: int) -> list[list[int]]:
    """Batches of indices, the shortest first, each of one example or with at most `_PAIRS` pairs of words."""
    batches: list[list[int]] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        newest = batches[-1] if batches else None
        if newest is None or len(newest) == batch_size or (len(newest) + 1) * sizes[index] ** 2 > _PAIRS:
            batches.append([])
        batches[-1].append(index)
    return batches


def text_predictions(ids: Sequence[str], texts: Sequence[str], scores: Tensor) -> list[Prediction]:
    """Texts that are answers, with their log-probabilities."""
    rows = zip(ids, texts, scores.tolist(), strict=True)
    return [Prediction(name, None, None, {}, text=text, log_probability=score) for name, text, score in rows]


def measure_texts(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], *, noun: str = "text"
) -> Evaluation:
    """The task's metrics for answers that are texts, apart from those that concern no example.

    Raises ``ValueError`` if an example has no text; ``noun`` is what the message calls it.
    """
    gold = []
    for index, example in enumerate(examples):
        if not isinstance(example.label, str):
            raise ValueError(f"{example.describe(index)} has no {noun} to compare with")
        gold.append(example.label)
    answers = [str(prediction.answer) for prediction in predictions]
    metrics = {
        measure.name: measure.value(gold, answers)
        for measure in map(metric, task.metrics)
        if measure.applies_to_any(gold)
    }
    return Evaluation(metrics, tuple(predictions), tuple(gold), tuple(examples), task)
