"""Terms that may be added to the loss of a model with structured attention.

Reference: Kim et al. (2017), Structured attention networks, section 4.2; their code adds ``0.005 b`` to the gradient of
the transitions ``b`` once a batch.
"""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class HasEntropy(Protocol):
    """A distribution with an entropy, such as a ``StructuredDistribution``."""

    def entropy(self) -> Tensor:
        """Entropy in nats, one for each structure of the batch."""
        ...


def squared_norm(parameter: Float[Tensor, "..."], strength: float = 0.005) -> Float[Tensor, ""]:
    r"""``strength / 2 sum_i b_i^2``, whose gradient is ``strength b``: Kim et al. (2017), on the transitions.

    Args:
        parameter: the parameter to regularise, such as ``TwoStateChain.transition``.
        strength: how much of the parameter is added to its gradient.

    Example:
        >>> import torch
        >>> squared_norm(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor(0.0100)
    """
    return 0.5 * strength * parameter.square().sum()


def entropy_term(distribution: HasEntropy, strength: float) -> Float[Tensor, ""]:
    """``strength`` times the mean entropy: a positive strength favours peaked distributions, a negative one flat ones.

    Args:
        distribution: what a scorer or ``StructuredAttention.distribution`` returns.
        strength: weight of the term, in units of the loss per nat.

    Example:
        >>> import torch
        >>> from structattn.distributions import DependencyCRF
        >>> entropy_term(DependencyCRF(torch.zeros(1, 2, 3)), -1.0)
        tensor(-1.0986)
    """
    return strength * distribution.entropy().mean()
