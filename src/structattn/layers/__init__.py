"""Attention layers and their surroundings; every attention-like module returns ``(output, weights)``."""

from structattn.layers.attention import MultiHeadAttention
from structattn.layers.embedding import WordEmbedding
from structattn.layers.feedforward import FeedForward
from structattn.layers.gates import FusionGate, ProjectedFusionGate
from structattn.layers.linear import glorot_linear
from structattn.layers.pooling import AttentivePooling, Concat, MaxPooling, MeanPooling
from structattn.layers.positions import SinusoidalPositions, sinusoids
from structattn.layers.relative import (
    RelativePosition,
    ShawPosition,
    XLPosition,
    offsets_to_pairs,
    pairs_to_offsets,
)

__all__ = [
    "AttentivePooling",
    "Concat",
    "FeedForward",
    "FusionGate",
    "MaxPooling",
    "MeanPooling",
    "MultiHeadAttention",
    "ProjectedFusionGate",
    "RelativePosition",
    "ShawPosition",
    "SinusoidalPositions",
    "WordEmbedding",
    "XLPosition",
    "glorot_linear",
    "offsets_to_pairs",
    "pairs_to_offsets",
    "sinusoids",
]
