"""Files and folders that appear whole or not at all, and folders that only one process at a time writes to."""

import contextlib
import errno
import fcntl
import glob
import gzip
import io
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from structattn.errors import ConfigError
from structattn.files.urls import check_local, is_remote, remote_files

#: Errors of a write that does not fit or does not arrive; for an open file, the system reports them without its name.
UNWRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

ASIDE = ".replaced"
"""The folder with the content of a claimed folder that was set aside."""
_LOCK, _MOVING = "lock", ".moving"
# What a process that was killed leaves behind; other hidden files are the user's.
_LEFTOVER = re.compile(r"\.(?P<name>.+?)(\.[0-9a-f]+)?\.(?P<kind>tmp|new|old)")


@contextlib.contextmanager
def naming_written(path: str | os.PathLike[str], temporary: Path | None = None) -> Iterator[None]:
    """Report a failed write in the block under the name that the caller gave, for example on a full disk.

    The system reports such an error without a name, or with the temporary one.
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


@contextlib.contextmanager
def replace_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Write a text file so that readers see the old one or the whole new one; compressed if it ends in ``.gz``."""
    with replace_bytes(path) as raw:
        # No name and no time in the gzip header: the same text gives the same bytes.
        binary = gzip.GzipFile("", "wb", 6, raw, mtime=0) if os.fspath(path).endswith(".gz") else raw
        with io.TextIOWrapper(cast(BinaryIO, binary), encoding="utf-8", newline="\n") as stream:
            try:
                yield stream
            except UnicodeEncodeError as error:
                half = error.object[error.start]
                raise ConfigError(f"{path}: expected characters to write, got half of a pair, {half!r}") from None


@contextlib.contextmanager
def replace_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a binary file under a temporary name beside it, which is renamed once the block succeeds.

    Anything but a plain file, such as ``/dev/stdout``, is written directly; ``s3://`` and the like go through fsspec.
    """
    if is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "copy")
            with open(copy, "wb") as raw:
                yield raw
            with remote_files(path, "write") as (files, name):
                files.makedirs(name.rpartition("/")[0] or "/", exist_ok=True)
                files.put_file(copy, name)
        return
    target = Path(os.path.realpath(path))  # for circular links, Path.resolve would fail without naming the path
    in_place = os.path.exists(target) and not target.is_file()
    written = target if in_place else temporary_name(target, "tmp")
    try:
        with naming_written(path, written):
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as stack:
                with open(written, "wb") as raw:
                    if not in_place:
                        stack.callback(os.close, _mark_written(raw))
                    yield raw
                if not in_place:
                    os.replace(written, target)
    except BaseException:
        if not in_place:
            with contextlib.suppress(OSError):  # there may be none; the first error is the one to report
                written.unlink()
        raise


def _mark_written(raw: BinaryIO) -> int:
    """Lock a temporary file until the returned handle is closed, so that nobody takes it for an abandoned one."""
    handle = os.dup(raw.fileno())
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


@contextlib.contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Write a folder under a temporary name and put it in place when the ``with`` block succeeds; the last writer wins.

    One that is killed between the two renamings leaves the previous folder under the name ``.<name>.old``.
    """
    path = _replaceable(check_local(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = temporary_name(path, "new"), path.with_name(f".{path.name}.old")
    with naming_written(path, temporary):
        temporary.mkdir()
    try:
        with naming_written(path):
            yield temporary
        if not _move(temporary, path):
            with alone_in(path.parent):
                while not _move(temporary, path):
                    remove(old)
                    path.rename(old)
                remove(old)
    except BaseException:
        remove(temporary)
        with alone_in(path.parent):
            if old.exists() and not path.exists():
                old.rename(path)
        raise


def _move(folder: Path, path: Path) -> bool:
    """Rename a folder, unless a file or a folder with content has that name."""
    try:
        folder.rename(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        return False
    return True


def _replaceable(path: Path) -> Path:
    """The path with a proper name; a process whose working folder is replaced could no longer find any file."""
    path = path if path.name not in ("", "..") else path.resolve()
    with contextlib.suppress(FileNotFoundError):  # it may have been removed already
        if path.is_dir() and Path.cwd().is_relative_to(path.resolve()):
            raise ConfigError(f"{path}: expected a folder that can be replaced, got one that this process works in")
    return path


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; it is created if missing, and removed again if nothing was written.

    The lock is the kernel's, so it ends with the process, however that ends; its file only names the owner.
    """
    folder = check_local(folder)
    created = [missing for missing in (folder, *folder.parents) if not missing.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / _LOCK
    handle = _lock(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)
        with contextlib.suppress(OSError):
            for empty in created or [folder]:
                empty.rmdir()


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


def list_content(folder: Path) -> set[str]:
    """The names of the files and folders in a claimed folder, apart from its lock and what was set aside."""
    return {item.name for item in folder.iterdir()} - {_LOCK, ASIDE, _MOVING} if folder.exists() else set()


def clear_content(folder: Path) -> None:
    """Remove everything in a claimed folder but what was set aside."""
    for name in list_content(folder):
        remove(folder / name)


def set_content_aside(folder: Path) -> None:
    """Make a claimed folder empty; ``settle_content`` puts its content back or removes it."""
    if content := list_content(folder):
        moving = folder / _MOVING
        moving.mkdir()
        for name in content:
            (folder / name).rename(moving / name)
        moving.rename(folder / ASIDE)


def settle_content(folder: Path, *, stays: bool) -> None:
    """Remove what was set aside if the present content stays; otherwise put it back in place of the present content."""
    aside, moving = folder / ASIDE, folder / _MOVING
    if aside.exists() and stays:
        remove(aside)
    elif aside.exists():
        clear_content(folder)
        aside.rename(moving)
    if moving.exists():
        for item in list(moving.iterdir()):
            item.rename(folder / item.name)
        moving.rmdir()


def remove_abandoned(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes left beside a file which they were writing."""
    target = Path(os.path.realpath(path))
    if is_remote(path) or not target.is_file():
        return
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        match = _LEFTOVER.fullmatch(leftover.name)
        if match is None or match["name"] != target.name:
            continue
        # One that is still being written is locked.
        with contextlib.suppress(OSError), open(leftover, "rb") as raw:
            fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a process that was killed, and put a folder back that it was replacing."""
    for leftover in list(folder.glob(".*")):
        match = _LEFTOVER.fullmatch(leftover.name)
        if match is None:
            continue
        if match["kind"] == "old" and not (folder / match["name"]).exists():
            leftover.rename(folder / match["name"])
        else:
            remove(leftover)
