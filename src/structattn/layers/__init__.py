"""Attention layers and their surroundings; every attention-like module returns ``(output, weights)``."""

from structattn.layers.additive_scores import AdditiveScores
from structattn.layers.attention import MultiHeadAttention
from structattn.layers.backbone import BackboneEmbedding, PretrainedBackbone, load_backbone, pool_words
from structattn.layers.chain_attention import (
    ChainAttention,
    ChainScorer,
    binary_potentials,
    double_counted_potentials,
    unary_potentials,
)
from structattn.layers.constituency_attention import ConstituencyAttention, SpanScorer
from structattn.layers.cross_attention import CausalAttention, CrossAttention, CrossSource
from structattn.layers.embedding import WordEmbedding
from structattn.layers.expectations import (
    GumbelNoise,
    PartDistribution,
    StraightThroughSample,
    marginals,
    straight_through_argmax,
)
from structattn.layers.fact_memory import FactChain, FactEmbedding, MemoryHops
from structattn.layers.feature_attention import AdditivePooling, DirectionalSelfAttention, Source2Token, Token2Token
from structattn.layers.feedforward import FeedForward
from structattn.layers.gates import FusionGate, ProjectedFusionGate
from structattn.layers.linear import glorot_linear
from structattn.layers.pooling import AttentivePooling, Concat, MaxPooling, MeanPooling
from structattn.layers.positions import SinusoidalPositions, sinusoids
from structattn.layers.recurrent import LSTM, bidirectional_lstm, read_both_ways
from structattn.layers.regularisers import HasEntropy, entropy_term, squared_norm
from structattn.layers.relation_heads import RelationHeads, relation_loss
from structattn.layers.relative import (
    RelativePosition,
    ShawPosition,
    XLPosition,
    offsets_to_pairs,
    pairs_to_offsets,
)
from structattn.layers.scaled_dot_product import scaled_dot_product
from structattn.layers.segmentation_attention import (
    LearnedBoundary,
    MeanBoundary,
    Segmentation,
    SegmentationAttention,
    SegmentationScorer,
    SigmoidSelection,
    SoftmaxSelection,
    TwoStateChain,
)
from structattn.layers.syntactic_attention import DependencyScorer, SyntacticAttention, independent_heads
from structattn.layers.tree_attention import HierarchicalAccumulation, TreeAttention, tree_operator
from structattn.layers.tree_cross_attention import TreeCrossAttention
from structattn.layers.tree_lstm import ChildSumTreeLSTM, ConstituencyTreeLSTM, roots
from structattn.layers.tree_order import Children, TreeOrder

__all__ = [
    "LSTM",
    "AdditivePooling",
    "AdditiveScores",
    "AttentivePooling",
    "BackboneEmbedding",
    "CausalAttention",
    "ChainAttention",
    "ChainScorer",
    "ChildSumTreeLSTM",
    "Children",
    "Concat",
    "ConstituencyAttention",
    "ConstituencyTreeLSTM",
    "CrossAttention",
    "CrossSource",
    "DependencyScorer",
    "DirectionalSelfAttention",
    "FactChain",
    "FactEmbedding",
    "FeedForward",
    "FusionGate",
    "GumbelNoise",
    "HasEntropy",
    "HierarchicalAccumulation",
    "LearnedBoundary",
    "MaxPooling",
    "MeanBoundary",
    "MeanPooling",
    "MemoryHops",
    "MultiHeadAttention",
    "PartDistribution",
    "PretrainedBackbone",
    "ProjectedFusionGate",
    "RelationHeads",
    "RelativePosition",
    "Segmentation",
    "SegmentationAttention",
    "SegmentationScorer",
    "ShawPosition",
    "SigmoidSelection",
    "SinusoidalPositions",
    "SoftmaxSelection",
    "Source2Token",
    "SpanScorer",
    "StraightThroughSample",
    "SyntacticAttention",
    "Token2Token",
    "TreeAttention",
    "TreeCrossAttention",
    "TreeOrder",
    "TwoStateChain",
    "WordEmbedding",
    "XLPosition",
    "bidirectional_lstm",
    "binary_potentials",
    "double_counted_potentials",
    "entropy_term",
    "glorot_linear",
    "independent_heads",
    "load_backbone",
    "marginals",
    "offsets_to_pairs",
    "pairs_to_offsets",
    "pool_words",
    "read_both_ways",
    "relation_loss",
    "roots",
    "scaled_dot_product",
    "sinusoids",
    "squared_norm",
    "straight_through_argmax",
    "tree_operator",
    "unary_potentials",
]
