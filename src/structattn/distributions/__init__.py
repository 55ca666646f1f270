"""Distributions over structures (tags, segments, trees): probabilities of their parts, exact and differentiable.

They follow ``torch.distributions`` and know nothing about sentences: scores and lengths in, parts out.
"""

from structattn.distributions.chain import LinearChainCRF, Segmentation
from structattn.distributions.constituency import ConstituencyCRF
from structattn.distributions.dependency import DependencyCRF, NonProjectiveDependencyCRF
from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.independent import IndependentChoice, IndependentSelection
from structattn.distributions.segments import SemiMarkovCRF

__all__ = [
    "ConstituencyCRF",
    "DependencyCRF",
    "IndependentChoice",
    "IndependentSelection",
    "LinearChainCRF",
    "NonProjectiveDependencyCRF",
    "Segmentation",
    "SemiMarkovCRF",
    "StructuredDistribution",
]
