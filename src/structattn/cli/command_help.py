"""The help of a command: one line of usage, the usual options first, names and defaults without full types."""

import copy
import re
import shutil
from argparse import SUPPRESS, Action, HelpFormatter
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

# Commands with this many options show those of `USUAL` first.
MANY = 25
USUAL = (
    *("help", "config", "task", "encoder", "options", "backbone", "adapter", "train", "dev"),
    *("data.train", "data.dev", "data.test", "data.text_column", "data.label_column", "data.vectors"),
    *("optimization.epochs", "optimization.batch_size", "optimization.learning_rate", "seed", "seeds", "out", "resume"),
)
_NUMBERS = {int: "INT", float: "FLOAT"}


def help_formatter(types: Mapping[str, Any]) -> type[HelpFormatter]:
    """The formatter for a command whose positionals and options have these types."""
    sections = {name.rpartition(".")[0] for name in types}  # an option of this name reads a file: it is left out

    def is_shown(action: Action) -> bool:
        return action.help != SUPPRESS and action.dest not in sections

    class Formatter(HelpFormatter):
        """Shows the type only of an option that takes a number, and the default only if there is one."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            options.setdefault("width", shutil.get_terminal_size(fallback=(100, 24)).columns - 2)
            super().__init__(*arguments, **options)
            self.usual: list[Action] = []

        def add_usage(self, usage: Any, actions: Iterable[Action], groups: Any, prefix: str | None = None) -> None:
            shown = [_shown(action, types) for action in actions if is_shown(action)]
            words = [_usage_word(action) for action in shown if action.required or not action.option_strings]
            if len(shown) > MANY:
                by_name = {action.dest: action for action in shown}
                self.usual = [by_name[name] for name in USUAL if name in by_name]
            super().add_usage(" ".join(["%(prog)s", *words, "[OPTION...]"]), [], [], prefix)

        def start_section(self, heading: str | None) -> None:
            if heading == "options" and self.usual:
                super().start_section("usual options")
                super().add_arguments(self.usual)
                super().end_section()
                heading = "further options"
            super().start_section(heading)

        def add_arguments(self, actions: Iterable[Action]) -> None:
            usual = {action.dest for action in self.usual}
            shown = [action for action in actions if is_shown(action) and action.dest not in usual]
            super().add_arguments([_shown(action, types) for action in shown])

    return Formatter


def _shown(action: Action, types: Mapping[str, Any]) -> Action:
    """An option with its name and its text as the help shows them."""
    shown, hint = copy.copy(action), types.get(action.dest)
    # Docstrings mark code with backquotes, and say None where a command line omits the option.
    text = re.sub(r"\bif\s+None\b", "by default", (action.help or "").replace("``", "")).rstrip(".")
    if action.dest == "print_config":
        text = "print the configuration and exit; =skip_default leaves out defaults"
    if action.required and action.option_strings:
        text += " (required)"
    elif action.default not in (None, SUPPRESS, {}) and action.default is not False:
        text += " (default: %(default)s)"
    shown.help = text
    if get_origin(hint) is dict:
        shown.option_strings, shown.metavar = [f"--{action.dest}.NAME"], "VALUE"
    elif action.option_strings and action.metavar is None and action.nargs != 0:
        parts = (hint, *get_args(hint))
        numbers = {_NUMBERS[part] for part in parts if part in _NUMBERS}
        last = action.dest.rpartition(".")[2].upper()
        shown.metavar = numbers.pop() if len(numbers) == 1 and str not in parts else last
    return shown


def _usage_word(action: Action) -> str:
    if action.option_strings:
        return f"{action.option_strings[0]} {action.dest.rpartition('.')[2].upper()}"
    name = action.dest if action.metavar is None else str(action.metavar)
    return f"{name} [{name} ...]" if action.nargs == "+" else name if action.required else f"[{name}]"
