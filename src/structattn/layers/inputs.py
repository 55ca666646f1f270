"""The second argument of attention layers, after the states: nothing, a word mask, or a batch."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.data import SentenceBatch


def batch_of(
    states: Float[Tensor, "batch word dim"],
    given: SentenceBatch | Bool[Tensor, "sentence word"] | None,
    *,
    wanted_by: str,
) -> SentenceBatch:
    """The given batch, or a batch with a mask and nothing else.

    Args:
        states: the words' states.
        given: a batch; a mask, ``True`` at words, if nothing else is needed; ``None`` if all states are words.
        wanted_by: the layer, named in the error.

    Raises:
        ValueError: if there are not as many words as states.

    Example:
        >>> import torch
        >>> batch_of(torch.zeros(1, 2, 3), None, wanted_by="attention").mask
        tensor([[True, True]])
    """
    if not isinstance(given, SentenceBatch):
        mask = mask_of(states, given, wanted_by=wanted_by)
        return SentenceBatch(mask.long(), mask, mask.sum(1))
    mask_of(states, given, wanted_by=wanted_by)
    return given


def mask_of(
    states: Float[Tensor, "batch node dim"],
    given: SentenceBatch | Bool[Tensor, "sentence word"] | None,
    *,
    wanted_by: str,
) -> Bool[Tensor, "batch node"]:
    """Which states are real: those of the batch's mask or the given mask, or all of them.

    Raises:
        ValueError: if there are not as many words as states.
    """
    if given is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    mask = given if isinstance(given, Tensor) else given.mask
    if mask.shape != states.shape[:2]:
        kind = "mask" if isinstance(given, Tensor) else "batch"
        raise ValueError(
            f"{wanted_by} got states of {states.shape[0]} sentences with {states.shape[1]} words, "
            f"but the {kind} has {mask.shape[0]} with {mask.shape[1]}"
        )
    return mask
