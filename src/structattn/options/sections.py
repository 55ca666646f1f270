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
    names: Collection[str],
    refuse: Callable[[str], ConfigError],
    *,
    mappings: Collection[str] = (),
    section: str = "",
) -> None:
    """Refuse a configuration with sections other than keys and values, unknown keys, or texts that expand as YAML.

    ``names`` are those of all values, with dots after sections; values under ``mappings`` may have keys of any name.
    """
    for key, value in values.items():
        name = f"{section}{key}"
        if name in names or name.startswith(tuple(f"{mapping}." for mapping in mappings)):
            if any(_expands(text) for text in _texts(value)):
                raise ConfigError(f"{name}: expected a plain value, got a text that is YAML: {shown(value)}")
        elif not any(child.startswith(f"{name}.") for child in names):
            raise refuse(name)
        elif not isinstance(value, Mapping):
            raise ConfigError(f"{name}: expected keys and values, got {shown(value)}")
        else:
            check_sections(value, names, refuse, mappings=mappings, section=f"{name}.")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _expands(text: str) -> bool:
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
