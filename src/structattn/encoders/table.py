"""The tables of encoders and embedders: a builder for each name, whose options are read without importing it.

An encoder outside the table is named ``module:function``.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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
        "words": "structattn.encoders.embedders:words",
        "backbone": "structattn.backbones.backbone_embedding:backbone_states",
    },
)
# Width of the word vectors of an encoder that is built without an embedder, where its paper's is not 300.
_WIDTHS = {"lstm": 500, "structured": 50, "tree_transformer": 64, "length_matched_transformer": 64}
_WIDTH = 300


def builder(name: str) -> "Callable[..., SentenceEncoder]":
    """The builder function behind a name.

    Args:
        name: a key of ``BUILDERS``, or ``module:function`` for a builder of your own, which takes the embedder first
            and its options by keyword, each with a default.

    Raises:
        ConfigError: if the name is unknown (the message lists the known names), or there is nothing at the given
            location.

    Example:
        >>> builder("bilstm") is builder("structattn.encoders:bilstm")
        True
    """
    return BUILDERS.find(name)


def options_of(name: str) -> dict[str, Any]:
    """The options of an encoder and their defaults, read from the builder's signature; groups are mappings.

    Example:
        >>> options_of("disan")["scale"], options_of("tree_transformer")["accumulation"]
        (5.0, {'max_vertical': 50, 'max_horizontal': 100, 'mode': 'paper'})
    """
    return list_options(BUILDERS.outline(name))


def needs_backbone(name: str) -> bool:
    """Whether an encoder reads a pretrained backbone: its builder takes a ``BackboneEmbedding``.

    Example:
        >>> needs_backbone("hydra"), needs_backbone("ms_san")
        (True, False)
    """
    return first_type(BUILDERS.outline(name)) == "BackboneEmbedding"


def with_default_embedder(encoder: str, embedder: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """An embedder's configuration with its name and, for word vectors, their width.

    Args:
        encoder: the encoder that reads it, whose default embedder and width are used where none are given.
        embedder: name and options.
        options: the encoder's options.

    Example:
        >>> with_default_embedder("lstm", {}, {}), with_default_embedder("hydra", {"folder": "bert"}, {})
        ({'name': 'words', 'dim': 500}, {'name': 'backbone', 'folder': 'bert'})
    """
    complete = {"name": "backbone" if needs_backbone(encoder) else "words", **embedder}
    if complete["name"] == "words":
        complete.setdefault("dim", options.get("dim") or _WIDTHS.get(encoder, _WIDTH))
    return complete


def check_encoder(name: str, options: Mapping[str, Any], embedder: Mapping[str, Any]) -> None:
    """Refuse an unknown encoder or embedder, or options that they do not have; none of the tables' is imported.

    Args:
        name: the name of the encoder.
        options: keyword arguments of its builder.
        embedder: name and options of the embedder; the encoder's own if there is no name.

    Raises:
        ConfigError: for an unknown name or option (the message lists the known ones), or a value that does not fit.

    Example:
        >>> check_encoder("emb_s2t", {"dim": "wide"}, {})
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: option 'dim' of encoder 'emb_s2t': expected int | None, got 'wide'
        >>> check_encoder("emb_s2t", {}, {"dims": 3})
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: unknown option 'dims' for embedder 'words' (did you mean 'dim'?); known:
        dim, dropout, num_frozen
    """
    BUILDERS.check_options(name, options)
    embedder = with_default_embedder(name, embedder, options)
    EMBEDDERS.check_options(embedder.pop("name"), embedder)
