"""Priors: attention masks and biases computed from a structure, as values that can be added and scaled."""

from structattn.priors.per_head import PerHead
from structattn.priors.prior import AttentionBias, LearnableAlpha, Prior
from structattn.priors.relation import Relation
from structattn.priors.sequence import Backward, Forward, NotSelf, WordDistance
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
    "Subtree",
    "WordDistance",
]
