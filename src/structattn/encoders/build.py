"""Encoders and embedders built by name, their options checked against the builder's signature.

A module of your own works as an embedder if ``embedder(batch)`` gives the states and ``embedder.output_dim`` their
width.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from torch import nn

from structattn.encoders.encoder_table import BUILDERS, EMBEDDERS, complete_embedder
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.errors import ConfigError, shown
from structattn.layers import WordEmbedding
from structattn.options.checking import check_options, plain_options


def build(
    name: str,
    *,
    embedder: nn.Module | Mapping[str, Any] | None = None,
    vocab_size: int | None = None,
    **options: Any,
) -> SentenceEncoder:
    """Build an encoder by name.

    Args:
        name: a row of ``BUILDERS``, or ``module:function`` for a builder of your own.
        embedder: the source of the states of words: a module with its width as ``output_dim``; or the name of an entry
            of ``EMBEDDERS`` with its options, such as ``{"name": "words", "dim": 100}`` for a table of word vectors, or
            ``{"name": "backbone", "folder": "bert-base"}``. If ``None``, word vectors with the width of the option
            ``dim`` or, without it, of the encoder's paper.
        vocab_size: number of word ids, padding and unknown included; for word vectors.
        **options: keyword arguments of the builder; see ``encoder_options``.

    Raises:
        ConfigError: for an unknown encoder, embedder or option (the message lists the known ones), or a value that does
            not fit.

    Example:
        >>> build("emb_s2t", vocab_size=10, dim=4).output_dim
        4
        >>> build("bilstm", embedder={"dim": 6, "num_frozen": 2}, vocab_size=10, dim=4).embedder.frozen.shape
        torch.Size([2, 6])
    """
    function = BUILDERS.find(name)
    owner = f"encoder {name!r}"
    checked = check_options(options, function, owner)
    expected = _embedder_type(function)
    if not isinstance(embedder, nn.Module):
        if not isinstance(embedder, Mapping | None):
            raise ConfigError(f"{owner}: expected a module or a mapping as embedder, got {shown(embedder)}")
        embedder = build_embedder(complete_embedder(name, embedder or {}, options), vocab_size=vocab_size)
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


def build_from_config(config: Mapping[str, Any], folder: Path) -> SentenceEncoder:
    """The encoder that ``SentenceEncoder.config`` describes, with fresh parameters.

    ``folder`` is that of the description, for an option or a backbone that was saved there.
    """
    options = {
        name: str(folder / name) if value == name and (folder / name).is_dir() else value
        for name, value in config["options"].items()
    }
    embedder = find_embedder(config["embedder"], folder)
    return build(config["encoder"], embedder=embedder, vocab_size=config["vocab_size"], **options)


def find_embedder(embedder: Any, folder: Path) -> Any:
    """The configuration of an embedder that was saved in a folder, with the path of its own folder in there."""
    if isinstance(embedder, Mapping) and "folder" in embedder and embedder["folder"] == embedder.get("name"):
        return {**embedder, "folder": str(folder / embedder["folder"])}
    return embedder


def words(vocab_size: int | None, *, dim: int = 300, num_frozen: int = 0, dropout: float = 0.0) -> WordEmbedding:
    """A table of word vectors; the options are those of ``WordEmbedding``."""
    if vocab_size is None:
        raise ConfigError("word vectors need the number of words: pass vocab_size=, or another embedder")
    return WordEmbedding(vocab_size, dim, num_frozen=num_frozen, dropout=dropout)


def build_embedder(config: Mapping[str, Any], *, vocab_size: int | None = None) -> nn.Module:
    """Build an embedder by the ``name`` of a row of ``EMBEDDERS`` and its options."""
    name, options = config.get("name"), {key: value for key, value in config.items() if key != "name"}
    function = EMBEDDERS.find(name)  # type: ignore[arg-type]  # it refuses whatever is no name
    checked = check_options(options, function, f"embedder {name!r}")
    try:
        embedder: nn.Module = function(vocab_size, **checked)
        return embedder
    except ConfigError:
        raise
    except ValueError as error:  # a layer's own check, such as that of a dropout above 1
        raise ConfigError(f"embedder {name!r}: {error}") from error


def _embedder_type(function: Callable[..., object]) -> type:
    """The type of a builder's first parameter; any module if it has no annotation."""
    first = next(iter(inspect.signature(function).parameters), "")
    hint = get_type_hints(function).get(first, nn.Module)
    return hint if isinstance(hint, type) else nn.Module
