"""Sentence encoders: one file per published system, one table from names to builders.

Every builder that ``structattn list encoders`` shows is available here by name, including those that other subpackages
register.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.encoders.bilstm import BiLSTM, bilstm, bilstm_s2t
    from structattn.encoders.build import build
    from structattn.encoders.decomposable import Decomposable, decomposable
    from structattn.encoders.disan import (
        DiSAN,
        disan,
        disan_nodir,
        emb_additive,
        emb_s2t,
        mh_s2t,
    )
    from structattn.encoders.encoder_table import BUILDERS, EMBEDDERS, encoder_options
    from structattn.encoders.head_layout import ABLATIONS, PAPER_HEADS, heads_prior
    from structattn.encoders.lstm import lstm
    from structattn.encoders.ms_san import MSSAN, ms_san, ms_san_sep, relative_shaw, relative_xl
    from structattn.encoders.recursive import child_attention, dependency_tree_lstm, tree_lstm
    from structattn.encoders.sentence_encoder import Encoding, NoContext, SentenceEncoder
    from structattn.encoders.structured import ConcatContext, structured
    from structattn.encoders.transformer import NormFirst, Transformer, TransformerLayer, transformer
    from structattn.encoders.tree_transformer import (
        Accumulation,
        TreeTransformer,
        length_matched_transformer,
        tree_transformer,
    )

__all__ = [
    "ABLATIONS",
    "BUILDERS",
    "EMBEDDERS",
    "MSSAN",
    "PAPER_HEADS",
    "Accumulation",
    "BiLSTM",
    "ConcatContext",
    "Decomposable",
    "DiSAN",
    "Encoding",
    "NoContext",
    "NormFirst",
    "SentenceEncoder",
    "Transformer",
    "TransformerLayer",
    "TreeTransformer",
    "backbone",
    "bilstm",
    "bilstm_s2t",
    "build",
    "child_attention",
    "decomposable",
    "dependency_tree_lstm",
    "disan",
    "disan_nodir",
    "emb_additive",
    "emb_s2t",
    "encoder_options",
    "heads_prior",
    "hydra",
    "injected",
    "length_matched_transformer",
    "lstm",
    "mh_s2t",
    "ms_san",
    "ms_san_sep",
    "relative_shaw",
    "relative_xl",
    "sgnet",
    "structured",
    "transformer",
    "tree_lstm",
    "tree_transformer",
]


if not TYPE_CHECKING:  # a checker reads the names above, so that a misspelt one is an error

    def __getattr__(name: str) -> "Callable[..., SentenceEncoder]":
        """The builders that higher-level packages add to the table, imported on first use."""
        from structattn.encoders.encoder_table import BUILDERS

        if name.startswith("_") or name not in BUILDERS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return BUILDERS[name]


load_lazily(__name__)
