"""From the words after ``structattn`` to an exit code: the one place that prints results and errors.

A command yields lines; they are the results and go to stdout. Whatever else is printed while it runs is a log and
goes to stderr, so a pipe never reads a progress bar. Nothing heavy is imported before a command runs.
"""

import contextlib
import errno
import importlib
import json
import logging
import os
import re
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from structattn import __version__
from structattn.entry_points import entry_points
from structattn.files.progress import LogHandler
from structattn.files.text import escape_controls

# The commands of structattn itself; installed packages add theirs by entry points in the group structattn.commands.
COMMANDS = {
    "demo": "train a plain and two structured encoders on a generated treebank, compare them, draw their attention",
    "train": "train an encoder on a task and write a run folder",
    "eval": "evaluate a trained run on a file",
    "calibrate": "fit the probabilities of a trained classifier to data, and choose when it answers",
    "predict": "predict the examples of a file, one JSON line each",
    "export": "export a trained classifier as one torch.export program that runs without this package",
    "compare": "compare runs: mean and deviation over seeds, paired bootstrap, the examples that flipped",
    "explore": "edit the trees of a sentence in a browser and watch a trained run's heads and predictions",
    "serve": "serve a trained run over HTTP: predictions, trees and attention as JSON",
    "plot": "draw the attention of a trained run on one sentence: SVG, PNG, PDF or one HTML page",
    "phrases": "measure how much of a trained model's attention goes to phrases, against uniform attention",
    "score": "score words by a causal language model: surprisal, perplexity, minimal pairs",
    "convert": "convert treebanks and examples between Parquet, JSON lines, CoNLL-U and brackets",
    "parse": "parse raw text into CoNLL-U, by a parser of your choice",
    "parser train": "train a dependency parser of your own on a treebank",
    "parser splitter": "teach a parser how a treebank splits raw text into sentences and words",
    "parser eval": "measure attachment scores and speed of a parser on a treebank",
    "parser compare": "compare two parsers on a treebank: significance, each relation, trees side by side",
    "describe": "describe treebanks: sizes, lengths, depth, projectivity, relations",
    "hydra pretrain": "pretrain HYDRA heads on a frozen backbone to score a relation; writes an adapter folder",
    "hydra eval": "evaluate HYDRA heads on a treebank, and measure their drift in fine-tuning",
    "curve": "train on more and more of the data, and draw how good a system gets",
    "sweep": "search for the best options of a run, in a given number of trials",
    "list": "list the names that options take: encoders, tasks, data formats, metrics, relations, ...",
    "doctor": "show versions, devices, extras and kernels of this installation",
}
OURS, YOURS, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
_FILE_MISTAKES = {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS}
_FILE_MISTAKES |= {errno.ENAMETOOLONG, errno.ELOOP}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: the words after ``structattn``; by default those of this process.

    Returns:
        0 if all went well, 2 for a user error, 1 for an internal one, 130 after Ctrl-C, 141 if the reader of
        stdout went away (128 + the signal's number, as in shells).

    Example:
        >>> main(["--version"])
        structattn 0.1.0
        0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "_ARGCOMPLETE" in os.environ:
        importlib.import_module("structattn.cli.completion").complete(all_commands(), _import_command)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the shell; a file opened now takes its number
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open
    debug = "--debug" in words or os.environ.get("STRUCTATTN_DEBUG") == "1"
    try:
        return _run([word for word in words if word != "--debug"])
    except KeyboardInterrupt as interrupt:
        _report("; ".join(["structattn: interrupted", *getattr(interrupt, "__notes__", ())]))
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:  # every error becomes one line and a code here, and nowhere else
        if debug:
            traceback.print_exc()
        code, message = _judge(error)
        line = escape_controls(f"structattn: error: {_as_typed(' '.join(message.split()), words)}")
        _report(line)
        _tell_torchrun(line)
        return code


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"structattn {__version__}")
        return 0
    commands = all_commands()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(commands), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else YOURS
    name, *options = arguments
    if options and f"{name} {options[0]}" in commands:
        name, *options = f"{name} {options[0]}", *options[1:]
    if name not in commands:
        group = {command: summary for command, summary in commands.items() if command.startswith(f"{name} ")}
        if group and options and options[0] in ("-h", "--help"):
            print(_usage(group))
            return 0
        _report(escape_controls(f"structattn: error: {_unknown_command(name, options, group or commands)}"))
        return YOURS
    if "WORLD_SIZE" in os.environ:
        # torch, not imported yet, would warn in each process that this batch used all parameters; the next may not.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    command = _import_command(name)
    values = importlib.import_module("structattn.cli.arguments").parse(command, options, name=name)
    if values is None:
        return 0
    results, is_shown = sys.stdout, sys.stdout.isatty()
    if sys.__stdout__ is None:
        _report("structattn: warning: stdout is closed, so results are lost")
    with contextlib.redirect_stdout(sys.stderr), _logs_on_stderr():
        for line in command(**values):
            results.write((escape_controls(line) if is_shown else line) + "\n")
            results.flush()
    return 0


