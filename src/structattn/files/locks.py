"""Folders that only one process at a time writes to."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from structattn.errors import ConfigError


@contextlib.contextmanager
def claimed(folder: Path, name: str = "lock") -> Iterator[None]:
    """Lock a folder for this process.

    The folder is created if missing, with the folders above it. If nothing was written, it is removed again, and so are
    the folders above it that were created. The lock is the kernel's, so it ends with the process, however that ends;
    its file only names the owner.

    Args:
        folder: the folder.
        name: of the file within it.

    Raises:
        ConfigError: if another process holds it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "new" / "run"
        >>> with claimed(folder):
        ...     [file.name for file in folder.iterdir()]
        ['lock']
        >>> folder.parent.exists()
        False
    """
    created = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / name
    handle = _lock(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)
        with contextlib.suppress(OSError):
            for place in created or [folder]:
                place.rmdir()


def _lock(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 32).decode().strip()
            os.close(handle)
            raise ConfigError(f"{path.parent} is in use by process {owner}") from None
        # Its last owner may have removed the file between the two calls; a lock on a removed file protects nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == os.fstat(handle).st_ino:
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        os.close(handle)
