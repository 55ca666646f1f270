"""``TaskBatch``: examples as tensors, with their targets; and labels for every word and phrase of a tree.

Of a ``SentenceModel``, only labels of phrases supervise the states of an encoder rather than its vector. Socher et al.
2013 label every phrase of the Stanford Sentiment Treebank; Tai et al. 2015 and Nguyen et al. 2020 train on all of them
at once, in one encoding of the sentence, and measure at the root.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.data import SentenceBatch, Vocabulary
from structattn.encoders.sentence_encoder import Encoding
from structattn.errors import ConfigError, MissingStructure
from structattn.tasks.task import Task


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """A batch of examples as tensors.

    Attributes:
        sides: one batch per sentence of an example.
        target: a distribution over the classes per example; zero where the label is missing or not a class.
        weight: factor of each example's loss, zero where there is no target.
        ids: the examples' ids.
        num_labelled: how many examples have a target.
        node_classes: the class of each node of the sentence's tree, -1 where there is none; ``None`` if only the
            sentence's own class counts.
    """

    sides: tuple[SentenceBatch, ...]
    target: Float[Tensor, "batch label"]
    weight: Float[Tensor, " batch"]
    ids: tuple[str, ...] = ()
    num_labelled: int = 0
    node_classes: Int64[Tensor, "batch node"] | None = None

    def __len__(self) -> int:
        return len(self.sides[0])

    def to(self, device: torch.device | str) -> "TaskBatch":
        """The same batch on another device."""
        if self.target.device == torch.device(device):
            return self
        return replace(
            self,
            sides=tuple(batch.to(device) for batch in self.sides),
            target=self.target.to(device),
            weight=self.weight.to(device),
            node_classes=None if self.node_classes is None else self.node_classes.to(device),
        )


def check_batch(batch: Any, kind: type) -> None:
    """Refuse texts and examples where ``forward`` expects the tensors of a batch, as ``collate`` makes it."""
    if not isinstance(batch, kind):
        came = f"expected a {kind.__name__} as model.collate makes it, got a {type(batch).__name__}"
        raise TypeError(f"{came}; for answers write model.predict([...])")


@contextlib.contextmanager
def naming_examples(names: Sequence[str]) -> Iterator[None]:
    """Add to an error about a sentence of a batch the name of its example.

    Batches are sorted by length, so an index within one means nothing to the reader of a data file.
    """
    try:
        yield
    except (ConfigError, MissingStructure) as error:
        if error.index is None or error.index >= len(names):
            raise
        message = f"{error.message}; it is of {names[error.index]}"
        if isinstance(error, ConfigError):
            raise ConfigError(message, index=error.index) from None
        raise MissingStructure(message, index=error.index, structure=error.structure) from None


def with_node_classes(batch: TaskBatch, task: Task, classes: Mapping[str, int]) -> TaskBatch:
    """The batch with the class of each node: the labels of its phrase trees, renamed as the task says.

    Labels that are not classes are ignored, and an example of which nothing is left is not labelled.
    """
    if len(batch.sides) != 1:
        raise ConfigError(f"task {task.name!r}: labels of phrases are learnt from single sentences, not from pairs")
    sentences = batch.sides[0]
    trees = sentences.require("constituency", wanted_by="learning from phrases")
    rows = torch.full(trees.mask.shape, -1)
    for row, sentence in enumerate(sentences.sentences):
        if sentence.constituency is None:  # no words
            continue
        phrases = [label for label, _, _ in sentence.constituency.spans]
        for first, labels in ((0, sentence.constituency.tags), (trees.num_leaves, phrases)):
            names = [None if label is None else task.relabel.get(label, label) for label in labels]
            row_classes = [-1 if name is None else classes.get(name, -1) for name in names]
            rows[row, first : first + len(row_classes)] = torch.tensor(row_classes, dtype=torch.int64)
    is_labelled = batch.target.any(-1) & (rows >= 0).any(-1)
    return replace(batch, node_classes=rows, num_labelled=int(is_labelled.sum()))


def node_logits(classifier: nn.Module, encoding: Encoding, batch: TaskBatch) -> Float[Tensor, "batch node label"]:
    """Class scores of every node; a ``ConfigError`` unless the encoder has a state for each, as wide as its vector."""
    expected = () if batch.node_classes is None else tuple(batch.node_classes.shape)
    shape = tuple(encoding.states.shape)
    if shape[:2] != expected or encoding.vector is None or encoding.vector.shape[-1] != shape[2]:
        raise ConfigError(
            f"learning from phrases needs an encoder with a state for every word and phrase, as wide as its sentence "
            f"vector, such as tree_transformer or tree_lstm; expected states of {expected} nodes, got {shape[:2]}"
        )
    logits: Tensor = classifier(encoding.states)
    return logits


def node_loss(
    logits: Float[Tensor, "batch node label"], batch: TaskBatch, *, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """The mean cross-entropy over all nodes with a class, each with the weight of its example; zero without any."""
    classes = batch.node_classes
    if classes is None:
        raise ValueError("node_loss expects a batch with classes of nodes, got one without")
    losses = F.cross_entropy(
        logits.flatten(0, 1), classes.flatten().clamp(min=0), reduction="none", label_smoothing=label_smoothing
    )
    weight = (batch.weight[:, None] * (classes >= 0)).to(losses.dtype).flatten()
    total = weight.sum()
    return (losses * weight).sum() / total.where(total > 0, 1.0)


def check_labels_unread(task: Task, labels: Sequence[str], vocabulary: Vocabulary, options: Mapping[str, Any]) -> None:
    """Check that an encoder does not read the answers: the labels of nodes of SST are its gold labels."""
    answers = {*labels, *task.relabel} & set(vocabulary.labels)
    if options.get("num_labels") and answers:
        raise ConfigError(
            f"options.num_labels: expected 0, as the labels of these trees are the answers of task {task.name!r} "
            f"({', '.join(sorted(answers))}), got {options['num_labels']}"
        )
