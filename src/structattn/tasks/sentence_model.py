"""``SentenceModel``: any encoder with any task. It turns examples into batches, and batches into a loss or answers.

Training calls ``collate`` and ``loss``; inference calls ``predict`` and ``evaluate``.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.data.model_folder import VOCABULARY, read_vocabulary, write_vocabulary
from structattn.data.shortening import shorten_text
from structattn.encoders.build import build_from_config
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import Sentence
from structattn.tasks.answer_config import COMBINATIONS, ClassifierConfig, combine
from structattn.tasks.answering import Evaluation, Item, Prediction, answer_by_length, num_words
from structattn.tasks.calibration import Calibration
from structattn.tasks.classifier import Classifier, expected_scores, score_targets, smoothed
from structattn.tasks.metrics import metric
from structattn.tasks.task import Task
from structattn.tasks.task_batch import (
    TaskBatch,
    check_batch,
    check_labels_unread,
    naming_examples,
    node_logits,
    node_loss,
    with_node_classes,
)
from structattn.tasks.task_model import ModelConfig, TaskModel


class SentenceModel(TaskModel):
    """``softmax(classifier(combine(encoder(a), encoder(b))))``, one encoder for both sentences of a pair.

    Classification is trained with cross-entropy. Regression is trained with ``KL(p || p_hat)`` against the
    distribution of Tai et al. (2015, section 4.2) and predicts ``r . p_hat``; both are one loss here, the divergence
    between a target distribution and the predicted one.

    Args:
        encoder: gives ``Encoding.vector`` of width ``encoder.output_dim``.
        task: the task.
        labels: the classes, where the task takes them from its training data.
        vocabulary: needed to work on examples and texts rather than on batches.
        classifier: the layers between sentence vectors and labels; without dropout unless it sets some.
        trees: the phrase trees that sentences get before they are encoded; their own if ``None``.
        nodes: train on the label of every word and phrase of a tree in one encoding of the sentence, rather than on
            the sentence's alone. The encoder must have a state for each of them; predictions are still for the
            sentence.

    Raises:
        ConfigError: if the classes are not known, or are fewer than two; or if the task's sentences cannot be combined
            as the classifier asks.

    Example:
        >>> from structattn.encoders import build
        >>> from structattn.syntax import Sentence
        >>> from structattn.tasks import SENTIMENT
        >>> vocabulary = Vocabulary(["a", "dull", "film", "fine"])
        >>> encoder = build("emb_s2t", vocab_size=len(vocabulary), dim=8)
        >>> model = SentenceModel(encoder, SENTIMENT, vocabulary=vocabulary)
        >>> first, second = model.predict(["A fine film", Sentence(["dull"])])
        >>> sorted(first.probabilities), first.label in SENTIMENT.labels
        (['negative', 'positive'], True)
    """

    kind: ClassVar[str] = "sentence"
    fewest_labels: ClassVar[int] = 2

    def __init__(
        self,
        encoder: SentenceEncoder,
        task: Task,
        labels: Sequence[str] | None = None,
        *,
        vocabulary: Vocabulary | None = None,
        classifier: ClassifierConfig | None = None,
        trees: PhraseTrees | None = None,
        nodes: bool = False,
    ) -> None:
        super().__init__()
        classifier = ClassifierConfig() if classifier is None else classifier
        if classifier.tags is not None:
            raise ConfigError(
                f"classifier.tags: task {task.name!r} answers with one label for each example, not with tags"
            )
        if classifier.combine is not None:
            task = dataclasses.replace(task, combine=classifier.combine)
        classes = tuple(labels) if labels is not None else task.classes
        if classes is None:
            raise ConfigError(f"task {task.name!r} takes its labels from the training data: pass labels=")
        if len(set(classes)) < max(self.fewest_labels, len(classes)):
            least = "at least two labels, each once" if self.fewest_labels == 2 else "a label, each once"
            raise ConfigError(f"task {task.name!r} needs {least}; got {list(classes)}")
        self.encoder = encoder
        self.task = task
        self.labels = classes
        self.vocabulary = vocabulary
        self.nodes = nodes
        self.trees = PhraseTrees() if trees is None else trees
        self.classifier_config = classifier
        self.classifier = Classifier.from_config(
            classifier,
            encoder.output_dim * COMBINATIONS[task.combine].width,
            len(classes),
            hidden=task.classifier_hidden,
            activation="sigmoid" if task.combine == "tai" else "relu",
        )
        self.calibration = None if task.is_regression else Calibration(separate=task.answer == "labels")
        self._indices = {label: index for index, label in enumerate(classes)}

    @classmethod
    def from_examples(
        cls, task: Task, config: ModelConfig, examples: Sequence[Example], *, sentences: Sequence[Example] | None = None
    ) -> "SentenceModel":
        """As ``TaskModel.from_examples``; the classifier has the encoder's own dropout if it sets none.

        Raises:
            ConfigError: also if the encoder would read labels that are the answers.
        """
        vocabulary = config.vocabulary_of(examples if sentences is None else sentences)
        labels = task.labels_of(examples)
        check_labels_unread(task, labels, vocabulary, config.options)
        encoder, classifier = config.build_encoder(vocabulary), config.classifier_with_dropout
        return cls(
            encoder,
            task,
            labels,
            vocabulary=vocabulary,
            classifier=classifier,
            trees=config.trees,
            nodes=config.nodes,
        )

    @classmethod
    def from_config(cls, config: Mapping[str, Any], folder: Path, *, has_vocabulary: bool = True) -> "SentenceModel":
        """The model that ``config`` describes, with fresh parameters.

        Args:
            config: as the property of that name.
            folder: contains the files that ``write_files`` wrote.
            has_vocabulary: whether to read the vocabulary from there; without one the model takes batches only.
        """
        vocabulary = read_vocabulary(folder / VOCABULARY, size=config["vocab_size"]) if has_vocabulary else None
        model = cls(
            build_from_config(config, folder),
            Task.from_dict(config["task"]),
            config["labels"],
            vocabulary=vocabulary,
            classifier=ClassifierConfig(**config["classifier"]),
            trees=PhraseTrees(**config["trees"]),
            nodes=config["nodes"],
        )
        if "calibration" in config:
            model.calibration = Calibration(**config["calibration"])
        return model

    @property
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the words and the parameters.

        Raises:
            ConfigError: if the encoder was not made by name.
        """
        return {
            **self.encoder.config,
            "task": self.task.to_dict(),
            "labels": list(self.labels),
            "classifier": dataclasses.asdict(self.classifier_config),
            "trees": dataclasses.asdict(self.trees),
            "nodes": self.nodes,
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the vocabulary and the files of the encoder; return the configuration, with the keys of transformers.

        Raises:
            ConfigError: if the model has no vocabulary, or its encoder was not made by name.
        """
        if self.vocabulary is None:
            raise ConfigError("this model has no vocabulary, so it cannot be saved: pass vocabulary=")
        write_vocabulary(self.vocabulary, folder / VOCABULARY)
        return {
            **self.config,
            **self.encoder.write_files(folder),
            "architectures": ["StructAttnForSequenceClassification"],
            "id2label": {str(index): label for index, label in enumerate(self.labels)},
            "label2id": self._indices,
        }

    def forward(self, batch: TaskBatch) -> Float[Tensor, "batch *node label"]:
        """Logits: of each sentence, or of each node in a batch that has labels for nodes.

        Raises:
            ConfigError: if there are labels for nodes, but the encoder has no states of phrases.
            MissingStructure: if a sentence lacks a tree that the encoder needs; the message names the example.
        """
        check_batch(batch, TaskBatch)
        with naming_examples([f"example {name!r}" for name in batch.ids]):
            encodings = [self.encoder(*text) for text in self._texts(batch.sides)]
        if batch.node_classes is not None:
            return node_logits(self.classifier, encodings[0], batch)
        logits: Tensor = self.classifier(combine(self.task.combine, [encoding.vector for encoding in encodings]))
        return logits

    def loss_of(self, scores: Float[Tensor, "batch *node label"], batch: TaskBatch) -> Float[Tensor, ""]:
        """Weighted mean of ``KL(target || prediction)``; for a class label that is the cross-entropy.

        With label smoothing the target is smoothed first, which leaves the gradient that of the cross-entropy.

        With ``nodes`` it is the weighted mean of the cross-entropies of all words and phrases with a label.

        Raises:
            ConfigError: if no example of the batch, or with ``nodes`` no word or phrase, has a label that is a class.
        """
        if batch.num_labelled == 0:
            noun = "example" if batch.node_classes is None else "word or phrase"
            raise ConfigError(f"no {noun} of this batch of {len(batch)} has a label that the model knows")
        smoothing = self.classifier_config.label_smoothing
        if batch.node_classes is not None:
            return node_loss(scores, batch, label_smoothing=smoothing)
        target = smoothed(batch.target.to(scores.dtype), smoothing)
        divergence = F.kl_div(scores.log_softmax(-1), target, reduction="none").sum(-1)
        weight = batch.weight.to(scores.dtype)
        return (divergence * weight).sum() / weight.sum()

    def collate(self, examples: Sequence[Item]) -> TaskBatch:
        """Examples as tensors, see ``TaskModel.collate``."""
        task_examples = self.to_examples(examples)
        batch = self._batch(task_examples, self._target(task_examples))
        return with_node_classes(batch, self.task, self._indices) if self.nodes else batch

    def predict(
        self, examples: Sequence[Item] | TaskBatch | SentenceBatch, *, batch_size: int = 64
    ) -> list[Prediction]:
        """Labels or scores, see ``TaskModel.predict``."""
        with evaluating(self):
            if isinstance(examples, TaskBatch):
                return self._answers(examples)
            if isinstance(examples, SentenceBatch):
                nothing = torch.zeros(len(examples), len(self.labels), device=examples.device)
                ids = tuple(str(index) for index in range(len(examples)))
                return self._answers(TaskBatch((examples,), nothing, nothing[:, 0], ids))
            prepared = self.with_trees(self.to_examples(examples, batch_size=batch_size))
            return answer_by_length(
                prepared, self._answers_to, size_of=num_words, batch_size=batch_size, device=self.device
            )

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions, see ``TaskModel.measure``."""
        gold: list[str | float] = []
        for index, example in enumerate(examples):
            if example.label is None:
                raise ValueError(f"{example.describe(index)} has no label to compare with")
            gold.append(example.label)
        answers = [prediction.answer for prediction in predictions]
        metrics = {name: metric(name).value(gold, answers) for name in self.task.metrics}  # type: ignore[arg-type]
        unseen = sum(not self._indices.keys() >= set(self.task.classes_in(label)) for label in gold)
        unseen = 0 if self.task.is_regression else unseen
        if unseen:
            metrics["unseen_labels"] = unseen
        return Evaluation(metrics, tuple(predictions), tuple(gold), tuple(examples), self.task)

    def _batch(self, examples: Sequence[Example], target: Float[Tensor, "batch label"]) -> TaskBatch:
        if self.vocabulary is None:
            raise ConfigError("this model has no vocabulary, so it takes batches only: pass vocabulary=")
        if not examples:
            raise ValueError("a batch needs at least one example, got none")
        columns = zip(*(example.sentences for example in examples), strict=True)
        sentences = tuple(collate(list(map(self.prepare_sentence, column)), self.vocabulary) for column in columns)
        with naming_examples([example.describe(index) for index, example in enumerate(examples)]):
            sentences = tuple(side for text in self._texts(sentences) for side in self.encoder.prepare(*text))
        weight = torch.tensor([example.weight for example in examples]) * self._is_known(examples, target)
        return TaskBatch(sentences, target, weight, tuple(example.id for example in examples), int((weight > 0).sum()))

    def _is_known(self, examples: Sequence[Example], target: Float[Tensor, "batch label"]) -> Bool[Tensor, " batch"]:
        """Which examples have a label that the model can learn from."""
        return target.sum(-1) > 0

    @property
    def reads_together(self) -> bool:
        """Whether the encoder reads the sentences of an example in one pass."""
        return COMBINATIONS[self.task.combine].reads_together

    def shortened(self, example: Example) -> Example:
        """The example with whole words that its backbone can read, see ``TaskModel.shortened``."""
        example = super().shortened(example)
        backbone = getattr(getattr(self.encoder, "embedder", None), "backbone", None)
        if backbone is None:
            return example
        texts = [example.sentences] if self.reads_together else [(sentence,) for sentence in example.sentences]
        options = {"max_length": backbone.max_length}
        sentences = tuple(part for text in texts for part in shorten_text(text, backbone.tokenizer, **options))
        return example if sentences == example.sentences else dataclasses.replace(example, sentences=sentences)

    def prepare_sentence(self, sentence: Sentence) -> Sentence:
        """A sentence with the phrase trees that the encoder reads."""
        return self.trees(sentence)

    def _texts(self, sides: tuple[SentenceBatch, ...]) -> list[tuple[SentenceBatch, ...]]:
        """The batches that the encoder reads in each pass."""
        return [sides] if self.reads_together else [(side,) for side in sides]

    def _answers_to(self, examples: list[Example]) -> list[Prediction]:
        # Gold labels play no part here: they may be missing, or unknown to the model.
        return self._answers(self._batch(examples, torch.zeros(len(examples), len(self.labels))))

    def _answers(self, batch: TaskBatch) -> list[Prediction]:
        # Probabilities in double precision, so that rounding to a file and back does not change them.
        probabilities = self.probabilities(self(batch.to(self.device)).double())
        rows = [dict(zip(self.labels, row, strict=True)) for row in probabilities.tolist()]
        if self.task.score_range is not None:
            scores = expected_scores(probabilities, self.task.score_range).tolist()
            return [Prediction(name, None, *answer) for name, *answer in zip(batch.ids, scores, rows, strict=True)]
        calibration = self.calibration or Calibration()
        answers, abstained = calibration.decide(probabilities.cpu().numpy(), self.labels)
        labels = [self.labels[index] for index in answers]
        details = [{"abstained": True} if abstains else {} for abstains in abstained]
        return [
            Prediction(name, label, None, row, details=detail)
            for name, label, row, detail in zip(batch.ids, labels, rows, details, strict=True)
        ]

    def probabilities(self, logits: Float[Tensor, "*batch label"]) -> Float[Tensor, "*batch label"]:
        """The probabilities of logits, at the temperature of the model."""
        return (logits if self.calibration is None else logits / self.calibration.temperature).softmax(-1)

    def _target(self, examples: Sequence[Example]) -> Float[Tensor, "batch label"]:
        if self.task.score_range is not None:
            low, high = self.task.score_range
            scores = [low if example.label is None else float(example.label) for example in examples]
            if self.task.fits_range:  # the nearest score that the model can answer
                scores = [min(max(score, low), high) for score in scores]
            unlabelled = torch.tensor([example.label is None for example in examples])
            return score_targets(scores, self.task.score_range).masked_fill(unlabelled[:, None], 0.0)
        target = torch.zeros(len(examples), len(self.labels))
        for row, example in enumerate(examples):
            if example.label in self._indices:
                target[row, self._indices[str(example.label)]] = 1.0
        return target
