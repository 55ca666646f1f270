"""The value a prior builds: an attention mask and an attention bias.

Mask and bias are kept apart until scores are computed, because ``-inf`` inside a float matrix turns ``0 * prior`` into
NaN.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class AttentionBias:
    """A mask and a bias, each broadcastable to ``(batch, head, query, key)``.

    Attributes:
        allowed: ``True`` where a query may attend to a key; ``None`` allows everything.
        bias: added to the scores; ``None`` for no bias. Finite: forbidding a key is left to ``allowed``.

    Example:
        >>> import torch
        >>> causal = AttentionBias(torch.ones(1, 1, 2, 2, dtype=torch.bool).tril(), None)
        >>> near = AttentionBias(None, -torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]]))
        >>> both = causal + near.scaled(2.0)
        >>> both.allowed[0, 0].tolist(), both.bias[0, 0].tolist()
        ([[True, False], [True, True]], [[-0.0, -2.0], [-2.0, -0.0]])
    """

    allowed: Bool[Tensor, "#batch #head #query #key"] | None = None
    bias: Float[Tensor, "#batch #head #query #key"] | None = None

    def __add__(self, other: "AttentionBias") -> "AttentionBias":
        """The intersection of both masks, and the sum of both biases."""
        if not isinstance(other, AttentionBias):
            return NotImplemented
        return AttentionBias(_both(self.allowed, other.allowed), _sum(self.bias, other.bias))

    def scaled(self, weight: int | float | Float[Tensor, ""] | Float[Tensor, " head"]) -> "AttentionBias":
        """The same mask with the bias multiplied by ``weight``, one number or one per head."""
        if self.bias is None:
            return self
        if isinstance(weight, Tensor) and weight.dim() == 1:
            weight = weight[:, None, None]
        return AttentionBias(self.allowed, weight * self.bias)


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
