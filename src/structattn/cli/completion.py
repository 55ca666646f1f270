"""Names of commands, options and their values for the Tab key, through argcomplete.

The shell calls ``structattn`` with the line as far as it is typed in the environment, and argcomplete answers for an
argument parser. Each command has one of its own, so the words of the command are skipped, as those of ``python
script.py`` are.
"""

import argparse
import os
from collections.abc import Collection
from typing import Literal, get_args, get_origin

from structattn.syntax.errors import require

ASKED = "_ARGCOMPLETE"


def command_to_complete(commands: Collection[str]) -> list[str]:
    """The words of the command whose options are to be completed; without one, answers with its name and exits.

    Args:
        commands: all commands; some have two words.

    Raises:
        MissingExtra: if argcomplete is not installed.
    """
    argcomplete = require("argcomplete", "completion")
    before = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = f"{before}|".split()[1:-1]  # what the cursor stands at is not finished
    for size in (2, 1):
        if len(words) >= size and " ".join(words[:size]) in commands:
            os.environ[ASKED] = str(1 + size)
            return words[:size]
    known = sorted({name.split()[len(words)] for name in commands if name.split()[: len(words)] == words})
    parser = argparse.ArgumentParser(prog="structattn", add_help=False)
    parser.add_argument("command", choices=known)
    os.environ[ASKED] = str(1 + len(words))
    argcomplete.autocomplete(parser)
    raise SystemExit(0)


def complete_values(parser: argparse.ArgumentParser) -> None:
    """Words where an option or argument takes one of a few, names of the tables for encoders and tasks, else files.

    jsonargparse's own completion of values answers nothing where it finds no words, which argcomplete takes for an
    error.
    """
    completers = require("argcomplete.completers", "completion")
    files = completers.FilesCompleter()
    for action in parser._actions:
        hint = getattr(action, "_typehint", str)
        kinds = (hint, *get_args(hint))
        words = [str(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        if bool in kinds:
            words += ["true", "false"]
        words += sorted(_names(action.dest))
        action.completer = completers.ChoicesCompleter(words) if words else files  # type: ignore[attr-defined]


def _names(option: str) -> Collection[str]:
    """The names that an option takes from a table; none for another option."""
    if option == "encoder":
        from structattn.encoders.table import BUILDERS

        return BUILDERS
    if option == "task":
        from structattn.tasks import TASKS

        return TASKS
    return ()
