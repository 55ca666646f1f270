"""The second argument of attention layers, after the states: nothing, a word mask, or a batch."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.data import SentenceBatch


def resolve_batch(
    states: Float[Tensor, "batch word dim"],
    argument: SentenceBatch | Bool[Tensor, "sentence word"] | None,
    *,
    wanted_by: str,
) -> SentenceBatch:
    """The batch itself, or one with a mask and nothing else; ``wanted_by`` is the layer, named in the error."""
    mask = resolve_mask(states, argument, wanted_by=wanted_by)
    return argument if isinstance(argument, SentenceBatch) else SentenceBatch(mask.long(), mask, mask.sum(1))


def resolve_mask(
    states: Float[Tensor, "batch node dim"],
    argument: SentenceBatch | Bool[Tensor, "sentence word"] | None,
    *,
    wanted_by: str,
) -> Bool[Tensor, "batch node"]:
    """Which states are real: those of the batch's mask or the mask itself, or all of them."""
    if argument is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    mask = argument if isinstance(argument, Tensor) else argument.mask
    if mask.shape != states.shape[:2]:
        kind = "mask" if isinstance(argument, Tensor) else "batch"
        raise ValueError(
            f"{wanted_by} got states of {states.shape[0]} sentences with {states.shape[1]} words, "
            f"but the {kind} has {mask.shape[0]} with {mask.shape[1]}"
        )
    return mask
