"""What replacing a file and replacing a folder have in common: temporary names, errors, and locking."""

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

#: Errors of a write that does not fit or does not arrive; for an open file, the system reports them without its name.
UNWRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextlib.contextmanager
def naming_written(path: str | os.PathLike[str], temporary: Path | None = None) -> Iterator[None]:
    """Report a failed write in the block under the name that the caller knows.

    Args:
        path: the file or folder that is written.
        temporary: the name under which it is written until it is whole.

    Raises:
        OSError: with the path as its ``filename``, for a full disk and the like, and for errors about the temporary
            name.

    Example:
        >>> with naming_written("model"), open("/dev/full", "w") as stream:
        ...     _ = stream.write("a")
        Traceback (most recent call last):
        ...
        OSError: [Errno 28] No space left on device: 'model'
    """
    try:
        yield
    except OSError as error:
        is_unnamed = error.filename is None and error.errno in UNWRITTEN
        if error.errno is None or not (is_unnamed or (temporary is not None and error.filename == str(temporary))):
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error


def temporary_name(path: Path, ending: str) -> Path:
    """A hidden name beside a path that no other process uses, with an ending that identifies leftovers."""
    # Not the process id, which threads share, and which processes of two containers may share.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{ending}")


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process of this machine is in such a block for the same folder.

    On a file system that cannot lock a folder, nobody waits.
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
