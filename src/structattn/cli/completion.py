"""Tab completion of commands, options and their values, through argcomplete.

The shell calls ``structattn`` with the line typed so far in the environment, and argcomplete completes it for an
argument parser. Each command has its own parser, so the words of the command are skipped, like those of ``python
script.py``.
"""

import argparse
import os
from collections.abc import Callable, Collection
from typing import Any, Literal, get_args, get_origin

from structattn.cli.arguments import Command, Signature
from structattn.errors import require


def complete(commands: Collection[str], function: Callable[[str], Command]) -> None:
    """Complete the word at the cursor, and exit: the name of a command, or the options of the command before it."""
    before_cursor = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = f"{before_cursor}|".split()[1:-1]  # the word at the cursor is not finished
    for size in (2, 1):
        name = " ".join(words[:size])
        if len(words) >= size and name in commands:
            _complete(_parser(Signature(function(name), name)), skip=size)
    parser = argparse.ArgumentParser(prog="structattn", add_help=False)
    next_words = {name.split()[len(words)] for name in commands if name.split()[: len(words)] == words}
    parser.add_argument("command", choices=sorted(next_words))
    _complete(parser, skip=len(words))


def _complete(parser: argparse.ArgumentParser, *, skip: int) -> None:
    argcomplete = require("argcomplete", "completion")
    os.environ["_ARGCOMPLETE"] = str(1 + skip)
    argcomplete.autocomplete(parser)
    raise SystemExit(0)


def _parser(signature: Signature) -> argparse.ArgumentParser:
    """A parser with the options of a command, each with what completes its value."""
    completers = require("argcomplete.completers", "completion")
    parser = argparse.ArgumentParser(prog="structattn", allow_abbrev=False)
    for name in (*signature.positionals, *signature.options, *signature.sections):
        if name == "help":
            continue
        if name in (*signature.flags, "print_config"):
            parser.add_argument(f"--{name}", action="store_true")
            continue
        hint = signature.types.get(name, str)
        if name in signature.positionals:
            action = parser.add_argument(name, nargs="+" if hint == list[str] else "?")
        else:
            action = parser.add_argument(f"--{name}")
        words = _words(name, hint)
        completer = completers.ChoicesCompleter(words) if words else completers.FilesCompleter()
        action.completer = completer  # type: ignore[attr-defined]
    return parser


def _words(name: str, hint: Any) -> list[str]:
    """The words that an option takes: one of a few, or the names of a table; none if it takes anything."""
    kinds = (hint, *get_args(hint))
    words = [str(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if bool in kinds:
        words += ["true", "false"]
    if name == "encoder":
        from structattn.encoders.encoder_table import BUILDERS

        words += sorted(BUILDERS)
    if name == "task":
        from structattn.tasks import TASKS

        words += sorted(TASKS)
    return words
