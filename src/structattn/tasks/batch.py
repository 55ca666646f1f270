"""``TaskBatch``: examples as tensors, with their targets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from structattn.data import SentenceBatch
from structattn.errors import MissingStructure


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
