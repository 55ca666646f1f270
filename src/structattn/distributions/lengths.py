"""Lengths of the sentences of a batch. Separate because every family reads and checks them in the same way."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def checked_lengths(
    lengths: Tensor | None, batch_shape: torch.Size, *, num_words: int, like: Tensor
) -> Int[Tensor, "*batch"]:
    """Lengths for a batch: all words if none were given; refuses what does not fit.

    Args:
        lengths: number of words of each sentence, or None.
        batch_shape: batch shape of the scores.
        num_words: the longest possible sentence.
        like: the scores, for their device.
    """
    if lengths is None:
        return torch.full(batch_shape, num_words, dtype=torch.int64, device=like.device)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths have type {lengths.dtype}: expected integers")
    try:
        lengths = lengths.to(like.device, torch.int64).expand(batch_shape)
    except RuntimeError:
        raise ValueError(
            f"lengths of shape {tuple(lengths.shape)} do not fit scores with batch shape {tuple(batch_shape)}"
        ) from None
    if torch.compiler.is_compiling() or not lengths.numel():
        return lengths
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 0 or longest > num_words:
        raise ValueError(f"lengths lie between {shortest} and {longest}: expected 0 to {num_words}")
    return lengths


def within(lengths: Int[Tensor, "*batch"], size: int) -> Bool[Tensor, "*batch position"]:
    """True at the first ``lengths`` of ``size`` positions."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)
