"""Embedders, which give an encoder the states of words, built from a name and options.

A module of your own works as well, if ``embedder(batch)`` gives the states and ``embedder.output_dim`` their width.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from structattn.encoders.table import EMBEDDERS
from structattn.errors import ConfigError
from structattn.layers import WordEmbedding
from structattn.options.checking import check_options


def words(vocab_size: int | None, *, dim: int = 300, num_frozen: int = 0, dropout: float = 0.0) -> WordEmbedding:
    """A table of word vectors.

    Args:
        vocab_size: number of word ids, padding and unknown included.
        dim: width of the vectors.
        num_frozen: number of words at the end of the vocabulary whose vectors are not trained.
        dropout: on the vectors, besides the encoder's own.

    Raises:
        ConfigError: without a vocabulary.
        ValueError: for one that is too small.
    """
    if vocab_size is None:
        raise ConfigError("word vectors need the number of words: pass vocab_size=, or another embedder")
    return WordEmbedding(vocab_size, dim, num_frozen=num_frozen, dropout=dropout)


def build_embedder(config: Mapping[str, Any], *, vocab_size: int | None = None) -> nn.Module:
    """Build an embedder by name.

    Args:
        config: the ``name``, a key of ``EMBEDDERS``, and its options.
        vocab_size: number of word ids.

    Raises:
        ConfigError: for an unknown name or option (the message lists the known ones), or a value that does not fit.

    Example:
        >>> build_embedder({"name": "words", "dim": 3}, vocab_size=5).output_dim
        3
        >>> build_embedder({"name": "words", "dims": 3}, vocab_size=5)
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: unknown option 'dims' for embedder 'words' (did you mean 'dim'?); known:
        dim, dropout, num_frozen
    """
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
