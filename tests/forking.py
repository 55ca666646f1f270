"""Processes that start at once: forked from one that has imported the package, without the checks of the tests."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# The server starts with the first process and computes nothing itself, so that there are no threads to lose. It does
# not know transformers.
PRELOADED = [
    "pytest",
    "jsonargparse",
    "torch._dynamo",
    "structattn.cli.train",
    "structattn.parsing",
    "structattn.training",
]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOADED)


class Ended(NamedTuple):
    """A process that is no more: its exit code, minus the signal if one killed it, and what it wrote."""

    code: int | None
    out: str
    err: str


def run_forked(function: Callable[..., object], *arguments: Any) -> Ended:
    """Call a function of a module in a process of its own, in the present folder."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = CONTEXT.Process(target=_redirected, args=(out, err, os.getcwd(), function, arguments))
        process.start()
        process.join()
        ended = Ended(process.exitcode, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
        process.close()
    return ended


def _redirected(out: Path, err: Path, folder: str, function: Callable[..., object], arguments: Any) -> None:
    for descriptor, path in enumerate((out, err), start=1):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.chdir(folder)
    function(*arguments)
