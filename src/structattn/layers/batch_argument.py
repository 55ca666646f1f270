"""The second argument of attention layers, after the states: nothing, a word mask, or a batch."""

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.kernels.tracing import is_eager


def resolve_batch(
    states: Tensor, argument: SentenceBatch | Shaped[Tensor, "sentence word"] | None, *, wanted_by: nn.Module
) -> SentenceBatch:
    """The batch itself, or one with a mask and nothing else; ``wanted_by`` is the layer, named in the error."""
    mask = resolve_mask(states, argument, wanted_by=wanted_by)
    return argument if isinstance(argument, SentenceBatch) else SentenceBatch(mask.long(), mask, mask.sum(1))


def resolve_mask(
    states: Tensor, argument: SentenceBatch | Shaped[Tensor, "sentence word"] | None, *, wanted_by: nn.Module
) -> Bool[Tensor, "batch node"]:
    """Which states are real: those of the batch's mask or the mask itself, or all of them."""
    _check_states(states, wanted_by)
    if argument is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    mask = argument.mask if isinstance(argument, SentenceBatch) else read_mask(argument, wanted_by=wanted_by)
    if mask.shape != states.shape[:2]:
        kind = "batch" if isinstance(argument, SentenceBatch) else "mask"
        if mask.dim() != 2:
            raise ValueError(f"{_name(wanted_by)}: {kind} of shape {tuple(mask.shape)}: expected (sentence, word)")
        raise ValueError(
            f"{_name(wanted_by)} got states of {states.shape[0]} sentences with {states.shape[1]} words, "
            f"but the {kind} has {mask.shape[0]} with {mask.shape[1]}"
        )
    return mask


def read_mask(mask: Tensor, *, wanted_by: nn.Module) -> Bool[Tensor, "..."]:
    """A mask as booleans, from those or from 0 and 1 of any type, such as the ``attention_mask`` of a tokenizer.

    Numbers are looked at only where nothing has to wait for them.
    """
    if not isinstance(mask, Tensor) or mask.is_complex():
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{_name(wanted_by)}: mask: expected True or 1 for words, False or 0 for padding, got {kind}")
    if mask.dtype == torch.bool:
        return mask
    if mask.is_cpu and is_eager(mask):
        wrong = mask[(mask != 0) & (mask != 1)]
        if len(wrong):
            raise ValueError(
                f"{_name(wanted_by)}: mask: expected True or 1 for words, False or 0 for padding, "
                f"got {wrong[0].item()} in a mask of type {mask.dtype}"
            )
    return mask != 0


def count_words(mask: Tensor, *, wanted_by: nn.Module) -> tuple[Bool[Tensor, "batch word"], Int[Tensor, " batch"]]:
    """A mask of words that come first, and how many each sentence has."""
    mask = read_mask(mask, wanted_by=wanted_by)
    if mask.is_cpu and is_eager(mask):
        holed = (mask[:, 1:] & ~mask[:, :-1]).any(1)
        if holed.any():
            raise ValueError(
                f"{_name(wanted_by)}: mask: expected words first and padding after them, got "
                f"{mask[holed][0].int().tolist()}; StructuredAttention({_name(wanted_by)}(...)) takes any mask"
            )
    return mask, mask.sum(-1)


def _check_states(states: Tensor, wanted_by: nn.Module) -> None:
    if not isinstance(states, Tensor) or states.dim() != 3:
        shape = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
        raise ValueError(f"{_name(wanted_by)}: states of shape {shape}: expected (sentence, word, dim)")
    weights = next(wanted_by.parameters(), None)
    # Autocast takes care of other types.
    if weights is not None and (states.dtype == torch.float64) != (weights.dtype == torch.float64):
        raise ValueError(
            f"{_name(wanted_by)}: states of shape {tuple(states.shape)} and type {states.dtype}: expected "
            f"{weights.dtype}, the type of its weights, as in states.to({weights.dtype})"
        )


def _name(layer: nn.Module) -> str:
    return type(layer).__name__
