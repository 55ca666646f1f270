"""Checks of untrusted configurations, before jsonargparse reads them.

Where a section is expected, jsonargparse imports the class or opens the file that is named there; it reads a text as
YAML, of any depth and with all its aliases.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from structattn.errors import ConfigError, shown
from structattn.files.json_yaml import MAX_DEPTH


def check_sections(
    values: Mapping[str, Any],
    known: Collection[str],
    unknown: Callable[[str], ConfigError],
    *,
    mappings: Collection[str] = (),
    section: str = "",
) -> None:
    """Refuse a configuration with sections other than keys and values, unknown keys, or texts that expand as YAML.

    Args:
        values: the values of the configuration, or of a section of it.
        known: the names of all values; those in sections have dots between.
        unknown: maps the name of an unknown value to its error.
        mappings: the known values that may have keys of any name.
        section: the name of the section followed by a dot; empty for a whole configuration.

    Raises:
        ConfigError: for the first that is refused.

    Example:
        >>> known = ["seed", "data.train"]
        >>> check_sections({"seed": 1, "data": {"train": "a.txt"}}, known, ConfigError)
        >>> check_sections({"seed": 1, "data": "other.yaml"}, known, ConfigError)
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: data: expected keys and values, got 'other.yaml'
    """
    for key, value in values.items():
        name = f"{section}{key}"
        if name in known or name.startswith(tuple(f"{one}." for one in mappings)):
            if any(_unfolds(text) for text in _texts(value)):
                raise ConfigError(f"{name}: expected a plain value, got a text that is YAML: {shown(value)}")
        elif not any(one.startswith(f"{name}.") for one in known):
            raise unknown(name)
        elif not isinstance(value, Mapping):
            raise ConfigError(f"{name}: expected keys and values, got {shown(value)}")
        else:
            check_sections(value, known, unknown, mappings=mappings, section=f"{name}.")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)


def _unfolds(text: str) -> bool:
    """Whether a text is YAML with aliases in its lists and mappings, or with very deep ones."""
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH or (depth and isinstance(event, yaml.AliasEvent)):
                return True
    except yaml.YAMLError:  # not YAML: it stays a text
        return False
    return False
