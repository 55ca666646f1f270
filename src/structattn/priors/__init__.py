"""Priors: attention masks and biases computed from a structure, as values that can be added and scaled."""

from structattn.priors.per_head import PerHead
from structattn.priors.prior import AttentionBias, LearnableAlpha, Prior
from structattn.priors.relation import Relation, mask_prior, preference_prior
from structattn.priors.sequence import Backward, Forward, NotSelf, SequencePrior, WordDistance, alibi_slopes
from structattn.priors.tree import ConstituencyDistance, DependencyDistance, Subtree

__all__ = [
    "AttentionBias",
    "Backward",
    "ConstituencyDistance",
    "DependencyDistance",
    "Forward",
    "LearnableAlpha",
    "NotSelf",
    "PerHead",
    "Prior",
    "Relation",
    "SequencePrior",
    "Subtree",
    "WordDistance",
    "alibi_slopes",
    "mask_prior",
    "preference_prior",
]
