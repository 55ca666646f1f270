"""What replacing a file and replacing a folder have in common: names, errors, and one after the other."""

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def named_when_full(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name what is written within the block when the disk is full, as the system does not say it of an open file.

    Raises:
        OSError: with the path as its ``filename``.

    Example:
        >>> with named_when_full("model"), open("/dev/full", "w") as stream:
        ...     _ = stream.write("a")
        Traceback (most recent call last):
        ...
        OSError: [Errno 28] No space left on device: 'model'
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path)) from error


def temporary_name(path: Path, ending: str) -> Path:
    """A hidden name beside a path that no other process uses, with an ending by which leftovers are known."""
    # Not the process's number, which threads share, and so may processes of two containers.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{ending}")


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process of this machine is in such a block for the same folder.

    A file system that cannot lock a folder lets everybody in.
    """
    handle = None
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
