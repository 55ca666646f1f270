"""Priors: attention masks and biases computed from a structure, as values that can be added and scaled."""

from structattn.priors.learnt_table import LearntTable
from structattn.priors.per_head import PerHead
from structattn.priors.prior import AttentionBias, LearnableAlpha, Prior
from structattn.priors.relation import Relation
from structattn.priors.sequence import Backward, Forward, NotSelf, WordDistance
from structattn.priors.subtree import Subtree
from structattn.priors.tree import ConstituencyDistance, DependencyDistance

__all__ = [
    "AttentionBias",
    "Backward",
    "ConstituencyDistance",
    "DependencyDistance",
    "Forward",
    "LearnableAlpha",
    "LearntTable",
    "NotSelf",
    "PerHead",
    "Prior",
    "Relation",
    "Subtree",
    "WordDistance",
]
