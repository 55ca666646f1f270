"""Checks of configuration values: frozen dataclasses of plain values, and options that functions take by name."""

import dataclasses
import difflib
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from structattn.errors import ConfigError

# What an option of an encoder, decoder or parser may be in a configuration: plain values, in lists and sections.
# ``Any`` would let jsonargparse import and call whatever class a value names.
_Plain = bool | int | float | str | None
_Listed = _Plain | list[_Plain | list[_Plain]]
Option = _Listed | dict[str, _Listed | dict[str, _Listed]]

# Options that are counts, of at least one.
_SIZES = ("dim", "hidden", "num_facts", "num_heads", "num_layers", "num_steps")


def check(holds: bool, place: str, expected: str, value: object) -> None:
    """Refuse a value that is out of its range.

    Raises:
        ConfigError: unless ``holds``.
    """
    if not holds:
        raise ConfigError(f"{place}: expected {expected}, got {value!r}")


def check_known(value: object, known: Collection[str], place: str) -> None:
    """Refuse an unknown name; ``None`` passes.

    Raises:
        ConfigError: for a name that is not among the known ones.
    """
    if value is not None and value not in known:
        raise ConfigError(f"{place}: unknown value {value!r}; known: {', '.join(known)}")


def check_choices(config: Any, place: str) -> None:
    """Refuse unknown names in fields whose type lists the known ones, for callers who do not check types.

    Raises:
        ConfigError: for a name that is not among them.
    """
    for name, hint in get_type_hints(type(config)).items():
        choices = [choice for part in (hint, *get_args(hint)) for choice in get_args(part) if isinstance(choice, str)]
        if choices:
            check_known(getattr(config, name), choices, f"{place}.{name}" if place else name)


def known_options(function: Callable[..., object]) -> dict[str, Any]:
    """The keyword-only parameters of a function and their defaults, groups of options as mappings.

    Example:
        >>> def build(embedder, *, dim: int = 3): ...
        >>> known_options(build)
        {'dim': 3}
    """
    parameters = inspect.signature(function).parameters.values()
    return {one.name: _plain(one.default) for one in parameters if one.kind is one.KEYWORD_ONLY}


def check_options(options: Mapping[str, Any], function: Callable[..., object], owner: str) -> dict[str, Any]:
    """Options as a function takes them: checked to be known and of the right type, with groups as dataclasses.

    Args:
        options: plain values; a group of options is a mapping.
        function: takes them as keyword-only parameters.
        owner: what they are options of, for the error.

    Raises:
        ConfigError: for an unknown option (the message lists the known ones), or a value that does not fit.

    Example:
        >>> def build(embedder, *, dim: int = 3, hidden: int | None = None): ...
        >>> check_options({"dim": 4}, build, "encoder 'mine'")
        {'dim': 4}
        >>> check_options({"dims": 4}, build, "encoder 'mine'")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: unknown option 'dims' for encoder 'mine' (did you mean 'dim'?); known:
        dim, hidden
    """
    return _checked(options, list(known_options(function)), get_type_hints(function), owner, "")


def nearest(name: str, known: Collection[str]) -> str:
    """A hint at the known name that is closest to an unknown one; empty if none is close.

    Example:
        >>> nearest("disann", ["disan", "ms_san"])
        " (did you mean 'disan'?)"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def parse_seeds(text: str, place: str) -> list[int]:
    """Seeds such as ``"1..3"`` or ``"1,5,2..3"`` as numbers.

    Args:
        text: the text to parse.
        place: what the error message calls it.

    Raises:
        ConfigError: for anything else.

    Example:
        >>> parse_seeds("1..3,7", "--seeds")
        [1, 2, 3, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\.\.(\d+))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ConfigError(f"{place}: expected seeds such as 1..5 or 1,3,7, got {text!r}")
        seeds += range(int(match[1]), int(match[2] or match[1]) + 1)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"{place}: expected each seed once, got {text!r}")
    return seeds


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of an option's type."""
    if hint is Any:
        return True
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else get_origin(hint) or hint)


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the plain values of a configuration file, with groups as mappings."""
    return {name: _plain(value) for name, value in options.items()}


def explain(message: str, spell: Callable[[str], str] = str) -> str:
    r"""A message of jsonargparse about a wrong value, as one plain sentence.

    Args:
        message: its message.
        spell: how a key is shown.

    Example:
        >>> explain("data.holdout: Expected a <class 'float'>. Got value: z")
        'data.holdout: expected float, got z'
        >>> union = "Does not validate against any of the Union subtypes Subtypes: [<class 'int'>, <class 'NoneType'>]"
        >>> explain(f"batch_tokens: {union} Errors: no int Given value: z")
        'batch_tokens: expected int or null, got z'
    """
    message = re.sub(r'Parser key "([\w.]+)":\s+', lambda key: f"{spell(key[1])}: ", " ".join(message.split()))
    message = re.sub(r"<class '(\w+)'>", r"\1", message)
    message = re.sub(r"typing\.Literal\[(.*?)\]", r"one of \1", message)
    message = re.sub(r"Expected an? (.*?)\. Got value: ", r"expected \1, got ", message)
    union = r"Does not validate against any of the Union subtypes Subtypes: \[(.*?)\] Errors: .* Given value: (.*)"
    if (found := re.search(union, message)) is None:
        return message
    kinds = found[1].replace("NoneType", "null").replace(", ", " or ")
    return f"{message[: found.start()]}expected {kinds}, got {found[2]}"


def _checked(
    options: Mapping[str, Any], known: Collection[str], types: Mapping[str, Any], owner: str, group: str
) -> dict[str, Any]:
    checked = {}
    for key, value in options.items():
        name = f"{group}{key}"
        if key not in known:
            names = sorted(f"{group}{one}" for one in known)
            raise ConfigError(f"unknown option {name!r} for {owner}{nearest(name, names)}; known: {', '.join(names)}")
        hint = types.get(key, Any)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
            fields = [field.name for field in dataclasses.fields(hint)]
            value = hint(**_checked(value, fields, get_type_hints(hint), owner, f"{name}."))
        if not fits(value, hint):
            raise ConfigError(f"option {name!r} of {owner}: expected {_shown(hint)}, got {value!r}")
        if key in _SIZES and value is not None and value < 1:
            raise ConfigError(f"option {name!r} of {owner}: expected at least 1, got {value!r}")
        checked[key] = value
    return checked


def _shown(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " | ".join("None" if part is type(None) else _shown(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    return (
        "a mapping"
        if dataclasses.is_dataclass(hint)
        else inspect.formatannotation(hint).removeprefix("collections.abc.")
    )


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
