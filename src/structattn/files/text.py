r"""Text files and streams: gzip, encodings, limits, and protection against half-written files.

The same rules hold for every reader, here and in ``data``: gzip is recognised by its first bytes, text is UTF-8, a line
ends at ``\n`` and nowhere else, and damage is reported with the right line number. Files may be untrusted, so the
memory and time that reading one takes are limited, far beyond the needs of real data.
"""

import codecs
import contextlib
import gzip
import io
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from structattn.errors import ConfigError, ParseError, shown
from structattn.files.remote import is_remote, remote_files
from structattn.files.replacing import naming_written, temporary_name

Source = str | os.PathLike[str] | io.IOBase | BinaryIO | TextIO
"""A path, or an open stream such as ``sys.stdin``."""

MAX_LINE = 5_000_000
"""Bytes of one line; also of one JSON file that this library has written itself."""
MAX_FILE = 100_000_000
"""Bytes, unpacked, of a file that is read as a whole, such as SQuAD's or a vocabulary."""
MAX_BLANK_LINES = 1_000_000
"""Lines without any text that follow each other."""
MAX_WORDS = 100_000
"""Words of one tree, CoNLL-U sentence, document or story."""
MAX_BRACKETS = 4 * MAX_WORDS
"""Opening brackets of one tree."""
MAX_PHRASE_WORDS = 4 * MAX_WORDS
"""Words of all phrases of one tree together, where each becomes an example."""
MAX_FACTS = 5_000
"""Lines of one story: every question is read with the whole story before it."""

_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
_GZIP_MAGIC, _PARQUET_MAGIC = b"\x1f\x8b", b"PAR1"
_PACKED = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_BLOCK = 1 << 18


