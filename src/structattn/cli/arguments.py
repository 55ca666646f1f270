"""From a command's typed signature to its options: positional parameters, keyword-only options, flags for booleans.

``jsonargparse`` reads the types and the docstring; what it lacks is added here: boolean flags, a positional that
repeats, groups among the options of an encoder, files that are checked before they are read, and one plain sentence per
mistake.
"""

import contextlib
import dataclasses
import difflib
import inspect
import os
import re
import sys
import tempfile
from argparse import ArgumentError
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from structattn.cli.command_help import help_formatter
from structattn.errors import ConfigError, naming
from structattn.files.json_yaml import read_yaml, write_yaml
from structattn.options.checking import explain
from structattn.options.sections import check_sections

Command = Callable[..., Iterator[str]]

# Options that request an action or name a file themselves: a file cannot set them.
_WITHOUT_VALUE = ("config", "help", "print_config")


class Signature:
    """The parameters of a command, with the fields of its configurations in place of these."""

    def __init__(self, command: Command, name: str) -> None:
        self.command = command
        self.name = name
        parameters, hints = inspect.signature(command).parameters, get_type_hints(command)
        #: Parameters whose type is a dataclass, with these types.
        self.configurations = {name: hints[name] for name in parameters if dataclasses.is_dataclass(hints[name])}
        self.positionals = [
            name
            for name, parameter in parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name not in self.configurations
        ]
        #: The type of each positional and each option, by its name: ``seed``, ``data.train``.
        self.types: dict[str, Any] = {}
        for kind in self.configurations.values():
            sections = {section: type(default) for section, default in _usual_sections(kind).items()}
            self.types |= dict(_fields(get_type_hints(kind) | sections))
        self.types |= {name: hints[name] for name in parameters if name not in self.configurations}
        #: Options that take names with values, as in ``--options.dim 48``.
        self.mappings = [name for name, hint in self.types.items() if get_origin(hint) is dict]
        self.flags = [name for name in parameters if hints[name] is bool]
        #: What comes before the dot in names of options; each may be read from a file.
        self.sections = list(dict.fromkeys(name.rpartition(".")[0] for name in self.types if "." in name))
        self.options = ["help", *(("config", "print_config") if "config" in self.configurations else ())]
        self.options += [name for name in self.types if name not in self.positionals]


def _usual_sections(kind: Any) -> Mapping[str, Any]:
    """The default sections of a configuration for which they depend on other options."""
    return kind.usual() if hasattr(kind, "usual") else {}


def _fields(hints: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """The names and types of a configuration's options."""
    for name, hint in hints.items():
        if dataclasses.is_dataclass(hint):
            yield from _fields(get_type_hints(hint), f"{section}{name}.")
        else:
            yield section + name, hint


def parse(command: Command, arguments: Sequence[str], *, name: str) -> dict[str, Any] | None:
    """The arguments that a command's function is called with; ``None`` if only help or a configuration is printed.

    A ``list[str]`` takes one or more words. A parameter ``config`` also adds ``--config FILE``. If the class of a
    configuration has a function ``usual``, that gives the defaults of its sections, which may depend on other fields. A
    function ``expand`` beside the command replaces the words first.
    """
    signature = Signature(command, name)
    parser = _make_parser(signature)
    origins: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, _naming_file(origins):
        expand = getattr(sys.modules[command.__module__], "expand", list)
        words = list(_checked_words(expand(list(map(_underscored, arguments))), signature, Path(folder), origins))
        try:
            values = _parse_words(parser, words, signature)
        except SystemExit:  # help and --print_config print and exit with success
            return None
        except ArgumentError as error:
            raise _see_help(_in_one_sentence(str(error), signature), signature) from None
        result = {name: values[name] for name in inspect.signature(command).parameters if name in signature.types}
        for name, kind in signature.configurations.items():
            result[name] = kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})
    return result


@contextlib.contextmanager
def _naming_file(origins: Mapping[str, str]) -> Iterator[None]:
    """Put the file that an option comes from before an error that begins with its name."""
    try:
        yield
    except ConfigError as error:
        option = re.match(r"(?:--)?([\w.]+): ", str(error))
        if option is None or option[1] not in origins:
            raise
        raise ConfigError(f"{origins[option[1]]}: {str(error).removeprefix('--')}") from None


