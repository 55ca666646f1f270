"""The table of encoders: a name, a builder, and options checked against the builder's signature."""

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.syntax.errors import ConfigError

BUILDERS: dict[str, str] = {
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
}


def builder(name: str) -> Callable[..., SentenceEncoder]:
    """The builder function behind a name.

    Raises:
        ConfigError: if the name is unknown; the message lists the known names.
    """
    if name not in BUILDERS:
        raise ConfigError(f"unknown encoder {name!r}{_nearest(name, BUILDERS)}; known: {', '.join(sorted(BUILDERS))}")
    module, function = BUILDERS[name].split(":")
    found: Callable[..., SentenceEncoder] = getattr(importlib.import_module(module), function)
    return found


def options_of(name: str) -> dict[str, Any]:
    """The options of an encoder and their defaults, read from the builder's signature.

    Example:
        >>> options_of("disan")["dim"]
        300
    """
    parameters = inspect.signature(builder(name)).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key != "vocabulary_size"}


def build(name: str, *, vocabulary_size: int, **options: Any) -> SentenceEncoder:
    """Build an encoder by name.

    Args:
        name: a key of ``BUILDERS``.
        vocabulary_size: number of word ids, padding and unknown included.
        **options: keyword arguments of the builder; see ``options_of``.

    Raises:
        ConfigError: for an unknown encoder or option; the message lists the known ones.

    Example:
        >>> build("emb_s2t", vocabulary_size=10, dim=4).output_dim
        4
    """
    function = builder(name)
    known = options_of(name)
    for key in options:
        if key not in known:
            raise ConfigError(
                f"unknown option {key!r} for encoder {name!r}{_nearest(key, known)}; known: {', '.join(sorted(known))}"
            )
    return function(vocabulary_size, **options)


def _nearest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
