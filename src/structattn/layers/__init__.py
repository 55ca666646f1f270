"""Attention layers and their surroundings; every attention-like module returns ``(output, weights)``."""

from structattn.layers.embedding import WordEmbedding
from structattn.layers.feedforward import FeedForward
from structattn.layers.gates import FusionGate, ProjectedFusionGate
from structattn.layers.pooling import AttentivePooling, Concat, MaxPooling, MeanPooling

__all__ = [
    "AttentivePooling",
    "Concat",
    "FeedForward",
    "FusionGate",
    "MaxPooling",
    "MeanPooling",
    "ProjectedFusionGate",
    "WordEmbedding",
]