def read_lines(source: Source) -> Iterator[tuple[int, str]]:
    r"""Stream the lines of a text file with their numbers; a byte order mark is skipped.

    Args:
        source: a file or stream, gzip or plain; it is taken as gzip when it starts with gzip's magic bytes.

    Yields:
        ``(line number from 1, line)``; the line comes without its ``\n`` and without a ``\r`` before it.

    Raises:
        ParseError: if the file is missing or cannot be opened; with the line, if it is not UTF-8, damaged, longer than
            ``MAX_LINE``, or the last of more than ``MAX_BLANK_LINES`` blank ones.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt.gz"
        >>> with replace_text(path) as stream:
        ...     _ = stream.write("one\r\ntwo")
        >>> list(read_lines(path))
        [(1, 'one'), (2, 'two')]
        >>> list(read_lines(io.StringIO("three\n")))
        [(1, 'three')]
    """
    number = blank = 0
    for text in _whole_lines(source):
        for line in text.split("\n"):
            number += 1
            if line and not line.isspace():
                blank = 0
            elif (blank := blank + 1) > MAX_BLANK_LINES:
                message = f"expected text after {MAX_BLANK_LINES:,} blank lines, got one more"
                raise ParseError(message, file=source, line=number)
            yield number, line.removesuffix("\r")


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is neither a folder nor Parquet nor a file whose first line can be read; pipes are left alone.

    Raises:
        ParseError: as ``read_lines``.
    """
    if not os.path.isdir(path) and not is_pipe(path) and not is_parquet(path):
        next(read_lines(path), None)


def check_apart(*paths: str | os.PathLike[str] | None) -> None:
    """Refuse to write into a file that is read, or two results into one file.

    Args:
        paths: the paths that are read and written; ``None`` is skipped.

    Raises:
        ConfigError: if two paths are the same file, even under different names.

    Example:
        >>> check_apart("a.txt", "b.txt")
        >>> check_apart("a.txt", "./a.txt")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: ./a.txt: expected another file than a.txt
    """
    known: dict[str, str | os.PathLike[str]] = {}
    for path in paths:
        if path is None:
            continue
        place = os.path.realpath(path)
        if os.path.exists(place) and not os.path.isfile(place):
            continue  # a terminal or a pipe loses nothing
        if place in known:
            raise ConfigError(f"{os.fspath(path)}: expected another file than {os.fspath(known[place])}")
        known[place] = path


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Whether a path can be read only once: a pipe, a terminal, or ``/dev/stdin`` unless redirected from a file.

    Example:
        >>> is_pipe("/dev/null"), is_pipe(__file__), is_pipe("missing.txt")
        (True, False, False)
    """
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def read_text(source: Source, *, max_bytes: int | None = None) -> str:
    """The whole text of a file or stream, read as ``read_lines`` does.

    Args:
        source: a file or stream, gzip or plain.
        max_bytes: its maximum size in bytes, unpacked; ``MAX_FILE`` if ``None``.

    Raises:
        ParseError: as ``read_lines``, or if the text is larger.
    """
    max_bytes = MAX_FILE if max_bytes is None else max_bytes
    with open_bytes(source) as stream, _whole_gzip(source):
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ParseError(f"expected at most {max_bytes:,} bytes, got more", file=source)
    return _decoded(content.removeprefix(codecs.BOM_UTF8), source, 1)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: if it is not JSON, is nested so deeply that Python cannot read it, or contains half of a surrogate
            pair, which cannot be encoded.

    Example:
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
        ...
        ValueError: it is nested too deeply
    """
    text = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(text)
        # Two halves side by side have become one character; only an escape can leave one alone.
        if _HALF.search(text) and not is_unicode(json.dumps(value, ensure_ascii=False)):
            raise ValueError("it has half of a surrogate pair, which is not a character")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def is_unicode(text: str) -> bool:
    r"""Whether every character can be encoded; half of a surrogate pair, as in text cut within an escape, cannot.

    Example:
        >>> is_unicode("\N{GRINNING FACE}"), is_unicode("\ud83d")
        (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_parquet(source: Source) -> bool:
    """Whether a file or stream begins like a Parquet file.

    Raises:
        ParseError: if it is missing, cannot be opened, or is gzip that is damaged at its beginning.
    """
    with open_bytes(source) as stream, _whole_gzip(source):
        return stream.peek(4)[:4] == _PARQUET_MAGIC


@contextlib.contextmanager
def open_bytes(source: Source) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a file for reading, unpacked if it is gzip; a stream stays open afterwards.

    Raises:
        ParseError: if the file is missing or cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(source, str) and is_remote(source):
            with remote_files(source) as (files, name):
                raw = stack.enter_context(io.BufferedReader(files.open(name, "rb")))
        elif isinstance(source, str | os.PathLike):
            try:
                raw = stack.enter_context(open(source, "rb"))
            except (OSError, ValueError) as error:  # a name with a null character is a ValueError
                reason = (isinstance(error, OSError) and error.strerror) or error
                raise ParseError(f"cannot read this file: {reason}", file=source) from None
        else:
            raw = _buffered(source)
            if raw is not getattr(source, "buffer", source):
                stack.callback(raw.detach)
        if raw.peek(2)[:2] == _GZIP_MAGIC:
            unpacked = stack.enter_context(gzip.GzipFile(fileobj=raw, mode="rb"))
            yield unpacked
        else:
            yield raw


@contextlib.contextmanager
def replace_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    r"""Write a text file so that readers see the old file or the whole new one, never a part.

    The text goes to a temporary file in the same folder, which is renamed when the ``with`` block succeeds and removed
    when it raises. Anything but a plain file, such as ``/dev/stdout``, is written directly.

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
    with replace_bytes(path) as raw:
        # No name and no time in the gzip header: the same text gives the same bytes.
        binary = gzip.GzipFile("", "wb", 6, raw, mtime=0) if os.fspath(path).endswith(".gz") else raw
        with io.TextIOWrapper(cast(BinaryIO, binary), encoding="utf-8", newline="\n") as stream:
            yield stream


@contextlib.contextmanager
def replace_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a binary file so that readers see the old file or the whole new one, as ``replace_text`` does.

    Args:
        path: file to write, in a folder that is created if it is missing; ``s3://`` and the like go through fsspec,
            once the file is whole.

    Yields:
        The open stream.
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
            with open(written, "wb") as raw:
                yield raw
        if not in_place:
            os.replace(written, target)
    except BaseException:
        if not in_place:
            with contextlib.suppress(OSError):  # there may be none; the first error is the one to report
                written.unlink()
        raise


def _whole_lines(source: Source) -> Iterator[str]:
    """The text in blocks of whole lines, without the line end of the last one."""
    rest, number = b"", 1
    with open_bytes(source) as stream:
        block = _next_block(stream, source, number).removeprefix(codecs.BOM_UTF8)
        while block:
            rest += block
            first = rest.find(b"\n")
            if (first if first >= 0 else len(rest)) > MAX_LINE:
                came = f"{first:,}" if first >= 0 else f"at least {len(rest):,}"
                start = shown(rest[:200].decode("utf-8", "replace"), width=40)
                message = f"expected lines of at most {MAX_LINE:,} bytes, got one of {came} that begins {start}"
                raise ParseError(message, file=source, line=number)
            if first >= 0:
                lines, _, rest = rest.rpartition(b"\n")
                yield _decoded(lines, source, number)
                number += lines.count(b"\n") + 1
            block = _next_block(stream, source, number)
        if rest:
            yield _decoded(rest, source, number)


def _next_block(stream: io.BufferedReader | gzip.GzipFile, source: Source, number: int) -> bytes:
    with _whole_gzip(source, number):
        return stream.read1(_BLOCK)


@contextlib.contextmanager
def _whole_gzip(source: Source, line: int | None = None) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise ParseError(f"expected a whole gzip file, but it is damaged: {error}", file=source, line=line) from None


def _decoded(lines: bytes, source: Source, number: int) -> str:
    """The text of lines, the first of which has this number."""
    try:
        return lines.decode()
    except UnicodeDecodeError as error:
        number += lines.count(b"\n", 0, error.start)
        place = error.start - lines.rfind(b"\n", 0, error.start)
        byte = lines[error.start]
        message = f"expected UTF-8 text, but byte {place} of the line is 0x{byte:02x}; "
        if lines.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            message += "this is UTF-16: iconv -f UTF-16 -t UTF-8 converts it"
        elif number == 1 and (packed := [name for magic, name in _PACKED.items() if lines.startswith(magic)]):
            message += f"this is a {packed[0]} file: only gzip is read compressed"
        else:
            character = bytes([byte]).decode("windows-1252", errors="replace")
            message += f"{character!r} in Windows-1252 and Latin-1: iconv -f WINDOWS-1252 -t UTF-8 converts these"
        raise ParseError(message, file=source, line=number) from None


def _buffered(stream: io.IOBase | BinaryIO | TextIO) -> io.BufferedReader:
    binary = getattr(stream, "buffer", stream)
    if isinstance(binary, io.StringIO):
        binary = io.BytesIO(binary.read().encode())
    return binary if isinstance(binary, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, binary))
