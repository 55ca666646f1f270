"""From a command's typed signature to its options: positional parameters, keyword-only options, flags for booleans.

``jsonargparse`` reads the types and the docstring; what it lacks is added here: boolean flags, a positional that
repeats, and one plain sentence per mistake.
"""

import dataclasses
import difflib
import functools
import inspect
import os
import re
import tempfile
from argparse import SUPPRESS, ArgumentError
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import jsonargparse

from structattn.cli import completion
from structattn.cli.configurations import NO_VALUES, checked_files
from structattn.cli.help import Formatter, arrange
from structattn.errors import ConfigError
from structattn.options.checking import explain

_IN_GROUP = "\x1f"  # between the names of a group and of its option, while both are one key of a mapping


def parse(command: Callable[..., Iterator[str]], arguments: Sequence[str], *, name: str) -> dict[str, Any] | None:
    """The arguments that a command's function is called with.

    Parameters before the ``*`` are positional (a ``list[str]`` takes one or more words), those after it are options;
    a ``bool`` is a flag. A parameter whose type is a dataclass adds every field as an option, apart from those that
    are parameters themselves; one called ``config`` also adds ``--config FILE``. If the class has a function ``usual``,
    that function gives the defaults of its sections, which may depend on other fields. Names of options may be written
    with dashes or underscores.

    Returns:
        Keyword arguments for ``command``; ``None`` if the command line only asked for help or a configuration.

    Raises:
        ConfigError: for an unknown option, a missing one, or a value of the wrong type.

    Example:
        >>> def command(run: str, *, limit: int = 3, json: bool = False) -> Iterator[str]:
        ...     yield run
        >>> parse(command, ["a/b", "--json"], name="show")
        {'run': 'a/b', 'limit': 3, 'json': True}
    """
    parser, whole = _parser(command, name)
    mappings = [name for kind in whole.values() for name in _mappings(kind)]
    shown = [action for action in parser._actions if action.help != SUPPRESS]
    options = [name[2:] for one in shown for name in one.option_strings if name.startswith("--")]
    words = [_joined(_underscored(word), mappings) for word in arguments]
    with tempfile.TemporaryDirectory() as folder:
        names = [action.dest for action in parser._actions]
        in_files = [name for name in options if name not in NO_VALUES]
        unknown = functools.partial(_no_option, options=in_files, mappings=mappings, name=name)
        words = list(checked_files(words, names, unknown, mappings=mappings, folder=Path(folder)))
        try:
            values = _parsed(parser, words, whole, mappings)
        except SystemExit:  # help and --print_config print and exit with success
            return None
        except ArgumentError as error:
            message = _in_one_sentence(str(error), options, mappings, _choices(command))
            raise ConfigError(f"{message}; see structattn {name} --help") from None
    found = {name: values[name] for name in inspect.signature(command).parameters if name not in whole}
    for name, kind in whole.items():
        found[name] = kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})
    return found


def _parsed(
    parser: jsonargparse.ArgumentParser, words: Sequence[str], whole: Mapping[str, Any], mappings: Sequence[str]
) -> Any:
    """The values of all options, with defaults that depend on other options."""
    values = parser.parse_args(words)
    for kind in whole.values():
        if hasattr(kind, "usual"):
            followed = inspect.signature(kind.usual).parameters
            parser.set_defaults(_flat(kind.usual(**{name: values[name] for name in followed})))
            values = parser.parse_args(words)
    for name in mappings:
        values[name] = _with_groups(values[name])
    return parser.instantiate(values)


