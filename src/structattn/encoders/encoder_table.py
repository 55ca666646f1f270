"""The tables of encoders and embedders: a builder for each name, whose options are read without importing it.

An encoder outside the table is named ``module:function``.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from structattn.errors import ConfigError
from structattn.lazy import first_type
from structattn.options.checking import list_options
from structattn.tables import Table

if TYPE_CHECKING:
    from torch import nn

    from structattn.encoders.sentence_encoder import SentenceEncoder


#: From the name of an encoder to its builder.
BUILDERS: Table[Callable[..., "SentenceEncoder"]] = Table(
    "encoders",
    "encoder",
    {
        "disan": "structattn.encoders.disan:disan",
        "disan_nodir": "structattn.encoders.disan:disan_nodir",
        "emb_additive": "structattn.encoders.disan:emb_additive",
        "emb_s2t": "structattn.encoders.disan:emb_s2t",
        "mh_s2t": "structattn.encoders.disan:mh_s2t",
        "bilstm_s2t": "structattn.encoders.bilstm:bilstm_s2t",
        "bilstm": "structattn.encoders.bilstm:bilstm",
        "ms_san": "structattn.encoders.ms_san:ms_san",
        "ms_san_sep": "structattn.encoders.ms_san:ms_san_sep",
        "relative_shaw": "structattn.encoders.ms_san:relative_shaw",
        "relative_xl": "structattn.encoders.ms_san:relative_xl",
        "transformer": "structattn.encoders.transformer:transformer",
        "tree_lstm": "structattn.encoders.recursive:tree_lstm",
        "dependency_tree_lstm": "structattn.encoders.recursive:dependency_tree_lstm",
        "child_attention": "structattn.encoders.recursive:child_attention",
        "tree_transformer": "structattn.encoders.tree_transformer:tree_transformer",
        "length_matched_transformer": "structattn.encoders.tree_transformer:length_matched_transformer",
        "lstm": "structattn.encoders.lstm:lstm",
        "structured": "structattn.encoders.structured:structured",
        "decomposable": "structattn.encoders.decomposable:decomposable",
        "backbone": "structattn.backbones.backbone_embedding:backbone",
        "hydra": "structattn.backbones.hydra_encoder:hydra",
        "injected": "structattn.backbones.inject:injected",
        "sgnet": "structattn.backbones.sgnet:sgnet",
    },
    hint=", or module:function for your own",
    accepts=callable,
    expected="a function",
)
#: From the name of an embedder to what builds it.
EMBEDDERS: Table[Callable[..., "nn.Module"]] = Table(
    "embedders",
    "embedder",
    {
        "words": "structattn.encoders.build:words",
        "backbone": "structattn.backbones.backbone_embedding:backbone_states",
    },
)
#: From the name of a trainable language model to its builder.
LANGUAGE_MODELS: Table[Callable[..., Any]] = Table(
    "language_models", "language model", {"causal": "structattn.backbones.causal_model:causal"}
)
# Width of the word vectors of an encoder that is built without an embedder, where its paper's is not 300.
_WIDTHS = {"lstm": 500, "structured": 50, "tree_transformer": 64, "length_matched_transformer": 64}
_WIDTH = 300


def encoder_options(name: str) -> dict[str, Any]:
    """The options of an encoder and their defaults, read from the builder's signature without importing it.

    Args:
        name: a row of ``BUILDERS``, or ``module:function`` for a builder of your own.

    Returns:
        From each option to its default; groups of options are mappings.

    Raises:
        ConfigError: for an unknown name.

    Example:
        >>> encoder_options("disan")["scale"], encoder_options("tree_transformer")["accumulation"]
        (5.0, {'max_vertical': 50, 'max_horizontal': 100, 'mode': 'paper'})
    """
    return list_options(BUILDERS.outline(name))


def needs_backbone(name: str) -> bool:
    """Whether an encoder reads a pretrained backbone: its builder takes a ``BackboneEmbedding``."""
    return first_type(BUILDERS.outline(name)) == "BackboneEmbedding"


def complete_embedder(encoder: str, embedder: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of an encoder's embedder, with defaults for its name and, for word vectors, their width."""
    complete = {"name": "backbone" if needs_backbone(encoder) else "words", **embedder}
    if complete["name"] == "words":
        complete.setdefault("dim", options.get("dim") or _WIDTHS.get(encoder, _WIDTH))
    return complete


def check_encoder(name: str, options: Mapping[str, Any], embedder: Mapping[str, Any]) -> None:
    """Refuse an unknown encoder or embedder, or options that they do not have; none of the tables' is imported."""
    BUILDERS.check_options(name, options)
    embedder = complete_embedder(name, embedder, options)
    EMBEDDERS.check_options(embedder.pop("name"), embedder)


def check_language_model(name: str, options: Mapping[str, Any], embedder: Mapping[str, Any]) -> None:
    """Refuse an unknown language model or option, and an embedder that is not the folder of one."""
    LANGUAGE_MODELS.check_options(name, options)
    if {"name": "backbone", **embedder}["name"] != "backbone" or not embedder.keys() <= {"name", "folder"}:
        raise ConfigError(f"embedder: a language model takes a folder alone (--backbone FOLDER), got {dict(embedder)}")