def _make_parser(signature: Signature) -> Any:
    import jsonargparse

    parser = jsonargparse.ArgumentParser(
        prog=f"structattn {signature.name}",
        description=(inspect.getdoc(signature.command) or "").split("\n\n")[0],
        exit_on_error=False,
        allow_abbrev=False,
        formatter_class=help_formatter(signature.types),
    )
    helps = _parameter_helps(signature.command)
    parameters = inspect.signature(signature.command).parameters
    lists = [name for name in parameters if signature.types.get(name) == list[str]]
    for name in lists:
        parser.add_argument(name, nargs="+", type=str, help=helps.get(name))
    for name, kind in signature.configurations.items():
        if name == "config":
            parser.add_argument(
                "--config",
                action=jsonargparse.ActionConfigFile,  # type: ignore[attr-defined]
                help="a YAML file with any of the options below; later wins",
            )
        sections = _usual_sections(kind)
        apart = {field.name for field in dataclasses.fields(kind)} & {*parameters, *sections}
        parser.add_class_arguments(kind, as_group=False, as_positional=False, skip=apart)
        for section, default in sections.items():
            parser.add_class_arguments(type(default), section)
        parser.set_defaults(_by_option(sections))
    skip: set[str | int] = {*signature.configurations, *signature.flags, *lists}
    parser.add_function_arguments(signature.command, as_group=False, as_positional=True, skip=skip)
    for name in signature.flags:
        parser.add_argument(f"--{name}", action="store_true", help=helps.get(name))
    return parser


def _parse_words(parser: Any, words: Sequence[str], signature: Signature) -> Any:
    """The values of all options, with defaults that depend on other options."""
    for kind in signature.configurations.values():
        if hasattr(kind, "usual"):
            try:
                values = parser.parse_args([word for word in words if not word.startswith("--print_config")])
            except ArgumentError:  # which is raised again below
                continue
            followed = inspect.signature(kind.usual).parameters
            parser.set_defaults(_by_option(kind.usual(**{name: values[name] for name in followed})))
    return parser.instantiate(parser.parse_args(words))


