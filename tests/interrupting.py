"""Runs that are interrupted at a checkpoint, in this process or by the kernel."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from forking import run_forked
from structattn import training
from structattn.cli import main
from structattn.training import loop


class Interrupted(BaseException):
    """What ends a run."""


@contextlib.contextmanager
def interrupted(*, after: int) -> Iterator[None]:
    """A run within stops dead once it has written this many checkpoints."""
    save, saved = loop._Loop._save, 0

    def counted(self: loop._Loop) -> None:
        nonlocal saved
        save(self)
        saved += 1
        if saved == after:
            raise Interrupted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop._Loop, "_save", counted)
        with pytest.raises(Interrupted):
            yield


# Where a process is killed: when a checkpoint is in place, while it is written, or before it gets its name.
MOMENTS = ("after", "while writing", "before renaming")


def kill_at(command: Sequence[str], *, checkpoint: int, moment: str) -> None:
    """Run a command in a process that is killed with signal 9 at a checkpoint."""
    died = run_forked(_until_killed, list(command), checkpoint, moment)
    assert died.code == -signal.SIGKILL, died.err


def _until_killed(command: list[str], checkpoint: int, moment: str) -> None:
    save, replace, saved = loop._Loop._save, os.replace, 0

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def half(*_: object, **__: object) -> Iterator[bytes]:
        yield b"half"
        die()

    def replaced(path: Path, target: Path) -> None:
        if target.name == "checkpoint.safetensors":
            die()
        replace(path, target)

    def counted(self: loop._Loop) -> None:
        nonlocal saved
        saved += 1
        if saved == checkpoint and moment == "while writing":
            training.checkpoint.serialise = half
        if saved == checkpoint and moment == "before renaming":
            os.replace = replaced
        save(self)
        if saved == checkpoint and moment == "after":
            die()

    loop._Loop._save = counted
    main(command)
