"""Attention layers and their surroundings; every attention-like module returns ``(output, weights)``."""

from structattn.layers.attention import MultiHeadAttention
from structattn.layers.embedding import WordEmbedding
from structattn.layers.feature_attention import AdditivePooling, DirectionalSelfAttention, Source2Token, Token2Token
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
from structattn.layers.tree_lstm import ChildSumTreeLSTM, ConstituencyTreeLSTM, roots
from structattn.layers.tree_order import Children, TreeOrder

__all__ = [
    "AdditivePooling",
    "AttentivePooling",
    "ChildSumTreeLSTM",
    "Children",
    "Concat",
    "ConstituencyTreeLSTM",
    "DirectionalSelfAttention",
    "FeedForward",
    "FusionGate",
    "MaxPooling",
    "MeanPooling",
    "MultiHeadAttention",
    "ProjectedFusionGate",
    "RelativePosition",
    "ShawPosition",
    "SinusoidalPositions",
    "Source2Token",
    "Token2Token",
    "TreeOrder",
    "WordEmbedding",
    "XLPosition",
    "glorot_linear",
    "offsets_to_pairs",
    "pairs_to_offsets",
    "roots",
    "sinusoids",
]
