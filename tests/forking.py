"""Processes that start at once: forked from one that has imported the package, without the checks of the tests."""

import importlib
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

# The server starts with the first process and computes nothing itself, so that there are no threads to lose. It does
# not know transformers.
PRELOADED = [
    "pytest",
    "jsonargparse",
    "torch._dynamo",
    "structattn.cli.train_command",
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
    (ended,) = _run(CONTEXT, [(os.getcwd(), function, arguments)])
    return ended


Run = Callable[[Callable[..., object], Sequence[tuple[Any, ...]]], list[Ended]]


@contextmanager
def forking_after(*modules: str) -> Iterator[Run]:
    """A process that has imported more: what it forks at a time are calls of one function."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_serve, args=(theirs, modules))
    process.start()
    theirs.close()

    def run(function: Callable[..., object], arguments: Sequence[tuple[Any, ...]]) -> list[Ended]:
        ours.send([(os.getcwd(), function, words) for words in arguments])
        ended: list[Ended] = ours.recv()
        return ended

    try:
        yield run
    finally:
        ours.close()
        process.join()
        process.close()


def _serve(connection: Connection, modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)
    while True:
        try:
            calls = connection.recv()
        except EOFError:
            return
        connection.send(_run(multiprocessing.get_context("fork"), calls))


def _run(context: Any, calls: Sequence[tuple[Any, ...]]) -> list[Ended]:
    with tempfile.TemporaryDirectory() as folder:
        files = [(Path(folder) / f"out{number}", Path(folder) / f"err{number}") for number in range(len(calls))]
        processes = [
            context.Process(target=_redirected, args=(*own, *call)) for own, call in zip(files, calls, strict=True)
        ]
        for process in processes:
            process.start()
        ended = []
        for process, (out, err) in zip(processes, files, strict=True):
            process.join()
            ended.append(Ended(process.exitcode, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")))
            process.close()
    return ended


def _redirected(out: Path, err: Path, folder: str, function: Callable[..., object], arguments: Any) -> None:
    for descriptor, path in enumerate((out, err), start=1):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.chdir(folder)
    function(*arguments)
