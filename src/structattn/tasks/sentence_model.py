"""``SentenceModel``: any encoder under any task. It turns examples into batches, batches into a loss, and answers.

Training calls ``collate`` and ``loss``; inference calls ``predict`` and ``evaluate``.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import Example, PhraseTrees, SentenceBatch, Vocabulary, collate
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.layers.modes import evaluating
from structattn.syntax.errors import ConfigError, MissingStructure
from structattn.tasks.batch import TaskBatch
from structattn.tasks.classifier import Classifier, expected_scores, score_targets
from structattn.tasks.combine import COMBINATIONS, combine
from structattn.tasks.metrics import metric
from structattn.tasks.model import Item, answers_by_length, example_of, examples_of
from structattn.tasks.node_labels import node_logits, node_loss, with_node_classes
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.task import Task


class SentenceModel(nn.Module):
    """``softmax(classifier(combine(encoder(a), encoder(b))))``, one encoder for both sentences of a pair.

    Classification is trained with cross-entropy. Regression is trained with ``KL(p || p_hat)`` against the
    distribution of Tai et al. (2015, section 4.2) and answers ``r . p_hat``; both are one loss here, the divergence
    between a target distribution and the predicted one.

    Args:
        encoder: gives ``Encoding.vector`` of width ``encoder.output_dim``.
        task: the task.
        labels: the classes, where the task takes them from its training data.
        dropout: on the inputs of both layers of the classifier.
        vocabulary: needed to work on examples and texts rather than on batches.
        hidden: width of the classifier's hidden layer; the task's own by default.
        activation: of the hidden layer; by default a sigmoid for ``tai`` and ReLU otherwise.
        output_bias: whether the last layer has a bias.
        nodes: train on the label of every word and phrase of a tree in one encoding of the sentence, rather than on
            the sentence's alone. The encoder must have a state for each of them; predictions are still for the
            sentence.
        trees: the phrase trees that sentences get before they are encoded, see ``PhraseTrees``.
        unary: treatment of unary chains in them, likewise.
        tree_seed: of random trees.

    Raises:
        ConfigError: if the classes are not known, or are fewer than two; or for unknown kinds of trees.

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

    def __init__(
        self,
        encoder: SentenceEncoder,
        task: Task,
        labels: Sequence[str] | None = None,
        *,
        dropout: float = 0.0,
        vocabulary: Vocabulary | None = None,
        hidden: int | None = None,
        activation: str | None = None,
        output_bias: bool = True,
        nodes: bool = False,
        trees: str = "own",
        unary: str = "keep",
        tree_seed: int = 0,
    ) -> None:
        super().__init__()
        classes = tuple(labels) if labels is not None else task.classes
        if classes is None:
            raise ConfigError(f"task {task.name!r} takes its labels from the training data: pass labels=")
        if len(set(classes)) < 2 or len(set(classes)) < len(classes):
            raise ConfigError(f"task {task.name!r} needs at least two labels, each once; got {list(classes)}")
        self.encoder = encoder
        self.task = task
        self.labels = classes
        self.vocabulary = vocabulary
        self.nodes = nodes
        self.trees = PhraseTrees(trees, unary, tree_seed)
        self.classifier = Classifier(
            encoder.output_dim * COMBINATIONS[task.combine].width,
            len(classes),
            hidden=task.classifier_hidden if hidden is None else hidden,
            activation=activation or ("sigmoid" if task.combine == "tai" else "relu"),
            dropout=dropout,
            output_bias=output_bias,
        )
        self._indices = {label: index for index, label in enumerate(classes)}

    def forward(self, batch: TaskBatch) -> Float[Tensor, "batch *node label"]:
        """Logits: of each sentence, or of each node in a batch that has labels for nodes.

        Raises:
            ConfigError: if there are labels for nodes, but the encoder has no states of phrases.
            MissingStructure: if a sentence lacks a tree that the encoder needs; the message names the example.
        """
        try:
            encodings = [self.encoder(*text) for text in self._texts(batch.sentences)]
        except MissingStructure as error:
            if error.index is None or error.index >= len(batch.ids):
                raise
            # Batches are sorted by length, so a number within one says nothing to the reader of a data file.
            raise MissingStructure(f"{error}; it is of example {batch.ids[error.index]!r}", index=error.index) from None
        if batch.node_classes is not None:
            return node_logits(self.classifier, encodings[0], batch)
        logits: Tensor = self.classifier(combine(self.task.combine, [encoding.vector for encoding in encodings]))
        return logits

    def loss(self, batch: TaskBatch | Sequence[Example]) -> Float[Tensor, ""]:
        """Weighted mean of ``KL(target || prediction)``; for a class label that is the cross-entropy.

        With ``nodes`` it is the weighted mean of the cross-entropies of all words and phrases with a label.

        Raises:
            ValueError: if no example of the batch has a label that the model knows.
        """
        if not isinstance(batch, TaskBatch):
            batch = self.collate(batch)
        return self.loss_of(self(batch), batch)

    def loss_of(self, logits: Float[Tensor, "batch *node label"], batch: TaskBatch) -> Float[Tensor, ""]:
        """The loss, given the result of ``forward``.

        Raises:
            ValueError: if no example of the batch has a label that the model knows.
        """
        if batch.num_labelled == 0:
            raise ValueError(f"no example of this batch of {len(batch)} has a label that the model knows")
        if batch.node_classes is not None:
            return node_loss(logits, batch)
        target = batch.target.to(logits.dtype)
        divergence = F.kl_div(logits.log_softmax(-1), target, reduction="none").sum(-1)
        weight = batch.weight.to(logits.dtype)
        return (divergence * weight).sum() / weight.sum()

    def collate(self, examples: Sequence[Item]) -> TaskBatch:
        """Examples as tensors; works for texts without labels too.

        Raises:
            ConfigError: if the model has no vocabulary.
            ValueError: if an example has the wrong number of sentences, or a score out of range.
            TypeError: if an item is none of example, sentence, text or tuple of these.
        """
        found = [example_of(item, index, self.task) for index, item in enumerate(examples)]
        batch = self._batch(found, self._target(found))
        return with_node_classes(batch, self.task, self._indices) if self.nodes else batch

    def predict(
        self, examples: Sequence[Item] | TaskBatch | SentenceBatch, *, batch_size: int = 64
    ) -> list[Prediction]:
        """Answers, in the order of the examples. They do not depend on which examples share a batch.

        Args:
            examples: examples, sentences, texts (which are split into words), tuples of two for tasks on pairs; or a
                batch.
            batch_size: examples per batch.

        Raises:
            ConfigError: if the model has no vocabulary and is given no batch, or the batch size is below 1.
            ValueError: if an example has the wrong number of sentences.
            TypeError: if an item is none of example, sentence, text or tuple of these.
            MissingStructure: if a sentence lacks a tree that the encoder needs.
        """
        with evaluating(self):
            if isinstance(examples, TaskBatch):
                return self._answers(examples)
            if isinstance(examples, SentenceBatch):
                nothing = torch.zeros(len(examples), len(self.labels), device=examples.device)
                ids = tuple(str(index) for index in range(len(examples)))
                return self._answers(TaskBatch((examples,), nothing, nothing[:, 0], ids))
            found = examples_of(examples, self.task, batch_size=batch_size)
            return answers_by_length(found, self._answers_to, size_of=num_words, batch_size=batch_size)

    def evaluate(self, examples: Sequence[Example], *, batch_size: int = 64) -> Evaluation:
        """Predict, and measure against the labels.

        Raises:
            ValueError: if an example has no label, or there are no examples.
        """
        return self.measure(examples, self.predict(examples, batch_size=batch_size))

    def measure(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Evaluation:
        """The task's metrics for given predictions.

        Raises:
            ValueError: if an example has no label, or there are no examples.
        """
        gold: list[str | float] = []
        for index, example in enumerate(examples):
            if example.label is None:
                raise ValueError(f"example {example.id or index} has no label to compare with")
            gold.append(example.label)
        answers = [prediction.answer for prediction in predictions]
        metrics = {name: metric(name).value(gold, answers) for name in self.task.metrics}  # type: ignore[arg-type]
        unseen = 0 if self.task.is_regression else sum(label not in self._indices for label in gold)
        if unseen:
            metrics["unseen_labels"] = float(unseen)
        return Evaluation(metrics, tuple(predictions), tuple(gold))

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.classifier.first.weight.device

    def _batch(self, examples: Sequence[Example], target: Float[Tensor, "batch label"]) -> TaskBatch:
        if self.vocabulary is None:
            raise ConfigError("this model has no vocabulary, so it takes batches only: pass vocabulary=")
        if not examples:
            raise ValueError("a batch needs at least one example, got none")
        columns = zip(*(example.sentences for example in examples), strict=True)
        sentences = tuple(collate([self.trees(sentence) for sentence in column], self.vocabulary) for column in columns)
        sentences = tuple(one for text in self._texts(sentences) for one in self.encoder.prepare(*text))
        weight = torch.tensor([example.weight for example in examples]) * (target.sum(-1) > 0)
        return TaskBatch(sentences, target, weight, tuple(example.id for example in examples), int((weight > 0).sum()))

    def _texts(self, sentences: tuple[SentenceBatch, ...]) -> list[tuple[SentenceBatch, ...]]:
        """The sentences of each example that the encoder reads together."""
        together = COMBINATIONS[self.task.combine].reads_together
        return [sentences] if together else [(one,) for one in sentences]

    def _answers_to(self, examples: list[Example]) -> list[Prediction]:
        # Gold labels play no part here: they may be missing, or unknown to the model.
        return self._answers(self._batch(examples, torch.zeros(len(examples), len(self.labels))))

    def _answers(self, batch: TaskBatch) -> list[Prediction]:
        # Probabilities in double precision, so that rounding to a file and back does not move them.
        probabilities = self(batch.to(self.device)).double().softmax(-1)
        rows = [dict(zip(self.labels, row, strict=True)) for row in probabilities.tolist()]
        best = probabilities.argmax(-1).tolist()
        labels: list[str | None] = [self.labels[index] for index in best]
        scores: list[float | None] = [None] * len(rows)
        if self.task.score_range is not None:
            labels = [None] * len(rows)
            scores = expected_scores(probabilities, self.task.score_range).tolist()
        return [Prediction(*answer) for answer in zip(batch.ids, labels, scores, rows, strict=True)]

    def _target(self, examples: Sequence[Example]) -> Float[Tensor, "batch label"]:
        if self.task.score_range is not None:
            low = self.task.score_range[0]
            scores = [low if example.label is None else float(example.label) for example in examples]
            unlabelled = torch.tensor([example.label is None for example in examples])
            return score_targets(scores, self.task.score_range).masked_fill(unlabelled[:, None], 0.0)
        target = torch.zeros(len(examples), len(self.labels))
        for row, example in enumerate(examples):
            if example.label in self._indices:
                target[row, self._indices[str(example.label)]] = 1.0
        return target


def num_words(example: Example) -> int:
    """Length of an example: the words of all its sentences."""
    return sum(len(sentence) for sentence in example.sentences)
