"""The help of a command: one line of usage, the usual options first, names and defaults without full types."""

import re
import shutil
from argparse import SUPPRESS, Action
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import jsonargparse

# Commands with this many options show those of `USUAL` first.
MANY = 25
USUAL = (
    *("help", "config", "task", "encoder", "options", "backbone", "adapter", "train", "dev"),
    *("data.train", "data.dev", "data.test", "data.text_column", "data.label_column", "data.vectors"),
    *("optimization.epochs", "optimization.batch_size", "optimization.learning_rate", "seed", "seeds", "out", "resume"),
)
_KINDS = {int: "INT", float: "FLOAT"}


class Formatter(jsonargparse.DefaultHelpFormatter):
    """Show the type only of an option that takes a number or one of a few words, and the default only if it has one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("width", shutil.get_terminal_size(fallback=(100, 24)).columns - 2)
        super().__init__(*arguments, **options)

    def _get_help_string(self, action: Action) -> str:
        default = action.default
        is_shown = default not in (None, SUPPRESS) and default is not False and default != {}
        said = ["default: %(default)s"] if is_shown else []
        if action.required and action.option_strings:
            said = ["required"]
        text = (action.help or "").rstrip(".")
        return f"{text} ({said[0]})" if said else text

    def _get_default_metavar_for_optional(self, action: Action) -> str:
        hint = getattr(action, "_typehint", None)
        kinds = {_KINDS[part] for part in (hint, *get_args(hint)) if part in _KINDS}
        if len(kinds) == 1 and str not in get_args(hint):
            return kinds.pop()
        return str(action.dest.rsplit(".")[-1].upper())

    def _format_action_invocation(self, action: Action) -> str:
        if is_mapping(action):
            return f"--{action.dest}.NAME VALUE"
        text: str = super()._format_action_invocation(action)
        return text


def is_mapping(action: Action) -> bool:
    """Whether an option takes names with values, as ``--options.dim 48`` does."""
    return get_origin(getattr(action, "_typehint", None)) in (dict, Mapping)


def arrange(parser: jsonargparse.ArgumentParser) -> None:
    """Shorten the usage, hide what only configuration files need, and put the usual options first."""
    for action in parser._actions:
        if isinstance(action.help, str):
            # Docstrings mark code with backquotes, and say None where a command line omits the option.
            action.help = re.sub(r"\bif\s+None\b", "by default", action.help.replace("``", ""))
        if action.dest == "print_config":
            action.help = "print the configuration and exit; =skip_default leaves out defaults"
        if type(action).__name__ == "_ActionConfigLoad":  # a section from a file of its own
            action.help = SUPPRESS
    shown = [action for action in parser._actions if action.help != SUPPRESS]
    words = [_words(action) for action in shown if action.required or not action.option_strings]
    parser.usage = " ".join([parser.prog, *words, "[OPTION...]"])
    if len(shown) > MANY:
        _move(parser, {action.dest: action for action in shown})


def _words(action: Action) -> str:
    if action.option_strings:
        return f"{action.option_strings[0]} {action.dest.rsplit('.')[-1].upper()}"
    name = action.dest if action.metavar is None else str(action.metavar)
    return f"{name} [{name} ...]" if action.nargs == "+" else name if action.required else f"[{name}]"


def _move(parser: jsonargparse.ArgumentParser, actions: Mapping[str, Action]) -> None:
    """Move the usual options into a group of their own; argparse uses groups only to print help, not to parse."""
    usual = parser.add_argument_group("usual options")
    chosen = [actions[name] for name in USUAL if name in actions]
    for group in parser._action_groups:
        group._group_actions = [one for one in group._group_actions if one not in chosen]
    usual._group_actions = chosen
    first, *others = parser._action_groups[:-1]
    parser._action_groups = [first, usual, *others]
    parser._optionals.title = "further options"