def _underscored(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else word


def _by_option(sections: Mapping[str, Any]) -> dict[str, Any]:
    """The values of sections, each under the name of its option."""
    return {
        f"{section}.{name}": value
        for section, values in sections.items()
        for name, value in dataclasses.asdict(values).items()
    }


def _parameter_helps(command: Command) -> dict[str, str]:
    """Each parameter's sentence in the ``Args:`` of a Google-style docstring (jsonargparse reads the others itself)."""
    section = (inspect.getdoc(command) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _checked_words(words: Sequence[str], signature: Signature, folder: Path, origins: dict[str, str]) -> Iterator[str]:
    """The words for jsonargparse, with a checked copy in place of each file, and each group of a mapping as a whole.

    The file of each option that comes from one is added to ``origins``.
    """
    # A copy has the values that were checked, and a pipe can be read only once. Of a group, as in
    # `--options.GROUP.NAME VALUE`, jsonargparse would keep only the last name.
    sections = {"--config": "", **{f"--{section}": f"{section}." for section in signature.sections}}
    mappings: dict[str, Mapping[str, Any]] = {name: {} for name in signature.mappings}
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        option, equals, value = word.partition("=")
        mapping = next((name for name in mappings if f"{option}.".startswith(f"--{name}.")), None)
        has_value = equals or (waiting and not waiting[-1].startswith("--"))  # jsonargparse refuses it otherwise
        if not has_value or (option not in sections and mapping is None):
            origins.pop(option.removeprefix("--"), None)
            yield word
            continue
        value = value if equals else waiting.pop()
        if mapping is not None:
            key, (_, hint) = option.removeprefix(f"--{mapping}"), get_args(signature.types[mapping])
            mappings[mapping], value = _set_in_mapping(mappings[mapping], key, value, hint)
            yield f"{'.'.join(option.split('.')[: mapping.count('.') + 2])}={value}"
            continue
        values = _checked_values(value, option, sections[option], signature)
        origins |= dict.fromkeys(_list_names(values, sections[option]), value)
        for name in mappings:
            if name.startswith(sections[option]):
                mappings[name] = _setting(values, name.removeprefix(sections[option])) or mappings[name]
        copy = folder / f"{len(os.listdir(folder))}.yaml"
        write_yaml(copy, values)
        yield f"{option}={copy}"


def _set_in_mapping(values: Mapping[str, Any], key: str, text: str, hint: Any) -> tuple[Mapping[str, Any], str]:
    """The values of a mapping with one more, and the text of what it changes: a value, or the whole of a group.

    ``key`` is ``.NAME``, ``.GROUP.NAME`` and so on; it is empty for the mapping itself. ``hint`` is the type of values.
    """
    import jsonargparse
    import yaml

    reader = jsonargparse.ArgumentParser(exit_on_error=False)
    reader.add_argument("--value", type=hint)
    value = reader.parse_args([f"--value={text}"]).value
    if not key:
        return value if isinstance(value, Mapping) else {}, text
    _, *names = key.split(".")
    values = _updated(values, names, value)
    if len(names) > 1:
        text = yaml.safe_dump(values[names[0]], default_flow_style=True, sort_keys=False, width=float("inf")).strip()
    return values, text


def _updated(values: Mapping[str, Any], names: Sequence[str], value: Any) -> dict[str, Any]:
    first, *inner = names
    if not inner:
        return {**values, first: value}
    group = values.get(first)
    return {**values, first: _updated(group if isinstance(group, Mapping) else {}, inner, value)}


def _list_names(values: Mapping[str, Any], section: str) -> Iterator[str]:
    """The dotted names of the values of a file."""
    for key, value in values.items():
        yield f"{section}{key}"
        if isinstance(value, Mapping):
            yield from _list_names(value, f"{section}{key}.")


def _setting(values: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The mapping that a configuration has under a dotted name."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            if key == name:
                return value
            if name.startswith(f"{key}."):
                return _setting(value, name.removeprefix(f"{key}."))
    return None


def _checked_values(file: str, option: str, section: str, signature: Signature) -> dict[str, Any]:
    """The values of a file of ``--config`` or of a section."""
    path, names = os.path.expanduser(file), list(signature.types)
    if section and not os.path.exists(path):
        inner = ", ".join(f"--{name}" for name in names if name.startswith(section))
        raise ConfigError(
            f"{option}: expected one of its options, or a YAML file of them, got {file!r}; known: {inner}"
        )
    values = read_yaml(path)
    options = [name for name in signature.options if name not in _WITHOUT_VALUE]

    def refuse(name: str) -> ConfigError:
        return _see_help(_unknown(name, options, signature.mappings), signature)

    with naming(path):
        check_sections(values, names, refuse, mappings=signature.mappings, section=section)
    return values


def _see_help(message: str, signature: Signature) -> ConfigError:
    return ConfigError(f"{message}; see structattn {signature.name} --help")


def _in_one_sentence(message: str, signature: Signature) -> str:
    """Rephrase jsonargparse's message for the command line, with the known names where one was unknown or missing."""
    message = explain(message, lambda name: _spell(name, signature))
    if whole := re.search(r"--([\w.]+): expected dict, got (.*)", message):
        return f"--{whole[1]}: expected its options as --{whole[1]}.NAME VALUE, got {whole[2]}"
    if required := re.search(r"arguments are required: (.*)", message):
        names = required[1].split(", ")
        choices = [f"; known: {', '.join(words)}" for name in names if (words := _choices(signature.types.get(name)))]
        return f"missing {', '.join(_spell(name, signature) for name in names)}{''.join(choices)}"
    if inner := re.search(r"Group '([\w.]+)' does not accept option '([\w.]+)'", message):
        return _unknown(f"{inner[1]}.{inner[2]}", signature.options, signature.mappings)
    if word := re.search(r"unrecognized arguments: (?!--)(\S+)", message):
        return f"unexpected {word[1]!r}: names of options begin with --"
    unknown = (r"unrecognized arguments: --([\w.]+)", r"Option '([\w.]+)' is not", r"--([\w.]+) is no longer supported")
    outer = next(filter(None, (re.search(pattern, message) for pattern in unknown)), None)
    return _unknown(outer[1], signature.options, signature.mappings) if outer else message


def _choices(hint: Any) -> list[str]:
    """The words that an option of this type takes, if it takes one of a few."""
    return [str(word) for word in get_args(hint)] if get_origin(hint) is Literal else []


def _spell(name: str, signature: Signature) -> str:
    """An option as it is typed, a positional as the help shows it."""
    return f"--{name}" if name in signature.options else name.upper()


def _unknown(name: str, options: Sequence[str], mappings: Sequence[str] = ()) -> str:
    """The error for an unknown option, with the options of its group, or the outermost ones.

    It suggests that name in another group, or in a group of a similar name, or else as an option of the encoder.
    """
    group, _, last = name.rpartition(".")
    groups = {option.rpartition(".")[0] for option in options} | set(mappings)
    if group not in groups and (similar_groups := difflib.get_close_matches(group, groups, n=1)):
        if similar_groups[0] in mappings:
            return f"unknown option --{name} (did you mean --{similar_groups[0]}.{last}?)"
        group = similar_groups[0]
    listed = sorted(option for option in options if option.rpartition(".")[0] == group) or sorted(options)
    namesakes = [option for option in options if option.rpartition(".")[2] == last]
    suggestions = [f"--{option}" for option in namesakes or _similar(last, listed) or _similar(last, options)]
    if not suggestions and not group and "options" in mappings:
        suggestions = [f"--options.{last}"]
    hint = f" (did you mean {' or '.join(suggestions)}?)" if suggestions else ""
    return f"unknown option --{name}{hint}; known: {', '.join('--' + option for option in listed)}"


def _similar(last: str, options: Sequence[str]) -> list[str]:
    """The options whose name within their group is most similar, if any is."""
    close = difflib.get_close_matches(last, [option.rpartition(".")[2] for option in options], n=1)
    return [option for option in options if option.rpartition(".")[2] in close]
