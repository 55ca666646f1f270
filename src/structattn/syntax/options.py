"""Checks of configuration values, which are frozen dataclasses of plain values."""

import re
from collections.abc import Callable, Collection
from typing import Any, get_args, get_type_hints

from structattn.syntax.errors import ConfigError

# What an option of an encoder, decoder or parser may be in a configuration: plain values, in lists and sections.
# ``Any`` would let jsonargparse import and call whatever class a value names.
_Plain = bool | int | float | str | None
_Listed = _Plain | list[_Plain | list[_Plain]]
Option = _Listed | dict[str, _Listed | dict[str, _Listed]]


def check(holds: bool, place: str, expected: str, value: object) -> None:
    """Refuse a value that is out of its range.

    Raises:
        ConfigError: unless it holds.
    """
    if not holds:
        raise ConfigError(f"{place}: expected {expected}, got {value!r}")


def check_known(value: object, known: Collection[str], place: str) -> None:
    """Refuse an unknown name; ``None`` is no name and passes.

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


def explain(message: str, spell: Callable[[str], str] = str) -> str:
    r"""What jsonargparse says of a wrong value, as one plain sentence.

    Args:
        message: its message.
        spell: how a key is shown.

    Example:
        >>> explain("data.holdout: Expected a <class 'float'>. Got value: z")
        'data.holdout: expected float, got z'
    """
    message = re.sub(r'Parser key "([\w.]+)":\s+', lambda key: f"{spell(key[1])}: ", " ".join(message.split()))
    message = re.sub(r"<class '(\w+)'>", r"\1", message)
    message = re.sub(r"typing\.Literal\[(.*?)\]", r"one of \1", message)
    message = re.sub(r"Expected an? (.*?)\. Got value: ", r"expected \1, got ", message)
    union = r"Does not validate against any of the Union subtypes Subtypes: \[(.*?)\] Errors: .* Given value: (.*)"
    return re.sub(union, lambda found: f"expected {found[1].replace('NoneType', 'null')}, got {found[2]}", message)
