"""A guard for large scores, beside which entropies lose digits; kernels subtract first what all structures share."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.distributions.validation import find_limits, should_check_values

# Beside scores of this size entropies lose digits, unless what all structures share is subtracted first; and if after
# that the log-partition is so large, or a surprisal such a share of it, too many are lost.
_LARGE = 1e5
_LARGEST_SUM = 1e9
_NOISE = 1e-9


def are_large(arrays: Sequence[Tensor], limits: Sequence[tuple[float, float]]) -> bool:
    """Whether a finite score is large; always where that cannot be seen without waiting for it."""
    if limits and all(low > -_LARGE and high < _LARGE for low, high in limits):
        return False
    if not should_check_values(None, arrays[0]):
        return True
    # One pass, where a comparison and a selection would take ten times as long. A nan stands on padding only.
    finite = (array.detach().nan_to_num(0.0, neginf=0.0) for array in arrays)
    return not all(low > -_LARGE and high < _LARGE for low, high in map(find_limits, finite))


class LargeScores:
    """How large the scores are that the structures of each item need, and which results that makes uncertain.

    ``log_count`` is called where a log-partition of ``-inf`` may be that of an empty distribution.
    """

    def __init__(
        self,
        family: str,
        log_partition: Float[Tensor, "*batch"],
        centred: Sequence[Tensor],
        log_count: Callable[[], Tensor],
        *,
        validate_args: bool | None,
    ) -> None:
        self.family = family
        self.checks = should_check_values(validate_args, log_partition)
        scale = log_partition.abs()
        for array in centred:
            if array[:1].numel():
                # Scores above zero and below may add up to a small number.
                scale = scale.maximum(array.detach().flatten(1).amax(1).reshape(scale.shape))
        if not self.checks or (~(scale <= _LARGEST_SUM)).any():
            # A log-partition of -inf is that of an empty distribution, or of sums that overflow.
            is_empty = log_partition == -torch.inf
            if self.checks and is_empty.any():
                is_empty = (log_count() == -torch.inf).reshape(is_empty.shape)
            scale = scale.masked_fill(is_empty, 0)
        self.scale = scale
        self.lost = ~(scale <= _LARGEST_SUM)

    def refuse(self, values: Tensor, certain: Bool[Tensor, "..."] | None = None) -> Tensor:
        """An error if values are lost, except those that are certain; where they are not checked, nan."""
        lost = self.lost if certain is None else self.lost & ~certain
        if self.checks and lost.any():
            raise ValueError(
                f"{self.family}: scores that all structures of an item need are above {_LARGEST_SUM:.0e} in "
                "magnitude, and others are rounded away beside them: expected -inf to forbid a part, or smaller scores"
            )
        return values.masked_fill(lost, torch.nan)

    def is_far(self, surprisal: Tensor) -> Bool[Tensor, "..."]:
        """Where a surprisal is so large a share of the scores that enough digits are left."""
        return (surprisal >= self.scale * _NOISE) & self.scale.isfinite()


def at_least_zero(values: Tensor) -> Tensor:
    """Clamp values that rounding has left below zero, but keep their derivatives."""
    if not values.requires_grad:
        return values.clamp(min=0)
    clamped, finite = values.detach().clamp(min=0), values.masked_fill(values.detach().isinf(), 0)
    return clamped + (finite - finite.detach())