def all_commands() -> dict[str, str]:
    """The summary of every command; installed packages are named by those that they bring."""
    installed = {name: f"(of {entry.package})" for name, entry in entry_points("commands").items()}
    return COMMANDS | {name: source for name, source in installed.items() if name not in COMMANDS}


def _import_command(name: str) -> Callable[..., Iterator[str]]:
    """The function of a command."""
    address = f"structattn.cli.{name.replace(' ', '_')}_command:command"
    if name not in COMMANDS:
        address = entry_points("commands")[name].address
    module, _, function = address.partition(":")
    command: Callable[..., Iterator[str]] = getattr(importlib.import_module(module), function)
    return command


@contextlib.contextmanager
def _logs_on_stderr() -> Iterator[None]:
    logger, handler = logging.getLogger("structattn"), LogHandler(sys.stderr)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _judge(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and its message in one line."""
    from structattn.errors import StructAttnError
    from structattn.files.replacing import UNWRITTEN

    if isinstance(error, StructAttnError):
        return YOURS, str(error)
    if isinstance(error, OSError) and error.errno in _FILE_MISTAKES | UNWRITTEN and error.filename is not None:
        return YOURS, f"{error.filename}: {(error.strerror or str(error)).lower()}"
    if isinstance(error, OSError) and error.errno in UNWRITTEN:  # a stream that was open already has no name
        return YOURS, (error.strerror or str(error)).lower()
    is_shown = os.environ.get("STRUCTATTN_DEBUG") == "1"
    if position := _find_your_code(error):
        hint = "" if is_shown else "; --debug shows the traceback"
        return YOURS, f"{type(error).__name__}: {error} ({position}{hint})"
    hint = "" if is_shown else " (this is a bug in structattn; --debug shows where)"
    return OURS, f"{type(error).__name__}: {error}{hint}"


def _as_typed(message: str, words: Sequence[str]) -> str:
    """A message with the names of options of columns as this command takes them."""
    if "_column" not in message or not words or words[0] not in all_commands():
        return message
    module = importlib.import_module("structattn.cli.arguments")
    for option in module.Signature(_import_command(words[0]), words[0]).options:
        if (name := option.rpartition(".")[2]).endswith("_column"):
            message = re.sub(rf"(?<![-.\w]){name}(?![\w=])", f"--{option}", message)
    return message


def _find_your_code(error: Exception) -> str | None:
    """Where an error left code that is neither ours nor installed, such as an encoder ``module:function``."""
    paths = sysconfig.get_paths()
    installed = [Path(__file__).parents[1], *(Path(paths[name]) for name in ("stdlib", "purelib", "platlib"))]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_file() and not any(file.is_relative_to(folder) for folder in installed):
            return f"{frame.filename}, line {frame.lineno}"
    return None


def _report(line: str) -> None:
    """A line on stderr; the exit code stays what it is where stderr cannot be written to."""
    try:
        print(line, file=sys.stderr)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - Python flushes it at exit


def _tell_torchrun(line: str) -> None:
    """Under torchrun, write the message that ends its report of a failed process, in place of a link to its pages."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file is not None:
        message = {"message": line, "extraInfo": {"timestamp": str(int(time.time()))}}
        Path(file).write_text(json.dumps({"message": message}), encoding="utf-8")


def _unknown_command(name: str, options: Sequence[str], commands: Mapping[str, str]) -> str:
    """The error for a command that does not exist, or for a group such as ``hydra`` without one."""
    from structattn.options.checking import suggest

    is_group = all(command.startswith(f"{name} ") for command in commands)
    names = ", ".join(commands)
    if is_group and not options:
        return f"expected a command after {name!r}, got none; known: {names}"
    typed = f"{name} {options[0]}" if is_group else name
    return f"unknown command {typed!r}{suggest(typed, commands)}; known: {names}"


def _usage(commands: Mapping[str, str]) -> str:
    """The help of all commands, or of a group such as ``hydra``."""
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in commands.items()]
    return "\n".join(
        [
            "usage: structattn COMMAND [OPTION...]",
            "",
            "Structure-guided attention: word order, distance, syntax trees and latent structure.",
            "",
            *lines,
            "",
            "structattn COMMAND --help shows the options of a command; in their names - and _ are interchangeable.",
            "--version prints the version; --debug (or STRUCTATTN_DEBUG=1) shows a traceback when a command fails.",
        ]
    )
