"""Attention layers and the modules around them; every attention-like module returns ``(output, weights)``."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.layers.additive_scores import AdditiveScores
    from structattn.layers.attention import MultiHeadAttention
    from structattn.layers.chain_scorer import (
        ChainScorer,
        StepMaps,
        StepReader,
        binary_potentials,
        double_counted_potentials,
        unary_potentials,
    )
    from structattn.layers.child_attention import ChildAttention
    from structattn.layers.counted_positions import CountedPositions
    from structattn.layers.cross_attention import CausalAttention, CrossAttention, CrossSource
    from structattn.layers.dependency_scorer import DependencyScorer, HeadReader, independent_heads
    from structattn.layers.embedding import WordEmbedding
    from structattn.layers.expectations import (
        GumbelNoise,
        PartDistribution,
        StraightThroughSample,
        marginals,
        straight_through_argmax,
    )
    from structattn.layers.feature_attention import AdditivePooling, DirectionalSelfAttention, Source2Token, Token2Token
    from structattn.layers.feedforward import FeedForward
    from structattn.layers.gates import FusionGate, ProjectedFusionGate
    from structattn.layers.linear import glorot_linear
    from structattn.layers.modes import evaluating
    from structattn.layers.pooling import AttentivePooling, Concat, MaxPooling, MeanPooling
    from structattn.layers.positions import SinusoidalPositions, sinusoids
    from structattn.layers.recurrent import LSTM, bidirectional_lstm, read_both_ways
    from structattn.layers.regularisers import HasEntropy, entropy_term, squared_norm
    from structattn.layers.relative import (
        RelativePosition,
        ShawPosition,
        XLPosition,
        offsets_to_pairs,
        pairs_to_offsets,
    )
    from structattn.layers.segmentation import (
        LearnedBoundary,
        MeanBoundary,
        SegmentationScorer,
        SelectionReader,
        SigmoidSelection,
        SoftmaxSelection,
        TwoStateChain,
    )
    from structattn.layers.span_scorer import PhraseReader, SpanScorer
    from structattn.layers.structured_attention import Reader, Scorer, StructuredAttention
    from structattn.layers.tree_attention import HierarchicalAccumulation, TreeAttention, tree_operator
    from structattn.layers.tree_cross_attention import TreeCrossAttention
    from structattn.layers.tree_lstm import ChildSumTreeLSTM, ConstituencyTreeLSTM
    from structattn.layers.tree_order import Children, TreeOrder
    from structattn.layers.window_attention import WindowAttention

__all__ = [
    "LSTM",
    "AdditivePooling",
    "AdditiveScores",
    "AttentivePooling",
    "CausalAttention",
    "ChainScorer",
    "ChildAttention",
    "ChildSumTreeLSTM",
    "Children",
    "Concat",
    "ConstituencyTreeLSTM",
    "CountedPositions",
    "CrossAttention",
    "CrossSource",
    "DependencyScorer",
    "DirectionalSelfAttention",
    "FeedForward",
    "FusionGate",
    "GumbelNoise",
    "HasEntropy",
    "HeadReader",
    "HierarchicalAccumulation",
    "LearnedBoundary",
    "MaxPooling",
    "MeanBoundary",
    "MeanPooling",
    "MultiHeadAttention",
    "PartDistribution",
    "PhraseReader",
    "ProjectedFusionGate",
    "Reader",
    "RelativePosition",
    "Scorer",
    "SegmentationScorer",
    "SelectionReader",
    "ShawPosition",
    "SigmoidSelection",
    "SinusoidalPositions",
    "SoftmaxSelection",
    "Source2Token",
    "SpanScorer",
    "StepMaps",
    "StepReader",
    "StraightThroughSample",
    "StructuredAttention",
    "Token2Token",
    "TreeAttention",
    "TreeCrossAttention",
    "TreeOrder",
    "TwoStateChain",
    "WindowAttention",
    "WordEmbedding",
    "XLPosition",
    "bidirectional_lstm",
    "binary_potentials",
    "double_counted_potentials",
    "entropy_term",
    "evaluating",
    "glorot_linear",
    "independent_heads",
    "marginals",
    "offsets_to_pairs",
    "pairs_to_offsets",
    "read_both_ways",
    "sinusoids",
    "squared_norm",
    "straight_through_argmax",
    "tree_operator",
    "unary_potentials",
]

load_lazily(__name__)
