r"""Opening and replacing text files: gzip, encodings, and protection against half-written files.

The same rules hold for every reader, here and in ``data``: gzip is recognised by its first bytes, text is UTF-8, a line
ends at ``\n`` and nowhere else, and damage is reported with its true line.
"""

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from structattn.syntax.errors import ParseError

_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
_GZIP_MAGIC = b"\x1f\x8b"


@contextlib.contextmanager
def open_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    r"""Open a text file for reading: UTF-8 (a byte order mark is skipped), gzip or plain, lines end at ``\n`` only.

    Damage met inside the ``with`` block (bytes that are not UTF-8, a truncated gzip stream) becomes a ParseError with
    the line it is in.

    Args:
        path: file to read; it is taken as gzip when it starts with gzip's magic bytes, whatever its name.

    Yields:
        The open text stream.

    Raises:
        ParseError: if the file is missing, cannot be opened, is not UTF-8 or is damaged.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
        >>> with replace_text(path) as stream:
        ...     _ = stream.write("one\ntwo\n")
        >>> with open_text(path) as stream:
        ...     stream.read().split()
        ['one', 'two']
    """
    with _open_bytes(path) as binary:
        # A generator context manager sees what its body raises, so one place turns every kind of damage into an error.
        stream = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="\n")
        try:
            yield stream
        except (UnicodeDecodeError, *_DAMAGED) as error:
            damage = _find_damage(path)
            if damage is None:
                raise
            raise damage from error


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    r"""Stream the lines of a text file with their numbers.

    Args:
        path: file to read, gzip or plain.

    Yields:
        ``(line number from 1, line)``; the line comes without its ``\n`` and without a ``\r`` before it.

    Raises:
        ParseError: as ``open_text``.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt.gz"
        >>> with replace_text(path) as stream:
        ...     _ = stream.write("one\r\ntwo")
        >>> list(read_lines(path))
        [(1, 'one'), (2, 'two')]
    """
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            yield number, line.removesuffix("\n").removesuffix("\r")


@contextlib.contextmanager
def replace_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    r"""Write a text file so that readers see the old file or the whole new one, never a part.

    The text goes to a temporary name in the same folder, which is renamed when the ``with`` block ends well and
    removed when it raises. What is no plain file, such as ``/dev/stdout``, is written directly.

    Args:
        path: file to write; compressed when the name ends in ``.gz``.

    Yields:
        The open text stream.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> with replace_text(folder / "a.txt") as stream:
        ...     _ = stream.write("done\n")
        >>> [file.name for file in folder.iterdir()]
        ['a.txt']
    """
    target = Path(path).resolve()
    in_place = target.exists() and not target.is_file()
    written = target if in_place else target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(written, "wb") as raw:
            # No name and no time in the gzip header: the same text gives the same bytes.
            binary = gzip.GzipFile("", "wb", 6, raw, mtime=0) if target.suffix == ".gz" else raw
            with io.TextIOWrapper(cast(BinaryIO, binary), encoding="utf-8", newline="\n") as stream:
                yield stream
        if not in_place:
            os.replace(written, target)
    except BaseException:
        if not in_place:
            written.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _open_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    try:
        raw = open(path, "rb")  # noqa: SIM115 - closed below; only the opening itself is guarded here
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=path) from error
    with raw:
        if raw.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield raw


def _find_damage(path: str | os.PathLike[str]) -> ParseError | None:
    """Read the file again, line by line, to name the first line that cannot be read; None if all can."""
    if not Path(path).is_file():
        return None
    number = 0
    with _open_bytes(path) as binary:
        try:
            for line in binary:
                number += 1
                line.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"byte {error.start + 1} of the line is 0x{error.object[error.start]:02x}"
            return ParseError(f"expected UTF-8 text, but {place}", file=path, line=number)
        except _DAMAGED as error:
            return ParseError(f"expected a whole gzip file, but it is damaged: {error}", file=path, line=number + 1)
    return None
