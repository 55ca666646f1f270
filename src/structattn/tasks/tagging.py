"""``TaggingModel``: predicts a tag for each word from an encoder's states, independently, as a chain or as segments.

The tags of an example are its label, separated by spaces.

Reference: Lafferty et al. (2001), Conditional random fields; Huang et al. (2015), Bidirectional LSTM-CRF models for
sequence tagging.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.data.model_folder import VOCABULARY, read_vocabulary, write_vocabulary
from structattn.data.span_tags import TagScheme, list_pairs, recognise_scheme
from structattn.distributions import LinearChainCRF, SemiMarkovCRF
from structattn.encoders import SentenceEncoder
from structattn.encoders.build import build_from_config
from structattn.encoders.text_node import with_word_states
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating
from structattn.tasks.answer_config import ClassifierConfig
from structattn.tasks.answering import (
    Evaluation,
    Item,
    Prediction,
    answer_by_length,
    measure_texts,
    num_words,
    text_predictions,
)
from structattn.tasks.classifier import Classifier, TagChain
from structattn.tasks.tag_segments import TagSegments
from structattn.tasks.task import Task
from structattn.tasks.task_batch import check_batch, check_labels_unread, naming_examples
from structattn.tasks.task_model import ModelConfig, TaskModel


@dataclass(frozen=True, eq=False)
class TagBatch:
    """Sentences and their tags as tensors."""

    sentences: SentenceBatch
    tags: Int64[Tensor, "batch word"]  # an arbitrary possible class at padding and in sentences without tags
    weight: Float[Tensor, " batch"]  # factor of each example's loss, zero where there are no tags
    ids: tuple[str, ...] = ()
    num_labelled: int = 0  # how many examples have tags

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def sides(self) -> tuple[SentenceBatch, ...]:
        """The batches that the encoder reads."""
        return (self.sentences,)

    def to(self, device: torch.device | str) -> "TagBatch":
        """The same batch on another device."""
        if self.tags.device == torch.device(device):
            return self
        tags, weight = self.tags.to(device), self.weight.to(device)
        return TagBatch(self.sentences.to(device), tags, weight, self.ids, self.num_labelled)


class TaggingModel(TaskModel):
    """``p(tags | sentence)``: a ``TagChain``, or ``TagSegments``, of ``classifier(states)``, where an encoder gives the
    states of words.

    The loss is ``-sum log p(tags | sentence) / sum of words``, and the answer is the best sequence of tags.

    Args:
        encoder: gives states of words.
        task: the task.
        labels: the tags.
        vocabulary: the words.
        classifier: the layers between states and tags, and how tags depend on each other; without dropout unless it
            sets some.
        trees: the phrase trees that sentences get before they are encoded; their own if ``None``.
        scheme: how tags mark spans, which decides what may follow what; as the tags say if ``None``. IOB1 has the tags
            of IOB2.
        longest: the number of words of the longest span that segments may have.

    Raises:
        ConfigError: for fewer than two tags, or a classifier with options for sentences only.

    Example:
        >>> from structattn.encoders import build
        >>> from structattn.tasks import get_task
        >>> vocabulary = Vocabulary(["bark", "dogs"])
        >>> encoder = build("bilstm", vocab_size=len(vocabulary), dim=4)
        >>> model = TaggingModel(encoder, get_task("tagging"), ["NOUN", "VERB"], vocabulary=vocabulary)
        >>> bool(model.loss([Example("Dogs bark", "NOUN VERB")]) > 0)
        True
        >>> len(model.predict(["Dogs bark"])[0].text.split())
        2
    """

    kind: ClassVar[str] = "tagging"
    uses_pooling: ClassVar[bool] = False
    vocabulary: Vocabulary

    def __init__(
        self,
        encoder: SentenceEncoder,
        task: Task,
        labels: Sequence[str],
        *,
        vocabulary: Vocabulary,
        classifier: ClassifierConfig | None = None,
        trees: PhraseTrees | None = None,
        scheme: TagScheme | None = None,
        longest: int = 1,
    ) -> None:
        super().__init__()
        classifier = ClassifierConfig() if classifier is None else classifier
        if len(set(labels)) < 2 or len(set(labels)) < len(labels):
            raise ConfigError(f"task {task.name!r} needs at least two tags, each once; got {list(labels)}")
        if classifier.combine is not None or classifier.label_smoothing:
            message = "expected no classifier.combine or classifier.label_smoothing, which are for labels of sentences"
            raise ConfigError(f"task {task.name!r}: {message}")
        self.encoder = with_word_states(encoder)
        self.task = task
        self.labels = tuple(labels)
        self.vocabulary = vocabulary
        self.trees = PhraseTrees() if trees is None else trees
        self.classifier_config = classifier
        self.classifier = Classifier.from_config(
            classifier, encoder.state_dim, len(self.labels), hidden=task.classifier_hidden
        )
        self.chain: TagChain | TagSegments = (
            TagSegments(self.labels, scheme=scheme, longest=longest)
            if classifier.tags == "segments"
            else TagChain(self.labels, independent=classifier.tags == "independent", scheme=scheme)
        )

    @classmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "TaggingModel":
        """As ``TaskModel.from_examples``; the classifier has the encoder's own dropout if it sets none.

        Raises:
            ConfigError: also if an example has no tags, or not one for each word.
        """
        vocabulary = config.vocabulary_of(examples if sentences is None else sentences)
        labels = _collect_tags(task, examples)
        check_labels_unread(task, labels, vocabulary, config.options)
        encoder, scheme = config.build_encoder(vocabulary), _find_scheme(task, labels, examples)
        model = cls(
            encoder,
            task,
            labels,
            vocabulary=vocabulary,
            classifier=config.classifier_with_dropout,
            trees=config.trees,
            scheme=scheme,
            longest=_longest_span(scheme, examples),
        )
        try:
            for index, example in enumerate(examples):
                model._find_classes(example, index)
        except ValueError as error:
            raise ConfigError(f"task {task.name!r}: training {error}") from None
        return model

    @classmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path) -> "TaggingModel":
        """The model that ``config`` describes, with fresh parameters."""
        return cls(
            build_from_config(config, folder),
            Task.from_dict(config["task"]),
            config["labels"],
            vocabulary=read_vocabulary(folder / VOCABULARY, size=config["vocab_size"]),
            classifier=ClassifierConfig(**config["classifier"]),
            trees=PhraseTrees(**config["trees"]),
            scheme=None if config["tag_scheme"] is None else TagScheme(**config["tag_scheme"]),
            longest=config.get("longest_span", 1),
        )

    @property
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the words and the parameters."""
        return {
            **self.encoder.config,
            "task": self.task.to_dict(),
            "labels": list(self.labels),
            "classifier": dataclasses.asdict(self.classifier_config),
            "trees": dataclasses.asdict(self.trees),
            "tag_scheme": None if self.chain.scheme is None else dataclasses.asdict(self.chain.scheme),
            **self.chain.config,
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the vocabulary and the files of the encoder; return the configuration."""
        write_vocabulary(self.vocabulary, folder / VOCABULARY)
        return {**self.config, **self.encoder.write_files(folder)}

    def distribution(self, batch: TagBatch) -> LinearChainCRF | SemiMarkovCRF:
        """The distribution over the tags of each sentence, or over its segments.

        Raises:
            MissingStructure: if a sentence lacks a tree that the encoder needs; the message names the example.
        """
        with naming_examples([f"example {name!r}" for name in batch.ids]):
            states = self.encoder(batch.sentences).states
        # Some encoders have states of phrases, too, after those of the words.
        tags: LinearChainCRF | SemiMarkovCRF = self.chain(
            self.classifier(states[:, : batch.tags.shape[1]]), batch.sentences.lengths
        )
        return tags

    def forward(self, batch: TagBatch) -> Float[Tensor, " batch"]:
        """The log-likelihood of each sentence's own tags.

        Raises:
            MissingStructure: as ``distribution``.
        """
        check_batch(batch, TagBatch)
        return self.chain.log_prob(self.distribution(batch), batch.tags)

    def loss_of(self, scores: Float[Tensor, " batch"], batch: TagBatch) -> Float[Tensor, ""]:
        """Minus the weighted log-likelihood of all tags, divided by the weighted number of words.

        Raises:
            ValueError: if no example of the batch has tags that the model knows.
        """
        if batch.num_labelled == 0:
            raise ValueError(f"no example of this batch of {len(batch)} has tags that the model knows")
        weight = batch.weight.to(scores.dtype)
        return -(weight * scores).sum() / (weight * batch.sentences.lengths).sum().clamp(min=1)

    def collate(self, examples: Sequence[Item]) -> TagBatch:
        """Examples as tensors, see ``TaskModel.collate``; examples with an unknown tag count as without tags.

        Raises:
            ValueError: also if an example does not have one tag for each word.
        """
        task_examples = self.to_examples(examples)
        return self._batch(
            task_examples, [self._find_classes(example, index) for index, example in enumerate(task_examples)]
        )

    def predict(self, examples: Sequence[Item] | TagBatch, *, batch_size: int = 64) -> list[Prediction]:
        """The best tags of each sentence, separated by spaces; see ``TaskModel.predict``."""
        with evaluating(self):
            if isinstance(examples, TagBatch):
                return self._answers(examples)
            prepared = self.with_trees(self.to_examples(examples, batch_size=batch_size))
            return answer_by_length(
                prepared,
                # Gold tags play no part here: they may be missing, or unknown to the model.
                lambda batch: self._answers(self._batch(batch, [None] * len(batch))),
                size_of=num_words,
                batch_size=batch_size,
                device=self.device,
            )

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions, see ``TaskModel.measure``."""
        evaluation = measure_texts(self.task, examples, predictions, noun="tags")
        classes = set(self.labels)
        unseen = sum(tag not in classes for tags in evaluation.gold for tag in str(tags).split())
        if not unseen:
            return evaluation
        return dataclasses.replace(evaluation, metrics={**evaluation.metrics, "unseen_labels": unseen})

    def _batch(self, examples: Sequence[Example], classes: Sequence[list[int] | None]) -> TagBatch:
        sentences = collate([self.trees(example.sentences[0]) for example in examples], self.vocabulary)
        with naming_examples([example.describe(index) for index, example in enumerate(examples)]):
            (sentences,) = self.encoder.prepare(sentences)
        tags = torch.full(sentences.tokens.shape, self.chain.nothing, dtype=torch.int64)
        for row, row_classes in enumerate(classes):
            if row_classes:
                tags[row, : len(row_classes)] = torch.tensor(row_classes)
        is_labelled = torch.tensor([row_classes is not None for row_classes in classes])
        weight = torch.tensor([example.weight for example in examples]) * is_labelled
        ids = tuple(example.id for example in examples)
        return TagBatch(sentences, tags, weight, ids, int((weight > 0).sum()))

    def _find_classes(self, example: Example, index: int) -> list[int] | None:
        """The classes of an example's words; ``None`` without tags, or with one that the model does not know."""
        if example.label is None:
            return None
        tags, words = str(example.label).split(), len(example.sentences[0])
        if len(tags) != words:
            message = f"expected a tag for each of its {words} words, got {len(tags)}"
            raise ValueError(f"{example.describe(index)}: {message}")
        try:
            return self.chain.classes(tags)
        except ValueError as error:
            raise ValueError(f"{example.describe(index)}: {error}") from None

    def _answers(self, batch: TagBatch) -> list[Prediction]:
        tags = self.distribution(batch.to(self.device))
        best = tags.argmax()
        return text_predictions(batch.ids, self.chain.texts(best, tags.lengths), tags.log_prob(best))


def _find_scheme(task: Task, labels: Sequence[str], examples: Sequence[Example]) -> TagScheme | None:
    """How tags mark spans, ``None`` for other tags; a ``ConfigError`` for these if the task is to find spans."""
    try:
        return recognise_scheme(
            labels, {pair for example in examples for pair in list_pairs(str(example.label).split())}
        )
    except ValueError as error:
        if "span_f1" in task.metrics:
            raise ConfigError(f"task {task.name!r}: {error}") from None
        return None


def _longest_span(scheme: TagScheme | None, examples: Sequence[Example]) -> int:
    tags = [] if scheme is None else [str(example.label).split() for example in examples]
    spans = (span for sequence in tags for span in scheme.find_spans(sequence)) if scheme is not None else ()
    return max((end - start for start, end, _ in spans), default=1)


def _collect_tags(task: Task, examples: Sequence[Example]) -> tuple[str, ...]:
    """The tags of training examples, or the task's own; a ``ConfigError`` if an example has none, or others."""
    collected: set[str] = set()
    for index, example in enumerate(examples):
        description = f"training {example.describe(index)}"
        if example.label is None:
            raise ConfigError(f"task {task.name!r}: {description} has no tags")
        tags = set(str(example.label).split())
        if task.labels is not None and not tags <= set(task.labels):
            unknown = sorted(tags - set(task.labels))[0]
            names = ", ".join(task.labels)
            raise ConfigError(f"task {task.name!r}: {description} has unknown tag {unknown!r}; known: {names}")
        collected |= tags
    return task.labels or tuple(sorted(collected))