def _underscored(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else word


def _mappings(kind: Any, section: str = "") -> Iterator[str]:
    """The fields of a configuration, and of its sections, that are mappings, such as the options of an encoder."""
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from _mappings(hint, f"{section}{name}.")
        elif get_origin(hint) is dict:
            yield section + name


def _joined(word: str, mappings: Sequence[str]) -> str:
    """``--options.group.name`` as one key of the mapping, as jsonargparse keeps only one name of each group."""
    option, equals, value = word.partition("=")
    for name in mappings:
        if option.startswith(f"--{name}."):
            key = option.removeprefix(f"--{name}.").replace(".", _IN_GROUP)
            return f"--{name}.{key}{equals}{value}"
    return word


def _with_groups(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A mapping with its joined keys split into groups again; they override the values that a file gives the group."""
    if values is None:
        return None
    found = {key: value for key, value in values.items() if _IN_GROUP not in key}
    for key, value in values.items():
        *groups, name = key.split(_IN_GROUP)
        place = found
        for group in groups:
            before = place.get(group)
            place[group] = dict(before) if isinstance(before, Mapping) else {}
            place = place[group]
        if groups:
            place[name] = value
    return found


def _parser(command: Callable[..., Iterator[str]], name: str) -> tuple[jsonargparse.ArgumentParser, dict[str, Any]]:
    types = get_type_hints(command)
    names = list(inspect.signature(command).parameters)
    whole = {name: types[name] for name in names if dataclasses.is_dataclass(types[name])}
    flags = [name for name in names if types[name] is bool]
    lists = [name for name in names if types[name] == list[str]]
    summary = (inspect.getdoc(command) or "").split("\n\n")[0]
    parser = jsonargparse.ArgumentParser(
        prog=f"structattn {name}",
        description=summary,
        exit_on_error=False,
        allow_abbrev=False,
        formatter_class=Formatter,
    )
    helps = _helps(command)
    for name in lists:
        parser.add_argument(name, nargs="+", type=str, help=helps.get(name))
    for name, kind in whole.items():
        if name == "config":
            parser.add_argument(
                "--config",
                action=jsonargparse.ActionConfigFile,  # type: ignore[attr-defined]
                help="a YAML file with any of the options below; later wins",
            )
        sections = kind.usual() if hasattr(kind, "usual") else {}
        own = {field.name for field in dataclasses.fields(kind)} & {*names, *sections}
        parser.add_class_arguments(kind, as_group=False, as_positional=False, skip=own)
        for section, default in sections.items():
            parser.add_class_arguments(type(default), section)
        parser.set_defaults(_flat(sections))
    skip: set[str | int] = {*whole, *flags, *lists}
    parser.add_function_arguments(command, as_group=False, as_positional=True, skip=skip)
    for name in flags:
        parser.add_argument(f"--{name}", action="store_true", help=helps.get(name))
    arrange(parser)
    if completion.ASKED in os.environ:
        completion.complete_values(parser)
    return parser, whole


def _flat(sections: Mapping[str, Any]) -> dict[str, Any]:
    """The values of sections, each under the name of its option."""
    return {
        f"{section}.{name}": value
        for section, values in sections.items()
        for name, value in dataclasses.asdict(values).items()
    }


def _helps(command: Callable[..., Iterator[str]]) -> dict[str, str]:
    """Each parameter's sentence in the ``Args:`` of a Google-style docstring (jsonargparse reads the others itself)."""
    section = (inspect.getdoc(command) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _choices(command: Callable[..., Iterator[str]]) -> dict[str, str]:
    """The known values of each parameter that takes one of a few words."""
    hints = get_type_hints(command).items()
    return {name: ", ".join(get_args(hint)) for name, hint in hints if get_origin(hint) is Literal}


def _in_one_sentence(message: str, options: Sequence[str], mappings: Sequence[str], choices: Mapping[str, str]) -> str:
    """Rephrase jsonargparse's message for the command line, with the known names where one was unknown or missing."""
    message = explain(message, lambda name: _spelt(name, options))
    if whole := re.search(r"--([\w.]+): expected dict, got (.*)", message):
        return f"--{whole[1]}: expected its options as --{whole[1]}.NAME VALUE, got {whole[2]}"
    if required := re.search(r"arguments are required: (.*)", message):
        names = required[1].split(", ")
        values = [f"; known: {choices[name]}" for name in names if name in choices]
        return f"missing {', '.join(_spelt(name, options) for name in names)}{''.join(values)}"
    if inner := re.search(r"Group '([\w.]+)' does not accept option '([\w.]+)'", message):
        return _unknown(f"{inner[1]}.{inner[2]}", options, mappings)
    if words := re.search(r"unrecognized arguments: (?!--)(\S+)", message):
        return f"unexpected {words[1]!r}: names of options begin with --"
    unknown = (r"unrecognized arguments: --([\w.]+)", r"Option '([\w.]+)' is not", r"--([\w.]+) is no longer supported")
    outer = next(filter(None, (re.search(pattern, message) for pattern in unknown)), None)
    return _unknown(outer[1], options, mappings) if outer else message


def _spelt(name: str, options: Sequence[str]) -> str:
    """An option as it is typed, a positional as the help shows it."""
    return f"--{name}" if name in options else name.upper()


def _unknown(name: str, options: Sequence[str], mappings: Sequence[str] = ()) -> str:
    """The error for an unknown option, with the options of its group: those of ``--data``, say, or the outermost ones.

    It suggests an option of that name in another group, ``--optimization.epochs`` for ``--epochs``, and the right group
    for a misspelt one, ``--options.dim`` for ``--opitons.dim``. A name that resembles no known option may belong to the
    encoder: ``--options.dim`` for ``--dim``.
    """
    group, _, last = name.rpartition(".")
    groups = {option.rpartition(".")[0] for option in options} | set(mappings)
    if group not in groups and (meant_group := difflib.get_close_matches(group, groups, n=1)):
        if meant_group[0] in mappings:
            return f"unknown option --{name} (did you mean --{meant_group[0]}.{last}?)"
        group = meant_group[0]
    known = sorted(option for option in options if option.rpartition(".")[0] == group) or sorted(options)
    same = [option for option in options if option.rpartition(".")[2] == last]
    meant = [f"--{option}" for option in same or _similar(last, known) or _similar(last, options)]
    if not meant and not group and "options" in mappings:
        meant = [f"--options.{last}"]
    hint = f" (did you mean {' or '.join(meant)}?)" if meant else ""
    return f"unknown option --{name}{hint}; known: {', '.join('--' + option for option in known)}"


def _no_option(option: str, options: Sequence[str], mappings: Sequence[str], name: str) -> ConfigError:
    return ConfigError(f"{_unknown(option, options, mappings)}; see structattn {name} --help")


def _similar(last: str, options: Sequence[str]) -> list[str]:
    """The options whose name within their group is most similar, if any is."""
    close = difflib.get_close_matches(last, [option.rpartition(".")[2] for option in options], n=1)
    return [option for option in options if option.rpartition(".")[2] in close]
