"""Sentence encoders: one file per published system, one table from names to builders."""

from structattn.encoders.build import BUILDERS, build, builder, options_of
from structattn.encoders.head_layout import ABLATIONS, PAPER_HEADS, heads_prior
from structattn.encoders.ms_san import MSSAN, SideBySide, ms_san, ms_san_sep, relative_shaw, relative_xl
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder
from structattn.encoders.transformer import NormFirst, NormLast, Transformer, TransformerLayer, transformer

__all__ = [
    "ABLATIONS",
    "BUILDERS",
    "MSSAN",
    "PAPER_HEADS",
    "Encoding",
    "NormFirst",
    "NormLast",
    "SentenceEncoder",
    "SideBySide",
    "Transformer",
    "TransformerLayer",
    "build",
    "builder",
    "heads_prior",
    "ms_san",
    "ms_san_sep",
    "options_of",
    "relative_shaw",
    "relative_xl",
    "transformer",
]
