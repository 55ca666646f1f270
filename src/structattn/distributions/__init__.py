"""Distributions over structures (tags, segments, trees): probabilities of their parts, exact and differentiable.

They follow ``torch.distributions`` and know nothing about sentences: scores and lengths in, parts out.
"""

from structattn.distributions.alignment_crf import AlignmentCRF, WarpingCRF
from structattn.distributions.constituency_crf import ConstituencyCRF
from structattn.distributions.dependency_crf import DependencyCRF
from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.independent import IndependentChoice, IndependentSelection
from structattn.distributions.labelled import Labelled
from structattn.distributions.linear_chain_crf import LinearChainCRF
from structattn.distributions.nonprojective_crf import NonProjectiveDependencyCRF
from structattn.distributions.semi_markov_crf import SemiMarkovCRF

__all__ = [
    "AlignmentCRF",
    "ConstituencyCRF",
    "DependencyCRF",
    "IndependentChoice",
    "IndependentSelection",
    "Labelled",
    "LinearChainCRF",
    "NonProjectiveDependencyCRF",
    "SemiMarkovCRF",
    "StructuredDistribution",
    "WarpingCRF",
]
