"""Distributions over structures (tags, segments, trees): probabilities of their parts, exact and differentiable.

They follow ``torch.distributions`` and know nothing of sentences: potentials and lengths in, parts out.
"""

from structattn.distributions.chain import LinearChainCRF, SemiMarkovCRF
from structattn.distributions.constituency import ConstituencyCRF
from structattn.distributions.dependency import DependencyCRF, NonProjectiveDependencyCRF
from structattn.distributions.distribution import StructuredDistribution

__all__ = [
    "ConstituencyCRF",
    "DependencyCRF",
    "LinearChainCRF",
    "NonProjectiveDependencyCRF",
    "SemiMarkovCRF",
    "StructuredDistribution",
]
