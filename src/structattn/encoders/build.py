"""The table of encoders: a name, a builder, and options checked against the builder's signature.

An encoder outside the table is named ``module:function``.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from torch import nn

import structattn
from structattn.encoders.embedders import build_embedder
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.layers import BackboneEmbedding
from structattn.layers.backbone import SKELETON
from structattn.syntax.errors import ConfigError, shown
from structattn.syntax.options import check_options, known_options, nearest, plain_options


class BuilderTable(Mapping[str, str]):
    """Where the builder of each name is: ``module:function``, imported when it is asked for.

    Rooms above this one add their rows when they are imported; that happens at the latest when a name is missing here,
    or all names are asked for.

    Args:
        rows: the first rows.
    """

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._rows = dict(rows)

    def add(self, rows: Mapping[str, str]) -> None:
        """Add names and where their builders are."""
        self._rows.update(rows)

    def __getitem__(self, name: str) -> str:
        if name not in self._rows:
            structattn.load_extensions()
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        structattn.load_extensions()
        return iter(tuple(self._rows))

    def __len__(self) -> int:
        structattn.load_extensions()
        return len(self._rows)


BUILDERS = BuilderTable(
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
        "tree_lstm": "structattn.encoders.tree_lstm:tree_lstm",
        "dependency_tree_lstm": "structattn.encoders.tree_lstm:dependency_tree_lstm",
        "tree_transformer": "structattn.encoders.tree_transformer:tree_transformer",
        "length_matched_transformer": "structattn.encoders.tree_transformer:length_matched_transformer",
        "lstm": "structattn.encoders.lstm:lstm",
        "structured": "structattn.encoders.structured:structured",
        "decomposable": "structattn.encoders.decomposable:decomposable",
        "backbone": "structattn.encoders.backbone:backbone",
    }
)
# The width of the word vectors of an encoder that is built without an embedder: that of its paper, where it is not 300.
_WIDTHS = {"lstm": 500, "structured": 50, "tree_transformer": 64, "length_matched_transformer": 64}
_WIDTH = 300


def builder(name: str) -> Callable[..., SentenceEncoder]:
    """The builder function behind a name.

    Args:
        name: a key of ``BUILDERS``, or ``module:function`` for a builder of your own. That takes the embedder first,
            and its options by keyword, each with a default.

    Raises:
        ConfigError: if the name is unknown (the message lists the known names), or nothing is where it says.

    Example:
        >>> builder("bilstm") is builder("structattn.encoders:bilstm")
        True
    """
    if name not in BUILDERS and ":" not in name:
        raise ConfigError(
            f"unknown encoder {name!r}{nearest(name, BUILDERS)}; known: {', '.join(sorted(BUILDERS))}, "
            "or module:function for your own"
        )
    module, _, function = BUILDERS.get(name, name).partition(":")
    try:
        found: Callable[..., SentenceEncoder] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        if name in BUILDERS:
            raise
        raise ConfigError(
            f"encoder {name!r}: expected module:function, where the module can be imported: {error}"
        ) from None
    if not callable(found):
        raise ConfigError(f"encoder {name!r}: expected a function, got {type(found).__name__}")
    return found


def options_of(name: str) -> dict[str, Any]:
    """The options of an encoder and their defaults, read from the builder's signature; groups are mappings.

    Example:
        >>> options_of("disan")["scale"], options_of("tree_transformer")["accumulation"]
        (5.0, {'max_vertical': 50, 'max_horizontal': 100, 'mode': 'paper'})
    """
    return known_options(builder(name))


def needs_backbone(name: str) -> bool:
    """Whether an encoder reads a pretrained backbone: its builder takes a ``BackboneEmbedding``.

    Example:
        >>> needs_backbone("hydra"), needs_backbone("ms_san")
        (True, False)
    """
    return _embedder_type(builder(name)) is BackboneEmbedding


def build(
    name: str,
    *,
    embedder: nn.Module | Mapping[str, Any] | None = None,
    vocab_size: int | None = None,
    **options: Any,
) -> SentenceEncoder:
    """Build an encoder by name.

    Args:
        name: as in ``builder``.
        embedder: what gives the states of words: a module with its width as ``output_dim``; or the name of an entry of
            ``EMBEDDERS`` with its options, such as ``{"name": "words", "dim": 100}`` for a table of word vectors, or
            ``{"name": "backbone", "folder": "bert-base"}``. Word vectors if ``None``, of the width that the option
            ``dim`` names, or that the encoder's paper has.
        vocab_size: number of word ids, padding and unknown included; for word vectors.
        **options: keyword arguments of the builder; see ``options_of``.

    Raises:
        ConfigError: for an unknown encoder, embedder or option (the message lists the known ones), or a value that does
            not fit.

    Example:
        >>> build("emb_s2t", vocab_size=10, dim=4).output_dim
        4
        >>> build("bilstm", embedder={"dim": 6, "num_frozen": 2}, vocab_size=10, dim=4).embedder.frozen.shape
        torch.Size([2, 6])
    """
    function = builder(name)
    owner = f"encoder {name!r}"
    checked = check_options(options, function, owner)
    expected = _embedder_type(function)
    if not isinstance(embedder, nn.Module):
        if not isinstance(embedder, Mapping | None):
            raise ConfigError(f"{owner}: expected a module or a mapping as embedder, got {shown(embedder)}")
        embedder = build_embedder(_with_defaults(name, embedder or {}, options), vocab_size=vocab_size)
    if not isinstance(embedder, expected):
        raise ConfigError(f"{owner}: expected the embedder {expected.__name__}, got {type(embedder).__name__}")
    try:
        encoder = function(embedder, **checked)
    except ConfigError:
        raise
    except ValueError as error:  # a layer's own check, such as that of a dropout above 1
        raise ConfigError(f"{owner}: {error}") from error
    if not isinstance(encoder, SentenceEncoder):
        raise ConfigError(f"{owner}: expected a function that returns a SentenceEncoder, got {encoder!r:.60}")
    described = getattr(embedder, "config", None)
    if isinstance(described, dict):
        encoder.description = {
            "encoder": name,
            "options": plain_options(options),
            "embedder": described,
            "vocab_size": getattr(embedder, "vocab_size", vocab_size),
        }
    return encoder


def encoder_from_config(config: Mapping[str, Any], folder: Path) -> SentenceEncoder:
    """The encoder that ``SentenceEncoder.config`` describes, with fresh parameters.

    Args:
        config: the description, which may say more.
        folder: the folder that it was read from, for an option or a backbone that was saved in there.

    Raises:
        ConfigError: as ``build``.
        KeyError: if the description is incomplete.

    Example:
        >>> encoder = build("emb_s2t", vocab_size=10, dim=4)
        >>> encoder_from_config(encoder.config, Path("nowhere")).config == encoder.config
        True
    """
    options = {
        name: str(folder / name) if value == name and (folder / name).is_dir() else value
        for name, value in config["options"].items()
    }
    embedder = config["embedder"]
    if isinstance(embedder, Mapping) and embedder.get("folder") == SKELETON:
        embedder = {**embedder, "folder": str(folder / SKELETON)}
    return build(config["encoder"], embedder=embedder, vocab_size=config["vocab_size"], **options)


def _with_defaults(encoder: str, embedder: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """An embedder's configuration with its name and, for word vectors, their width."""
    complete = {"name": "backbone" if needs_backbone(encoder) else "words", **embedder}
    if complete["name"] == "words":
        complete.setdefault("dim", options.get("dim") or _WIDTHS.get(encoder, _WIDTH))
    return complete


def _embedder_type(function: Callable[..., object]) -> type:
    """The type of a builder's first parameter; any module where it names none."""
    first = next(iter(inspect.signature(function).parameters), "")
    hint = get_type_hints(function).get(first, nn.Module)
    return hint if isinstance(hint, type) else nn.Module
