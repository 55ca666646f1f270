"""The base of every model that learns a task, whatever it predicts: a label, a score, a text, a tree."""

import copy
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.data import Example, PhraseTrees, Vocabulary
from structattn.data.readers.python_objects import read_objects
from structattn.data.saved_model import TREE_PARSER, SavedModel
from structattn.encoders import SentenceEncoder, build
from structattn.encoders.encoder_table import encoder_options
from structattn.errors import ConfigError, shown
from structattn.tasks.answer_config import ClassifierConfig, DecoderConfig
from structattn.tasks.answering import Evaluation, Item, Prediction, num_words, to_example
from structattn.tasks.calibration import Calibration
from structattn.tasks.task import Task

if TYPE_CHECKING:
    from structattn.layers.structured_attention import PartDistribution
    from structattn.syntax import Sentence

LOGGER = logging.getLogger("structattn.tasks")
# Of new texts of the training data's kind, 5 to 15 % of the words are unknown; of another language, most.
_MOST_UNKNOWN, _FEWEST_WORDS = 0.4, 8


@dataclass(frozen=True)
class ModelConfig:
    """The configuration of a model, apart from what its training examples determine.

    Attributes:
        encoder: name of an encoder, or ``module:function``.
        options: keyword arguments of its builder.
        embedder: name and options of the embedder that gives the states of words; see ``structattn.encoders.build``.
        classifier: the layers between sentence vectors and labels.
        decoder: the decoder in place of the classifier, for tasks whose answer is a text.
        trees: the phrase trees that sentences get before they are encoded.
        nodes: train on the labels of all words and phrases of a tree in one encoding of the sentence.
        min_count: rarer words of the training examples are unknown.
        lowercase: whether ``The`` and ``the`` are one word.
        frozen_words: further words, with untrained vectors.
        base: a vocabulary whose words keep their ids; those of the training examples are added to it.
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
    base: Vocabulary | None = None

    def vocabulary_of(self, examples: Sequence[Example]) -> Vocabulary:
        """The vocabulary of training examples; words of streamed examples are already counted."""
        options: dict[str, Any] = {"lowercase": self.lowercase, "frozen_words": self.frozen_words}
        if (counts := getattr(examples, "counts", None)) is not None:
            vocabulary = Vocabulary.from_counts(counts, self.min_count, **options)
        else:
            vocabulary = Vocabulary.from_examples(examples, self.min_count, **options)
        return vocabulary if self.base is None else self.base.extended(vocabulary)

    @property
    def classifier_with_dropout(self) -> ClassifierConfig:
        """The classifier, with the encoder's own dropout if it sets none."""
        if self.classifier.dropout is not None:
            return self.classifier
        dropout = self.options.get("dropout", encoder_options(self.encoder).get("dropout", 0.0))
        return replace(self.classifier, dropout=dropout)

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
    """Adds dependency trees to sentences that have none, and counts them; ``parsing.missing_trees`` has one."""

    count: int

    @property
    def summary(self) -> str:
        """How many sentences had no tree, which parser found one, and where the parses are kept."""
        ...

    @property
    def record(self) -> dict[str, str]:
        """Plain values that name the parser and its version."""
        ...

    def log(self, logger: logging.Logger, option: str) -> None:
        """Log the summary if any trees were found, and the option that selects another parser."""
        ...

    def keep(self) -> None:
        """Keep parses from now on, for the next time that the same sentences occur."""
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
        find_trees: adds trees to sentences that have none, before they are encoded; saved with the model. ``None`` for
            a model that needs no trees, or was trained on trees that came with its data.
        calibration: the temperature and thresholds behind its answers; ``None`` if these are not classes.
        reading: gives how the data of the run that the model was loaded from were read; ``None`` for other models.
        uses_pooling: whether the answer depends on the sentence vector, rather than on the states of words alone.
    """

    uses_pooling: ClassVar[bool] = True
    task: Task
    labels: tuple[str, ...] = ()
    encoder: Any
    vocabulary: Vocabulary | None
    find_trees: TreeFinder | None = None
    reading: Callable[[], Any] | None = None
    _is_warned = False
    calibration: Calibration | None = None

    @classmethod
    @abstractmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "TaskModel":
        """A fresh model, with the vocabulary, classes and subwords of its training examples.

        Args:
            task: the task.
            config: the configuration of the model.
            examples: the training examples.
            sentences: the whole sentences among them, which the vocabulary is built from; the examples if ``None``.

        Raises:
            ConfigError: for an unknown encoder or option, or examples that do not fit the task.
        """

    @classmethod
    @abstractmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path) -> "TaskModel":
        """The model that ``config`` describes, with fresh parameters.

        Args:
            config: as the property of that name.
            folder: contains the files that ``write_files`` wrote.
        """

    @abstractmethod
    def collate(self, examples: Sequence[Item]) -> Any:
        """Examples as a batch of tensors, on the CPU; examples without labels too.

        Raises:
            ConfigError: if the model has no vocabulary.
            ValueError: for no examples, an example with the wrong number of sentences, or a score out of range.
            TypeError: if an item is not an example, sentence, text or tuple of these.
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
            examples: examples, sentences, texts (which are split into words), or tuples of two for tasks on pairs; rows
                as mappings, or a data frame, with the columns of the run; or a batch.
            batch_size: examples per batch.

        Raises:
            ConfigError: if the batch size is below 1, or the model has no vocabulary and is not given a batch.
            ValueError: if an example has the wrong number of sentences.
            TypeError: if an item is not an example, sentence, text or tuple of these.
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
        """The parser that found the trees of the training data, if one did, and the calibration, if there is one."""
        trees = {} if self.find_trees is None else {TREE_PARSER: self.find_trees.record}
        is_calibrated = self.calibration not in (None, Calibration(), Calibration(separate=True))
        return trees | ({"calibration": asdict(self.calibration)} if is_calibrated else {})  # type: ignore[arg-type]

    @property
    def reads_together(self) -> bool:
        """Whether the encoder reads the sentences of an example in one pass."""
        return False

    def prepare_sentence(self, sentence: "Sentence") -> "Sentence":
        """A sentence as the encoder reads it: possibly with other trees, or retokenized."""
        return sentence

    def unknown_words(self, sentence: "Sentence") -> list[int]:
        """Positions of the words that the model does not know; none if it reads subwords."""
        reads_subwords = hasattr(getattr(self.encoder, "embedder", None), "tokenizer")
        if self.vocabulary is None or reads_subwords:
            return []
        return [position for position, word in enumerate(sentence.words) if word not in self.vocabulary]

    def _warn_of_unknown(self, sentences: "Sequence[Sentence]") -> None:
        """Say once that many words are unknown to the model, as in a language that it was not trained on."""
        total = sum(map(len, sentences))
        if self._is_warned or total < _FEWEST_WORDS:
            return
        unknown = [sentence.words[word] for sentence in sentences for word in self.unknown_words(sentence)]
        if len(unknown) > _MOST_UNKNOWN * total:
            self._is_warned = True
            LOGGER.warning(
                "%.0f %% of %s words are unknown to the model (%s): it was trained on others, and reads all "
                "of these as the same word",
                100 * len(unknown) / total,
                f"{total:,}",
                ", ".join(map(shown, list(dict.fromkeys(unknown))[:4])),
            )

    @property
    def has_latent_trees(self) -> bool:
        """Whether the encoder attends to the heads of words under a distribution over trees."""
        return bool(getattr(self.encoder, "has_latent_trees", False))

    def latent_trees(self, batch: Any) -> list["PartDistribution"]:
        """The distributions over trees that the encoder attends with, one for each side of a batch."""
        return [self.encoder.latent_trees(side) for side in batch.sides]

    def to_examples(self, items: Iterable[Any], *, batch_size: int | None = None) -> list[Example]:
        """What ``collate`` and ``predict`` take, as examples of the task: texts are split into words, long ones cut.

        Args:
            items: examples, sentences, texts, or tuples of these; rows or a data frame.
            batch_size: as ``predict`` was given it; without one, the labels of rows are read.

        Raises:
            ConfigError: if the batch size is below 1, or a sentence is longer than the task allows.
            ValueError: if an item does not have as many sentences as the task takes.
            TypeError: for one text instead of a list, or an item that is none of the above.
        """
        if isinstance(items, str):
            raise TypeError(f"expected a list of examples, got one text; write predict([{items[:20]!r}])")
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size: expected at least 1, got {batch_size}")
        if not isinstance(items, list | tuple) or any(isinstance(item, Mapping) for item in items):
            columns = {} if self.reading is None else self.reading().columns
            target = self.task.label_target
            if batch_size is not None:
                columns, target = {**columns, "label_column": None}, "none"
            rows = read_objects(items, **columns, target=target, num_texts=self.task.arity)
            items = self.task.prepare(rows, is_own_format=False)
        return [to_example(item, index, self.task) for index, item in enumerate(items)]

    def with_trees(self, examples: Sequence[Example]) -> list[Example]:
        """The examples as ``predict`` encodes them: truncated, and with trees if the model has a parser to find them.

        Sentences are truncated before they are parsed.

        Raises:
            ConfigError: for a sentence that is longer than the task allows, and may not be truncated.
        """
        limited = list(map(self.task.limited, examples))
        self._warn_of_unknown([sentence for example in limited for sentence in example.sentences])
        return limited if self.find_trees is None else self.find_trees(limited)

    def shortened(self, example: Example) -> Example:
        """The example with its sentences cut to what the model reads: ``max_length`` words, and for some the subwords.

        Raises:
            ConfigError: if the task does not allow it, as its answer depends on every word.
        """
        return self.task.limited(example)

    def without_parser(self) -> "TaskModel":
        """The same model without its parser, which only prediction needs; all parts are shared."""
        shared = copy.copy(self)
        shared.find_trees = None
        return shared

    def loss(self, batch: Any) -> Float[Tensor, ""]:
        """The training loss of a batch or of a sequence of examples; see ``loss_of``."""
        if isinstance(batch, Sequence):
            batch = self.collate(batch)
        return self.loss_of(self(batch), batch)

    def evaluate(self, examples: Iterable[Any], *, batch_size: int = 64) -> Evaluation:
        """Predict, and measure the predictions against the answers of the examples, rows or data frame."""
        if not (isinstance(examples, Sequence) and all(isinstance(example, Example) for example in examples)):
            examples = self.to_examples(examples)
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
