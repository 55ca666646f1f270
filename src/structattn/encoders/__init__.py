"""Sentence encoders: one file per published system, one table from names to builders."""

from structattn.encoders.bilstm import BiLSTM, bilstm, bilstm_s2t
from structattn.encoders.build import BUILDERS, build, builder, options_of
from structattn.encoders.decomposable import Decomposable, decomposable
from structattn.encoders.disan import (
    DiSAN,
    PositionedAttention,
    disan,
    disan_nodir,
    emb_additive,
    emb_s2t,
    mh_s2t,
)
from structattn.encoders.head_layout import ABLATIONS, PAPER_HEADS, heads_prior
from structattn.encoders.lstm import LSTM, LastPooling, lstm
from structattn.encoders.ms_san import MSSAN, SideBySide, ms_san, ms_san_sep, relative_shaw, relative_xl
from structattn.encoders.sentence_encoder import Encoding, NoContext, SentenceEncoder
from structattn.encoders.structured import ConcatContext, ReadingScorer, latent_trees, structured
from structattn.encoders.transformer import NormFirst, NormLast, Transformer, TransformerLayer, transformer
from structattn.encoders.tree_lstm import TreeLSTM, dependency_tree_lstm, tree_lstm
from structattn.encoders.tree_transformer import (
    NoAccumulation,
    TreeTransformer,
    length_matched_transformer,
    tree_transformer,
)

__all__ = [
    "ABLATIONS",
    "BUILDERS",
    "LSTM",
    "MSSAN",
    "PAPER_HEADS",
    "BiLSTM",
    "ConcatContext",
    "Decomposable",
    "DiSAN",
    "Encoding",
    "LastPooling",
    "NoAccumulation",
    "NoContext",
    "NormFirst",
    "NormLast",
    "PositionedAttention",
    "ReadingScorer",
    "SentenceEncoder",
    "SideBySide",
    "Transformer",
    "TransformerLayer",
    "TreeLSTM",
    "TreeTransformer",
    "bilstm",
    "bilstm_s2t",
    "build",
    "builder",
    "decomposable",
    "dependency_tree_lstm",
    "disan",
    "disan_nodir",
    "emb_additive",
    "emb_s2t",
    "heads_prior",
    "latent_trees",
    "length_matched_transformer",
    "lstm",
    "mh_s2t",
    "ms_san",
    "ms_san_sep",
    "options_of",
    "relative_shaw",
    "relative_xl",
    "structured",
    "transformer",
    "tree_lstm",
    "tree_transformer",
]
