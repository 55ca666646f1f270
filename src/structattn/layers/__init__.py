"""Attention layers and the modules around them; every attention-like module returns ``(output, weights)``."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.layers.additive_scores import AdditiveScores
    from structattn.layers.alignment_selection import AlignmentSelection
    from structattn.layers.attention import MultiHeadAttention
    from structattn.layers.chain_scorer import ChainScorer, StepReader, binary_potentials, unary_potentials
    from structattn.layers.decoder_attention import CausalAttention, CrossAttention, TreeCrossAttention, WindowAttention
    from structattn.layers.dependency_scorer import CountedPositions, DependencyScorer, HeadReader, independent_heads
    from structattn.layers.feature_attention import AdditivePooling, DirectionalSelfAttention, Source2Token, Token2Token
    from structattn.layers.gates import FusionGate, ProjectedFusionGate
    from structattn.layers.linear import FeedForward
    from structattn.layers.poolers import AttentivePooling, Concat, MaxPooling, MeanPooling
    from structattn.layers.positions import ShawPosition, XLPosition
    from structattn.layers.recurrent import LSTM
    from structattn.layers.segmentation import (
        SegmentationScorer,
        SelectionReader,
        SigmoidSelection,
        SoftmaxSelection,
        TwoStateChain,
    )
    from structattn.layers.span_scorer import PhraseReader, SpanScorer
    from structattn.layers.sparse_map import SparseMap
    from structattn.layers.structured_attention import (
        GumbelNoise,
        PartDistribution,
        StraightThroughSample,
        StructuredAttention,
        marginals,
        straight_through_argmax,
    )
    from structattn.layers.tree_attention import HierarchicalAccumulation, TreeAttention
    from structattn.layers.tree_cells import ChildAttention, ChildSumTreeLSTM, ConstituencyTreeLSTM
    from structattn.layers.word_embedding import WordEmbedding

__all__ = [
    "LSTM",
    "AdditivePooling",
    "AdditiveScores",
    "AlignmentSelection",
    "AttentivePooling",
    "CausalAttention",
    "ChainScorer",
    "ChildAttention",
    "ChildSumTreeLSTM",
    "Concat",
    "ConstituencyTreeLSTM",
    "CountedPositions",
    "CrossAttention",
    "DependencyScorer",
    "DirectionalSelfAttention",
    "FeedForward",
    "FusionGate",
    "GumbelNoise",
    "HeadReader",
    "HierarchicalAccumulation",
    "MaxPooling",
    "MeanPooling",
    "MultiHeadAttention",
    "PartDistribution",
    "PhraseReader",
    "ProjectedFusionGate",
    "SegmentationScorer",
    "SelectionReader",
    "ShawPosition",
    "SigmoidSelection",
    "SoftmaxSelection",
    "Source2Token",
    "SpanScorer",
    "SparseMap",
    "StepReader",
    "StraightThroughSample",
    "StructuredAttention",
    "Token2Token",
    "TreeAttention",
    "TreeCrossAttention",
    "TwoStateChain",
    "WindowAttention",
    "WordEmbedding",
    "XLPosition",
    "binary_potentials",
    "independent_heads",
    "marginals",
    "straight_through_argmax",
    "unary_potentials",
]

load_lazily(__name__)
