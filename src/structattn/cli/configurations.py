"""Files of options on a command line, read and checked before jsonargparse sees them."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from structattn.errors import ConfigError, naming
from structattn.files.json_yaml import read_yaml, write_yaml
from structattn.options.sections import check_sections

NO_VALUES = ("config", "help", "print_config")
"""Options that request an action or name a file themselves: a file cannot set them."""


def checked_files(
    words: Sequence[str],
    names: Collection[str],
    unknown: Callable[[str], ConfigError],
    *,
    mappings: Collection[str],
    folder: Path,
) -> Iterator[str]:
    """The words of a command line, with a checked copy in place of each file of ``--config`` or of a section.

    The copy makes sure that the values read later are the values checked, and that a pipe is read only once.

    Args:
        words: the words of the command line.
        names: the names of its options without dashes, sections included.
        unknown: from the name of an unknown option to its error.
        mappings: the options whose keys may have any name.
        folder: an empty folder for the copies.

    Raises:
        ConfigError: naming the file, if it exceeds the limits of ``read_yaml`` or ``check_sections`` refuses it.
    """
    sections = [name for name in names if _is_section(name, names)]
    known = [name for name in names if name not in (*sections, *NO_VALUES)]
    places = {"--config": "", **{f"--{name}": f"{name}." for name in sections}}
    before = ""
    for word in words:
        option, equals, file = word.partition("=") if word.startswith("--") else (before, "", word)
        before = word
        if option not in places or (word.startswith("--") and not equals):
            yield word
            continue
        path, section = os.path.expanduser(file), places[option]
        if section and not os.path.exists(path):
            inner = ", ".join(f"--{name}" for name in known if name.startswith(section))
            raise ConfigError(
                f"{option}: expected one of its options, or a YAML file of them, got {file!r}; known: {inner}"
            )
        values = read_yaml(path)
        with naming(path):
            check_sections(values, known, unknown, mappings=mappings, section=section)
        copy = folder / f"{len(os.listdir(folder))}.yaml"
        write_yaml(copy, values)
        yield f"{option}={copy}" if equals else str(copy)


def _is_section(name: str, names: Collection[str]) -> bool:
    return any(other.startswith(f"{name}.") for other in names)
