"""Tab completion of commands, options and their values, through argcomplete.

The shell calls ``structattn`` with the line typed so far in the environment, and argcomplete completes it for an
argument parser. Each command has its own parser, so the words of the command are skipped, like those of ``python
script.py``.
"""

import argparse
import os
from collections.abc import Collection
from typing import Literal, get_args, get_origin

from structattn.errors import require

ASKED = "_ARGCOMPLETE"


def command_to_complete(commands: Collection[str]) -> list[str]:
    """The words of the command whose options are to be completed; if it has none yet, complete its name and exit.

    Args:
        commands: all commands; some have two words.

    Raises:
        MissingExtra: if argcomplete is not installed.
    """
    argcomplete = require("argcomplete", "completion")
    before = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = f"{before}|".split()[1:-1]  # the word at the cursor is not finished
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
    """Complete words where an option or argument takes one of a few, names of encoders and tasks, otherwise files.

    jsonargparse's own completion of values returns nothing where it has no words, which argcomplete treats as an
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
    """The names that an option takes from a table; none for other options."""
    if option == "encoder":
        from structattn.encoders.table import BUILDERS

        return BUILDERS
    if option == "task":
        from structattn.tasks import TASKS

        return TASKS
    return ()
