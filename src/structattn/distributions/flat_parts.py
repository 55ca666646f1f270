"""Arithmetic and checks over flat scores and parts that are the same for every family.

Separate because they need tensors only, no distribution.

Reference: Wainwright and Jordan (2008), section 3.
"""

import math

import torch
from torch import Tensor


def finite(scores: Tensor) -> Tensor:
    """Scores without ``-inf``: a forbidden part has probability zero, and ``0 * -inf`` shall be zero.

    Args:
        scores: score of every part.

    Example:
        >>> finite(torch.tensor([1.0, -torch.inf])).tolist()
        [1.0, 0.0]
    """
    return scores.masked_fill(scores == -torch.inf, 0)


def cross_entropy(log_partition: Tensor, parts: Tensor, scores: Tensor, other_log_partition: Tensor) -> Tensor:
    """``A_q - <mu_p, scores_q>`` for each item; ``inf`` where ``q`` forbids what ``p`` has, zero if ``p`` is empty.

    Args:
        log_partition: of ``p``, ``(batch,)``.
        parts: marginals of ``p``, ``(batch, part)``.
        scores: of ``q``, ``(batch, part)``.
        other_log_partition: of ``q``, ``(batch,)``.

    Example:
        >>> one, half = torch.zeros(1), torch.full((1, 2), 0.5)
        >>> round(cross_entropy(one, half, torch.zeros(1, 2), torch.full((1,), 2.0).log()).exp().item(), 6)
        2.0
    """
    impossible = ((parts > 0) & (scores == -torch.inf)).any(-1) | (other_log_partition == -torch.inf)
    expected = other_log_partition - (parts * finite(scores)).sum(-1)
    return expected.masked_fill(impossible, torch.inf).masked_fill(log_partition == -torch.inf, 0)


def as_type(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in another type; itself if it has it, without asking torch, which costs as much as a short sentence.

    Args:
        tensor: what is converted.
        dtype: the type that is wanted.

    Example:
        >>> numbers = torch.zeros(2)
        >>> as_type(numbers, torch.float32) is numbers, as_type(numbers, torch.float64).dtype
        (True, torch.float64)
    """
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def at_least_single(scores: Tensor) -> Tensor:
    """Scores in single or double precision, which the kernels read.

    Args:
        scores: of any type.

    Example:
        >>> at_least_single(torch.zeros(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


def is_below_infinity(scores: Tensor) -> bool:
    """Whether no score is nan or ``+inf``, wherever it stands.

    Args:
        scores: score of every part.

    Example:
        >>> is_below_infinity(torch.tensor([0.0, -torch.inf])), is_below_infinity(torch.tensor([0.0, torch.nan]))
        (True, False)
    """
    # One look at the highest score is enough: nan is neither below nor above infinity, and a maximum keeps it.
    return not scores.numel() or scores.detach().max().item() < math.inf


def refuse_undefined_scores(family: str, scores: Tensor, real_parts: Tensor) -> None:
    """Refuse nan and ``+inf`` in what is no padding.

    Args:
        family: name of the family, for the message.
        scores: score of every part.
        real_parts: where the scores are read.

    Raises:
        ValueError: if there is such a score.

    Example:
        >>> refuse_undefined_scores("trees", torch.tensor([0.0, torch.nan]), torch.tensor([True, False]))
    """
    undefined = (torch.isnan(scores) | (scores == torch.inf)) & real_parts
    if undefined.any():
        raise ValueError(
            f"{family}: {int(undefined.sum())} of {undefined.numel()} scores are nan or +inf; "
            "expected finite scores, or -inf to forbid a part"
        )


def refuse_other_structures(family: str, parts: Tensor, *, log_count: Tensor, used: Tensor) -> None:
    """Refuse parts that are no structure: one structure uses them, and all of them.

    Args:
        family: name of the family, for the message.
        parts: what should be structures, ``(item, part)``.
        log_count: how many structures have no other parts, ``(item,)``.
        used: marginals where all other parts are forbidden, ``(item, part)``.

    Raises:
        ValueError: if some item is no structure.

    Example:
        >>> parts = torch.tensor([[1.0, 0.0]])
        >>> refuse_other_structures("trees", parts, log_count=torch.zeros(1), used=parts)
    """
    # Counts are whole numbers, so rounding cannot mislead.
    right = (log_count.abs() < 0.5) & ((used - parts).abs() < 0.5).all(-1)
    if not right.all():
        raise ValueError(
            f"log_prob: {int((~right).sum())} of {right.numel()} items are no structure of {family} "
            "for their lengths; expected the 0/1 parts of one structure each"
        )
