"""Runs that are interrupted at a checkpoint, in this process or by the kernel."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


# Where a process is killed: when a checkpoint is in place, while its files are written, or between the two renamings.
MOMENTS = ("after", "while writing", "between renamings")
_KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, {tests!r})
from structattn.training import loop

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

save, number = loop._Loop._save, 0

def counted(self):
    global number
    number += 1
    if number == {checkpoint}:
        if {moment!r} == "while writing":
            loop.save_optimizer = die
        if {moment!r} == "between renamings":
            rename = pathlib.Path.rename
            def renamed(path, target):
                if path.name == ".latest.new":
                    die()
                return rename(path, target)
            pathlib.Path.rename = renamed
    save(self)
    if number == {checkpoint}:
        die()

loop._Loop._save = counted
{code}
"""


def kill_at(code: str, *, checkpoint: int, moment: str) -> None:
    """Run code in a process that is killed with signal 9 at a checkpoint."""
    tests = str(Path(__file__).parent)
    text = _KILLED.format(tests=tests, checkpoint=checkpoint, moment=moment, code=code)
    died = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=os.environ, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
