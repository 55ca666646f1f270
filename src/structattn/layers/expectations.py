"""From a distribution over structures to attention weights: its marginals, its best structure, a random structure.

Every structured attention layer takes any of these. All have the gradient of the marginals.

Reference: Kim et al. (2017), section 3 (marginals); Bengio, Léonard and Courville (2013), section 4 (straight through);
Papandreou and Yuille (2011) and Corro and Titov (2019), section 4 (perturb and MAP).
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn


@runtime_checkable
class PartDistribution(Protocol):
    """What a scorer returns: a distribution over structures made of parts, such as a ``StructuredDistribution``."""

    def marginals(self) -> Tensor:
        """Probability of every part."""
        ...

    def argmax(self) -> Tensor:
        """The parts, 0 or 1, of a best structure."""
        ...

    def sample(self, sample_shape: tuple[int, ...] = (), generator: Generator | None = None) -> Tensor:
        """The parts, 0 or 1, of random structures."""
        ...

    def entropy(self) -> Tensor:
        """Entropy for each item of the batch."""
        ...


Expectation = Callable[[PartDistribution], Tensor]


def marginals(distribution: PartDistribution) -> Float[Tensor, "..."]:
    """Soft attention: the probability of every part, Kim et al. (2017), section 3.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> marginals(DependencyCRF(torch.zeros(2, 3)))[0]
        tensor([0.6667, 0.0000, 0.3333])
    """
    return distribution.marginals()


def straight_through_argmax(distribution: PartDistribution) -> Float[Tensor, "..."]:
    """Hard attention: the parts of a best structure, with the gradient of the marginals.

    With `GumbelNoise` on the scores this is perturb-and-MAP sampling.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> scores = torch.tensor([[0.0, 0.0, 2.0], [0.5, 0.0, 0.0]], requires_grad=True)
        >>> straight_through_argmax(DependencyCRF(scores))
        tensor([[0., 0., 1.], [1., 0., 0.]], grad_fn=...)
    """
    return _straight_through(distribution.argmax(), distribution.marginals())


class StraightThroughSample:
    """Hard attention: the parts of an exact sample, with the gradient of the marginals.

    Args:
        generator: source of randomness; torch's own if not given.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> random = StraightThroughSample(torch.Generator().manual_seed(0))
        >>> random(DependencyCRF(torch.zeros(2, 3))).sum(-1)
        tensor([1., 1.])
    """

    def __init__(self, generator: Generator | None = None) -> None:
        self.generator = generator

    def __call__(self, distribution: PartDistribution) -> Float[Tensor, "..."]:
        """Draw one structure for each item of the batch."""
        return _straight_through(distribution.sample((), self.generator), distribution.marginals())


class GumbelNoise(nn.Module):
    r"""Scores plus independent noise ``-scale log(-log(uniform))`` while training; in evaluation the scores themselves.

    The best structure under perturbed scores is a random structure (Papandreou and Yuille 2011, section 2): an exact
    sample for a single choice, an approximate one for structures.

    Args:
        scale: how strong the noise is.
        generator: source of randomness, on the device of the scores; torch's own if not given.

    Raises:
        ValueError: for a negative scale.

    Example:
        >>> noise = GumbelNoise(generator=torch.Generator().manual_seed(0))
        >>> noise(torch.zeros(3)).unique().numel(), noise.eval()(torch.zeros(3))
        (3, tensor([0., 0., 0.]))
    """

    def __init__(self, scale: float = 1.0, *, generator: Generator | None = None) -> None:
        super().__init__()
        if scale < 0:
            raise ValueError(f"GumbelNoise expects a scale of at least 0, got {scale}")
        self.scale = scale
        self.generator = generator

    def forward(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Perturb; forbidden parts stay forbidden."""
        if not self.training:
            return scores
        # An exponential variable is -log(uniform); the smallest number keeps its logarithm finite.
        exponential = torch.empty_like(scores).exponential_(generator=self.generator)
        return scores - self.scale * exponential.clamp(min=torch.finfo(scores.dtype).tiny).log()


def normalised(weights: Float[Tensor, "*batch key"], total: float | None) -> Float[Tensor, "*batch key"]:
    """Weights scaled to sum to ``total``, unless it is ``None``: Kim et al. (2017), section 4.2.

    Rows of zeros stay zero.

    Example:
        >>> normalised(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), 2.0)
        tensor([[0.5000, 1.5000], [0.0000, 0.0000]])
    """
    if total is None:
        return weights
    return total * weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).eps)


def _straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    return hard + (soft - soft.detach())
