"""The base of every model that learns a task, whatever it predicts: a label, a score, a text, a tree, facts."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.data import Example, PhraseTrees, Vocabulary
from structattn.data.model_folder import SavedModel
from structattn.encoders import SentenceEncoder, build
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError
from structattn.tasks.config import ClassifierConfig, DecoderConfig
from structattn.tasks.memory import check_memory, explained_memory
from structattn.tasks.metrics import metric
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.task import Task

# Maximum number of pairs of words in a batch to predict, unless it is a single example.
_PAIRS = 8_000_000

TREE_PARSER = "tree_parser"
"""The key of ``config.json`` under which a model remembers its parser."""

Item = Example | Sentence | str | tuple[Sentence | str, ...]


@dataclass(frozen=True)
class ModelConfig:
    """What a model is made of, apart from what it learns from its training examples.

    Attributes:
        encoder: name of an encoder, or ``module:function``.
        options: keyword arguments of its builder.
        embedder: name and options of what gives it the states of words; see ``structattn.encoders.build``.
        classifier: the layers between sentence vectors and labels.
        decoder: what writes texts instead.
        trees: the phrase trees that sentences get before they are encoded.
        nodes: train on the labels of all words and phrases of a tree in one encoding of the sentence.
        min_count: rarer words of the training examples are unknown.
        lowercase: whether ``The`` and ``the`` are one word.
        frozen_words: further words, with untrained vectors.
    """

    encoder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    embedder: Mapping[str, Any] = field(default_factory=dict)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    trees: PhraseTrees = field(default_factory=PhraseTrees)
    nodes: bool = False
    min_count: int = 1
    lowercase: bool = True
    frozen_words: Sequence[str] = ()

    def vocabulary_of(self, examples: Sequence[Example]) -> Vocabulary:
        """The words of training examples."""
        return Vocabulary.from_examples(
            examples, self.min_count, lowercase=self.lowercase, frozen_words=self.frozen_words
        )

    def build_encoder(self, vocabulary: Vocabulary) -> SentenceEncoder:
        """The encoder with fresh parameters, for the words of a vocabulary.

        Raises:
            ConfigError: for an unknown encoder, embedder or option.
        """
        frozen = {"num_frozen": vocabulary.num_frozen} if vocabulary.num_frozen else {}
        embedder = {**self.embedder, **frozen}
        return build(self.encoder, embedder=embedder, vocab_size=len(vocabulary), **self.options)


@runtime_checkable
class TreeFinder(Protocol):
    """Gives dependency trees to sentences that come without, as ``parsing.MissingTrees`` does.

    Attributes:
        found: how many sentences it gave trees.
    """

    found: int

    @property
    def summary(self) -> str:
        """How many sentences had no tree, what found one for them, and where the parses are kept."""
        ...

    @property
    def record(self) -> dict[str, str]:
        """Plain values that name the parser and its version."""
        ...

    def keep(self) -> None:
        """Keep parses from now on, for the next time that the same sentences come."""
        ...

    def __call__(self, examples: Sequence[Example]) -> list[Example]:
        """The same examples, each sentence with a dependency tree."""
        ...


class TaskModel(SavedModel):
    """A module that learns and answers a task.

    ``forward(batch)`` scores what ``collate`` made, and ``loss_of`` gives the loss of the scores; distributed training
    wraps ``forward`` only.

    Attributes:
        task: the task.
        labels: the classes; none for texts and trees.
        find_trees: gives trees to sentences that come without, before they are encoded; remembered by the saved model.
            ``None`` for a model that needs none, or learnt from trees that came with its data.
    """

    task: Task
    labels: tuple[str, ...] = ()
    encoder: Any
    vocabulary: Vocabulary | None
    find_trees: TreeFinder | None = None

    @classmethod
    @abstractmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "TaskModel":
        """A fresh model with what it learns from its training examples beforehand: vocabulary, classes, subwords.

        Args:
            task: the task.
            config: what the model is made of.
            examples: what it will be trained on.
            sentences: the whole sentences among them, whose words make the vocabulary; the examples if ``None``.

        Raises:
            ConfigError: for an unknown encoder or option, or examples that do not fit the task.
        """

    @classmethod
    @abstractmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path) -> "TaskModel":
        """The model that ``config`` describes, with fresh parameters.

        Args:
            config: as the property of that name.
            folder: holds what ``write_files`` wrote.
        """

    @abstractmethod
    def collate(self, examples: Sequence[Item]) -> Any:
        """Examples as a batch of tensors, on the CPU; examples without labels too.

        Raises:
            ConfigError: if the model has no vocabulary.
            ValueError: for no examples, an example with the wrong number of sentences, or a score out of range.
            TypeError: if an item is none of example, sentence, text or tuple of these.
        """

    @abstractmethod
    def loss_of(self, scores: Any, batch: Any) -> Float[Tensor, ""]:
        """The loss, given the result of ``forward``.

        Raises:
            ValueError: if no example of the batch has an answer that the model knows.
        """

    @abstractmethod
    def predict(self, examples: Any, *, batch_size: int = 64) -> list[Prediction]:
        """Answers, in the order of the examples. They do not depend on which examples share a batch.

        Args:
            examples: examples, sentences, texts (which are split into words), or tuples of two for tasks on pairs; or
                a batch.
            batch_size: examples per batch.

        Raises:
            ConfigError: if the batch size is below 1, or the model has no vocabulary and is given no batch.
            ValueError: if an example has the wrong number of sentences.
            TypeError: if an item is none of example, sentence, text or tuple of these.
            MissingStructure: if a sentence lacks a tree that the encoder needs.
        """

    @abstractmethod
    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions.

        Raises:
            ValueError: if an example has no answer to compare with, or there are no examples.
        """

    @property
    def origin(self) -> dict[str, Any]:
        """The parser that found the trees of the training data, if one did."""
        return {} if self.find_trees is None else {TREE_PARSER: self.find_trees.record}

    def with_trees(self, examples: Sequence[Example]) -> list[Example]:
        """The examples as ``predict`` encodes them: truncated, and with trees if the model has a parser to find them.

        What is truncated is not parsed.

        Raises:
            ConfigError: for a sentence that is longer than the task allows, and may not be truncated.
        """
        limited = list(map(self.task.limited, examples))
        return limited if self.find_trees is None else self.find_trees(limited)

    def loss(self, batch: Any) -> Float[Tensor, ""]:
        """What training minimises, of a batch or of a sequence of examples; see ``loss_of``."""
        if isinstance(batch, Sequence):
            batch = self.collate(batch)
        return self.loss_of(self(batch), batch)

    def evaluate(self, examples: Sequence[Example], *, batch_size: int = 64) -> Evaluation:
        """Predict, and measure against the answers that the examples have."""
        return self.measure(examples, self.predict(examples, batch_size=batch_size))

    def size_of(self, example: Example) -> int:
        """The length of an example, by which examples are batched: the words of all its sentences."""
        return num_words(example)

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch of training, counted from 0, for models that change with it."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device


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
        ValueError: if it has another number of sentences than the task takes.
        ConfigError: if a sentence is longer than the task allows, and may not be truncated.
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
    item = item if item.id else Example(item.sentences, item.label, id=str(index), weight=item.weight)
    return task.limited(item)


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
    device: torch.device | None = None,
) -> list[Prediction]:
    """Answers in the order of the examples; those of similar length share a batch: less padding, same answers.

    Of long examples, such as documents, fewer share one, as attention needs memory for every pair of words.

    Args:
        examples: what to answer.
        answer: answers one batch.
        size_of: the length of an example.
        batch_size: how many examples run at a time, at most.
        device: where they run; the CPU if ``None``.

    Raises:
        StructAttnError: if a batch needs more memory than there is; long ones are estimated before any is tried.

    Example:
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
    """Batches of indices, the shortest first, each with no more pairs of words than `_PAIRS` unless it is one."""
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
