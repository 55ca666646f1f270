"""The log-partition minus expected scores, ``A - <mu, values>``, accurate where it is nearly zero.

With the scores themselves as values this is the entropy. Computed directly, the difference would lose precision where
one structure has nearly all the probability, because both terms are then its score. Therefore, in each row in which a
structure has exactly one part, the score of the probable part is subtracted from both terms, which leaves small
probabilities times gaps between scores. The remaining rounding error is bounded by the entropies of single parts: the
entropy of a structure is at least that of any part, and at most the sum over parts that determine it, those with a
probability of at most one half.

Reference: Wainwright and Jordan (2008), Graphical models, exponential families, and variational inference, section 3;
Cover and Thomas (2006), Elements of information theory, section 2.6 (the bounds).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

# For each array of scores: how many of its last axes are those of the parts, and how many of these form a row in which
# each structure has exactly one part (0 if there are no such rows).
Axes = Sequence[tuple[int, int]]


def gap(parts: Sequence[Tensor], log_partition: Tensor, values: Sequence[Tensor], axes: Axes) -> Tensor:
    """``A - <mu, values>``, with the values of the probable parts subtracted from both; differentiable.

    Args:
        parts: marginals, or the parts of a structure, for each array: ``(..., *part)``.
        log_partition: ``(...)``.
        values: of the parts; not read where the probability is zero.
        axes: of each array.

    Example:
        >>> half, zeros = [torch.full((1, 2), 0.5)], [torch.zeros(1, 2)]
        >>> round(gap(half, torch.full((1,), 2.0).log(), zeros, [(1, 1)]).exp().item(), 6)
        2.0
    """
    found, expected = log_partition, None
    for used, own, (part_axes, row_axes) in zip(parts, values, axes, strict=True):
        known = used.detach()
        read = torch.where(known > 0, own, 0)
        if row_axes:
            probable = torch.where(known > 0.5, read.detach(), 0).sum(_last(row_axes), keepdim=True)
            # A value that is infinite, because another distribution forbids the part, is not subtracted.
            probable = probable.masked_fill(probable.isinf(), 0)
            read = read - probable
            found = found - probable.sum(_last(part_axes))
        product = torch.where(known > 0, used * read, 0).sum(_last(part_axes))
        expected = product if expected is None else expected + product
    return found if expected is None else found - expected


def entropy(parts: Sequence[Tensor], log_partition: Tensor, scores: Sequence[Tensor], axes: Axes) -> Tensor:
    """``A - <mu, scores>`` within its bounds, so never negative; zero if nothing is allowed.

    Args:
        parts: marginals for each array of scores, ``(..., *part)``.
        log_partition: ``(...)``.
        scores: not read where the probability is zero.
        axes: of each array.

    Example:
        >>> half, zeros = [torch.full((1, 2), 0.5)], [torch.zeros(1, 2)]
        >>> round(entropy(half, torch.full((1,), 2.0).log(), zeros, [(1, 1)]).exp().item(), 6)
        2.0
    """
    found = gap(parts, log_partition, scores, axes)
    if parts[0].numel():
        # Probabilities near one are rounded, but the improbable parts alone determine the structure.
        rare = torch.where(parts[0] > 0.5, 0, parts[0])
        terms = torch.special.entr(rare) - (1 - rare) * (-rare).log1p()
        last = _last(axes[0][0])
        found = found.clamp(terms.amax(last), terms.sum(last))
    return found.masked_fill(log_partition == -torch.inf, 0)


def _last(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))
