"""``TaskBatch``: examples as tensors, with their targets; and labels for every word and phrase of a tree.

Of a ``SentenceModel``, only labels of phrases supervise the states of an encoder rather than its vector. Socher et al.
2013 label every phrase of the Stanford Sentiment Treebank; Tai et al. 2015 and Nguyen et al. 2020 train on all of them
at once, in one encoding of the sentence, and measure at the root.
"""

from collections.abc import Mapping, Sequence
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
    """Refuse texts and examples where a model's ``forward`` expects the tensors of a batch.

    Args:
        batch: the argument of ``forward``.
        kind: the type that the model's ``collate`` returns.

    Raises:
        TypeError: for anything else.

    Example:
        >>> check_batch(["a text"], TaskBatch)
        Traceback (most recent call last):
        ...
        TypeError: expected a TaskBatch as model.collate makes it, got a list; for answers write model.predict([...])
    """
    if not isinstance(batch, kind):
        came = f"expected a {kind.__name__} as model.collate makes it, got a {type(batch).__name__}"
        raise TypeError(f"{came}; for answers write model.predict([...])")


def naming_example(error: MissingStructure, ids: Sequence[str]) -> MissingStructure:
    """The error about a sentence of a batch, with the id of its example.

    Batches are sorted by length, so an index within one means nothing to the reader of a data file.

    Args:
        error: the error that an encoder raised.
        ids: those of the examples of the batch.

    Example:
        >>> str(naming_example(MissingStructure("'hush' has no relation", index=1), ["a7", "b3"]))
        "'hush' has no relation; it is of example 'b3'"
    """
    if error.index is None or error.index >= len(ids):
        return error
    message = f"{error.message}; it is of example {ids[error.index]!r}"
    return MissingStructure(message, index=error.index, structure=error.structure)


def with_node_classes(batch: TaskBatch, task: Task, classes: Mapping[str, int]) -> TaskBatch:
    """The batch with the class of each node: the labels of its phrase trees, renamed as the task says.

    Labels that are not classes, such as those the task drops, are ignored; an example without any other is not
    labelled.

    Args:
        batch: examples of one sentence each.
        task: renames labels.
        classes: index of each class.

    Raises:
        ConfigError: if examples are pairs.
        MissingStructure: if a sentence has no phrase tree.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(3 (2 dogs) (4 bark))")
        >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary(["bark", "dogs"]))
        >>> batch = TaskBatch((batch,), torch.ones(1, 3), torch.ones(1))
        >>> with_node_classes(batch, Task("polarity"), {"3": 0, "4": 1}).node_classes
        tensor([[-1,  1,  0]])
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
            found = [-1 if name is None else classes.get(name, -1) for name in names]
            rows[row, first : first + len(found)] = torch.tensor(found, dtype=torch.int64)
    is_labelled = batch.target.any(-1) & (rows >= 0).any(-1)
    return replace(batch, node_classes=rows, num_labelled=int(is_labelled.sum()))


def node_logits(classifier: nn.Module, encoding: Encoding, batch: TaskBatch) -> Float[Tensor, "batch node label"]:
    """Class scores of every node.

    Raises:
        ConfigError: if the encoder does not have a state for each node, as wide as its sentence vector.
    """
    wanted = () if batch.node_classes is None else tuple(batch.node_classes.shape)
    found = tuple(encoding.states.shape)
    if found[:2] != wanted or encoding.vector is None or encoding.vector.shape[-1] != found[2]:
        raise ConfigError(
            f"learning from phrases needs an encoder with a state for every word and phrase, as wide as its sentence "
            f"vector, such as tree_transformer or tree_lstm; expected states of {wanted} nodes, got {found[:2]}"
        )
    logits: Tensor = classifier(encoding.states)
    return logits


def node_loss(
    logits: Float[Tensor, "batch node label"], batch: TaskBatch, *, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """The mean cross-entropy over all nodes with a class, each with the weight of its example; zero without any.

    Args:
        logits: class scores of every node.
        batch: the batch with the classes.
        label_smoothing: share of the target probability that is spread over all classes.

    Example:
        >>> sentences = ()
        >>> batch = TaskBatch(sentences, torch.ones(1, 2), torch.ones(1), node_classes=torch.tensor([[0, -1]]))
        >>> node_loss(torch.tensor([[[0.0, 0.0], [9.0, 0.0]]]), batch)
        tensor(0.6931)
    """
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
    """Check that an encoder does not read the answers: the labels of nodes of SST are its gold labels.

    Args:
        task: the task.
        labels: its classes.
        vocabulary: with the labels of phrases.
        options: those of the encoder.

    Raises:
        ConfigError: if it does.
    """
    answers = {*labels, *task.relabel} & set(vocabulary.labels)
    if options.get("num_labels") and answers:
        raise ConfigError(
            f"options.num_labels: expected 0, as the labels of these trees are the answers of task {task.name!r} "
            f"({', '.join(sorted(answers))}), got {options['num_labels']}"
        )
