"""Checks of configuration values: frozen dataclasses of plain values, and options that functions take by name."""

import dataclasses
import difflib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from structattn.errors import ConfigError, shown

# What an option of an encoder, decoder or parser may be in a configuration: plain values, in lists and sections.
# ``Any`` would let jsonargparse import and call whatever class a value names.
_Plain = bool | int | float | str | None
_Listed = _Plain | list[_Plain | list[_Plain]]
Option = _Listed | dict[str, _Listed | dict[str, _Listed]]

_PLAIN_TYPES = (bool, int, float, str, type(None))

# Options that are counts, of at least one.
_SIZES = ("dim", "hidden", "num_heads", "num_layers")
_MOST_SEEDS = 1000


def check(holds: bool, option: str, expected: str, value: object) -> None:
    """Refuse the value of an option that is out of its range."""
    if not holds:
        raise ConfigError(f"{option}: expected {expected}, got {value!r}")


def check_choice(value: object, choices: Collection[str], option: str) -> None:
    """Refuse the value of an option that is not among the choices; ``None`` passes."""
    if value is not None and value not in choices:
        raise ConfigError(f"{option}: unknown value {value!r}; known: {', '.join(choices)}")


def check_fields(config: Any, section: str) -> None:
    """Refuse values of a configuration that are not of their fields' types, for callers who do not check them."""
    for name, hint in get_type_hints(type(config)).items():
        option, value = f"{section}.{name}" if section else name, getattr(config, name)
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        choices = [choice for part in parts for choice in get_args(part) if isinstance(choice, str)]
        if choices and isinstance(value, str):
            check_choice(value, choices, option)
        check(
            get_origin(hint) is not dict or isinstance(value, dict),
            option,
            "keys and values",
            "null" if value is None else value,
        )
        is_plain = all(part in _PLAIN_TYPES or get_origin(part) is Literal for part in parts)
        if (is_plain and not fits(value, hint)) or (isinstance(value, float) and value != value):
            raise ConfigError(
                f"{option}: expected {_format_type(hint)}, got {'null' if value is None else repr(value)}"
            )


def list_options(function: Callable[..., object]) -> dict[str, Any]:
    """The keyword-only parameters of a function and their defaults, groups of options as mappings."""
    parameters = inspect.signature(function).parameters.items()
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return {name: _plain(parameter.default) for name, parameter in parameters if parameter.kind is keyword_only}


def check_options(options: Mapping[str, Any], function: Callable[..., object], owner: str) -> dict[str, Any]:
    """Options as a configuration gives them, for the keyword-only parameters of a function.

    Args:
        options: plain values; a mapping for a parameter that is a dataclass.
        function: says by its annotations which options there are.
        owner: whose options they are, for errors: ``"encoder 'disan'"``.

    Returns:
        The same options, with dataclasses for groups.

    Raises:
        ConfigError: for an unknown option, or a value of another type; the message says what is expected.

    Example:
        >>> def disan(embedder: object, *, dim: int = 300) -> None: ...
        >>> check_options({"dim": 8}, disan, "encoder 'disan'")
        {'dim': 8}
        >>> check_options({"dims": 8}, disan, "encoder 'disan'")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: unknown option 'dims' for encoder 'disan' (did you mean 'dim'?); known: dim
    """
    return _check_group(options, list(list_options(function)), get_type_hints(function), owner, "")


def suggest(name: str, choices: Collection[str]) -> str:
    """A hint at the choice that is closest to an unknown name, to end an error; empty if none is close.

    Example:
        >>> suggest("disna", ["disan", "ms_san"]), suggest("lstm", ["disan"])
        (" (did you mean 'disan'?)", '')
    """
    close = difflib.get_close_matches(str(name), list(map(str, choices)), n=1)  # a key of YAML may be a number
    return f" (did you mean {close[0]!r}?)" if close else ""


def check_labels(option: str, labels: Iterable[str], known: Collection[str]) -> None:
    """Refuse labels that are not known; the error suggests and lists those that are."""
    for label in set(labels) - set(known):
        names = f"{suggest(label, known)}; known: {', '.join(known)}"
        raise ConfigError(f"{option}: expected labels of the data, got {label!r}{names}")


def parse_seeds(text: str, option: str) -> list[int]:
    """Random seeds from the command line.

    Args:
        text: numbers and ranges, separated by commas.
        option: the option, for errors.

    Raises:
        ConfigError: for anything else, or a seed given twice.

    Example:
        >>> parse_seeds("1,5,2..3", "--seeds")
        [1, 5, 2, 3]
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:\.\.(\d{1,18}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < first + _MOST_SEEDS:
            raise ConfigError(
                f"{option}: expected seeds such as 1..5 or 1,3,7, at most {_MOST_SEEDS:,}, got {shown(text, width=60)}"
            )
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"{option}: expected each seed once, got {text!r}")
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
    """A message of jsonargparse about a wrong value, as one plain sentence in which ``spell`` writes the keys."""
    message = re.sub(r'Parser key "([\w.]+)":\s+', lambda key: f"{spell(key[1])}: ", " ".join(message.split()))
    message = re.sub(r"<class '(\w+)'>", r"\1", message)
    message = re.sub(r"typing\.Literal\[(.*?)\]", r"one of \1", message)
    message = re.sub(r"Expected an? (.*?)\. Got value: ", r"expected \1, got ", message)
    union = r"Does not validate against any of the Union subtypes Subtypes: \[(.*?)\] Errors: .* Given value: (.*)"
    if (match := re.search(union, message)) is None:
        return message
    kinds = match[1].replace("NoneType", "null").replace(", ", " or ")
    return f"{message[: match.start()]}expected {kinds}, got {match[2]}"


def _check_group(
    options: Mapping[str, Any], keys: Collection[str], types: Mapping[str, Any], owner: str, group: str
) -> dict[str, Any]:
    checked = {}
    for key, value in options.items():
        name = f"{group}{key}"
        if key not in keys:
            names = sorted(f"{group}{key}" for key in keys)
            raise ConfigError(f"unknown option {name!r} for {owner}{suggest(name, names)}; known: {', '.join(names)}")
        hint = types.get(key, Any)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
            fields = [field.name for field in dataclasses.fields(hint)]
            value = hint(**_check_group(value, fields, get_type_hints(hint), owner, f"{name}."))
        if not fits(value, hint):
            raise ConfigError(f"option {name!r} of {owner}: expected {_format_type(hint)}, got {value!r}")
        if key in _SIZES and value is not None and value < 1:
            raise ConfigError(f"option {name!r} of {owner}: expected at least 1, got {value!r}")
        checked[key] = value
    return checked


def _format_type(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " | ".join("None" if part is type(None) else _format_type(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    if dataclasses.is_dataclass(hint):
        return "a mapping"
    return inspect.formatannotation(hint).removeprefix("collections.abc.")


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
