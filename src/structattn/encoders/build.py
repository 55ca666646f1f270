"""The table of encoders: a name, a builder, and options checked against the builder's signature.

An encoder outside the table is named ``module:function``.
"""

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import structattn
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.syntax.errors import ConfigError


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
        "ms_san_backbone": "structattn.encoders.backbone:ms_san_backbone",
    }
)
# Options that are counts, of at least one.
_SIZES = ("dim", "embedding_dim", "hidden", "num_heads", "num_layers")


def builder(name: str) -> Callable[..., SentenceEncoder]:
    """The builder function behind a name.

    Args:
        name: a key of ``BUILDERS``, or ``module:function`` for a builder of your own. That takes ``vocab_size``
            first, and its options by keyword, each with a default.

    Raises:
        ConfigError: if the name is unknown (the message lists the known names), or nothing is where it says.

    Example:
        >>> builder("bilstm") is builder("structattn.encoders:bilstm")
        True
    """
    if name not in BUILDERS and ":" not in name:
        raise ConfigError(
            f"unknown encoder {name!r}{_nearest(name, BUILDERS)}; known: {', '.join(sorted(BUILDERS))}, "
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
    """The options of an encoder and their defaults, read from the builder's signature.

    Example:
        >>> options_of("disan")["dim"]
        300
    """
    parameters = inspect.signature(builder(name)).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key != "vocab_size"}


def build(name: str, *, vocab_size: int, **options: Any) -> SentenceEncoder:
    """Build an encoder by name.

    Args:
        name: as in ``builder``.
        vocab_size: number of word ids, padding and unknown included.
        **options: keyword arguments of the builder; see ``options_of``.

    Raises:
        ConfigError: for an unknown encoder or option (the message lists the known ones), or a value that does not fit.

    Example:
        >>> build("emb_s2t", vocab_size=10, dim=4).output_dim
        4
    """
    function = builder(name)
    known = options_of(name)
    types = get_type_hints(function)
    for key, value in options.items():
        if key not in known:
            raise ConfigError(
                f"unknown option {key!r} for encoder {name!r}{_nearest(key, known)}; known: {', '.join(sorted(known))}"
            )
        if not fits(value, types.get(key, Any)):
            expected = inspect.formatannotation(types[key])
            raise ConfigError(f"option {key!r} of encoder {name!r}: expected {expected}, got {value!r}")
        if key in _SIZES and value is not None and value < 1:
            raise ConfigError(f"option {key!r} of encoder {name!r}: expected at least 1, got {value!r}")
    try:
        encoder = function(vocab_size, **options)
    except ConfigError:
        raise
    except ValueError as error:  # a layer's own check, such as that of a dropout above 1
        raise ConfigError(f"encoder {name!r}: {error}") from error
    if not isinstance(encoder, SentenceEncoder):
        raise ConfigError(f"encoder {name!r}: expected a function that returns a SentenceEncoder, got {encoder!r:.60}")
    encoder.description = {"encoder": name, "options": options, "vocab_size": vocab_size}
    return encoder


def encoder_from_config(config: Mapping[str, Any], folder: Path) -> SentenceEncoder:
    """The encoder that ``SentenceEncoder.config`` describes, with fresh parameters.

    Args:
        config: the description, which may say more.
        folder: the folder that it was read from; an option that names a folder in there means that one.

    Raises:
        ConfigError: as ``build``.
        KeyError: if the description is incomplete.

    Example:
        >>> encoder = build("emb_s2t", vocab_size=10, dim=4)
        >>> encoder_from_config(encoder.config, Path("nowhere")).config == encoder.config
        True
    """
    options = {
        name: str(folder / value) if isinstance(value, str) and value and (folder / value).is_dir() else value
        for name, value in config["options"].items()
    }
    return build(config["encoder"], vocab_size=config["vocab_size"], **options)


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of an option's type. Which strings are known is left to the builder, which lists them."""
    if hint is Any:
        return True
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return any(type(value) is type(choice) for choice in get_args(hint))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else get_origin(hint) or hint)


def _nearest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
