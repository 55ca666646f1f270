r"""Reading text files and streams, here or on other file systems: gzip, encodings, limits.

The same rules hold for every reader, here and in ``data``: gzip is recognised by its first bytes, text is UTF-8, a line
ends at ``\n`` and nowhere else, and damage is reported with the right line number. Files may be untrusted, so the
memory and time that reading one takes are limited, far beyond the needs of real data.
"""

import codecs
import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

from structattn.errors import ConfigError, ParseError, shown
from structattn.files.urls import is_remote, remote_files

#: A path, or an open stream such as ``sys.stdin``.
Source = str | os.PathLike[str] | io.IOBase | BinaryIO | TextIO

MAX_LINE = 5_000_000
"""Bytes of one line; also of one JSON file that this library has written itself."""
MAX_FILE = 100_000_000
"""Bytes, unpacked, of a file that is read as a whole, such as a vocabulary."""
_FIRST_LINES = 20
MAX_BLANK_LINES = 1_000_000
"""Lines without any text that follow each other."""
MAX_WORDS = 100_000
"""Words of one tree, CoNLL-U sentence, document or story."""
MAX_BRACKETS = 4 * MAX_WORDS
"""Opening brackets of one tree."""
MAX_PHRASE_WORDS = 4 * MAX_WORDS
"""Words of all phrases of one tree together, where each becomes an example."""

_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
_GZIP_MAGIC, _PARQUET_MAGIC = b"\x1f\x8b", b"PAR1"
_PACKED = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_BLOCK = 1 << 18
_ESCAPE = "surrogateescape"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_VISIBLE = re.compile(r"[^\s\u00ad\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")


def read_lines(source: Source, *, escape: bool = False) -> Iterator[tuple[int, str]]:
    r"""Stream the lines of a text file, without their ends ``\n`` or ``\r\n``, and their numbers from 1.

    Args:
        source: a path, also of a gzip file or of a remote one such as ``hf://...``, or an open stream. A byte order
            mark is skipped.
        escape: whether bytes that are not UTF-8 are escaped (``surrogateescape``) rather than refused, by a reader
            that refuses only its items that contain them, with ``check_lines``.

    Raises:
        ParseError: with file and line: for a file that cannot be read, is damaged or not UTF-8, a line of more than
            ``MAX_LINE`` bytes, or more than ``MAX_BLANK_LINES`` blank lines.

    Example:
        >>> list(read_lines(io.BytesIO(b"a fine film\r\n\nso dull")))
        [(1, 'a fine film'), (2, ''), (3, 'so dull')]
    """
    with open_bytes(source) as stream:
        yield from _split_lines(stream, source, escape=escape)


def check_lines(source: object, *lines: tuple[int, str]) -> None:
    """Refuse numbered lines in which ``read_lines`` has escaped a byte, which the ``ParseError`` names."""
    for number, line in lines:
        if not (line.isascii() or is_unicode(line)):
            _decode(line.encode(errors=_ESCAPE), source, number)


def _split_lines(
    stream: io.BufferedReader | gzip.GzipFile, source: Source, *, escape: bool
) -> Iterator[tuple[int, str]]:
    number = blank = 0
    for text, is_whole in _read_blocks(stream, source):
        for line in text.split("\n"):
            number += 1
            if not is_whole and (not escape or (number == 1 and _name_other(line.encode(errors=_ESCAPE)))):
                check_lines(source, (number, line))
            if line and not line.isspace():
                blank = 0
            elif (blank := blank + 1) > MAX_BLANK_LINES:
                message = f"expected text after {MAX_BLANK_LINES:,} blank lines, got one more"
                raise ParseError(message, file=source, line=number)
            yield number, line.removesuffix("\r")


class FileStart(NamedTuple):
    """How a file begins: whether it is Parquet, and otherwise its first lines."""

    is_parquet: bool
    lines: tuple[str, ...] = ()

    @property
    def line(self) -> str | None:
        """The first line that is not blank, ``None`` without any."""
        return next((line for line in self.lines if line.strip()), None)


def read_start(path: str | os.PathLike[str], *, is_recorded: bool = False) -> FileStart:
    """How a file begins; refuses one whose first lines cannot be read.

    Whoever records the ``checksum`` of the file later says so, and it is read only once for both.
    """
    with open_bytes(path) as stream, _naming_gzip(path):
        lines: list[str] = []
        is_parquet = stream.peek(4)[:4] == _PARQUET_MAGIC
        for _, line in () if is_parquet else _split_lines(stream, path, escape=True):
            lines.append(line)
            if len(lines) >= _FIRST_LINES and line.strip():
                break
        if is_recorded and not is_remote(path):
            raw = cast(io.BufferedReader, stream.fileobj if isinstance(stream, gzip.GzipFile) else stream)
            raw.seek(0)
            _CHECKSUMS[_version(path)] = hashlib.file_digest(raw, "sha256").hexdigest()
    return FileStart(is_parquet, tuple(lines))


def checksum(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the bytes of a file, which is not read again unless it has changed."""
    version = _version(path)
    if version not in _CHECKSUMS:
        with open(path, "rb") as stream:
            _CHECKSUMS[version] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _CHECKSUMS[version]


#: The checksums of the files that this process has read, by name, size and time of change.
_CHECKSUMS: dict[tuple[str, int, int], str] = {}


def _version(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    status = os.stat(path)
    return os.path.abspath(path), status.st_size, status.st_mtime_ns


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose first lines cannot be read; folders and pipes pass."""
    if not os.path.isdir(path) and not is_pipe(path):
        read_start(path)


def check_apart(*paths: str | os.PathLike[str] | None) -> None:
    """Refuse two paths that are the same file, even under different names: it would be written while it is read."""
    names: dict[str, str | os.PathLike[str]] = {}
    for path in paths:
        if path is None:
            continue
        target = os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):
            continue  # a terminal or a pipe loses nothing
        if target in names:
            raise ConfigError(f"{os.fspath(path)}: expected another file than {os.fspath(names[target])}")
        names[target] = path


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Whether a path can be read only once: a pipe, a terminal, or ``/dev/stdin`` unless redirected from a file."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def read_text(source: Source, *, max_bytes: int | None = None) -> str:
    """The whole text of a file or stream, gzip or plain.

    Args:
        source: as ``read_lines`` takes it.
        max_bytes: the largest size, unpacked; ``MAX_FILE`` if ``None``.

    Raises:
        ParseError: for a file that cannot be read, is damaged, not UTF-8 or larger.

    Example:
        >>> read_text(io.BytesIO(b"so dull"))
        'so dull'
    """
    max_bytes = MAX_FILE if max_bytes is None else max_bytes
    with open_bytes(source) as stream, _naming_gzip(source):
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ParseError(f"expected at most {max_bytes:,} bytes, got more", file=source)
    return _decode(content.removeprefix(codecs.BOM_UTF8), source, 1)


def parse_json(text: str | bytes, *, halves: bool = False) -> Any:
    """The value of a JSON text.

    A ``ValueError`` also says that Python cannot read such depth, or that half of a surrogate pair, unless ``halves``
    are accepted, cannot be encoded.
    """
    text = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(text)
        if not halves and has_halves(text, value):
            raise ValueError("it has half of a surrogate pair, which is not a character")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def has_halves(text: str, value: Any) -> bool:
    """Whether half of a surrogate pair is in the value of a JSON text; two side by side are one character."""
    return not (_HALF.search(text) is None and is_unicode(text)) and not is_unicode(
        json.dumps(value, ensure_ascii=False)
    )


def is_blank(line: str) -> bool:
    """Whether a line shows nothing: it has spaces and zero-width characters only."""
    return _VISIBLE.search(line) is None


def escape_controls(text: str) -> str:
    """The text with what could control a terminal as escapes, such as ``\\x1b``; tabs and line ends stay."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def is_unicode(text: str) -> bool:
    """Whether every character can be encoded; half of a surrogate pair, as in text cut within an escape, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_parquet(source: Source) -> bool:
    """Whether a file or stream begins like a Parquet file."""
    with open_bytes(source) as stream, _naming_gzip(source):
        return stream.peek(4)[:4] == _PARQUET_MAGIC


@contextlib.contextmanager
def open_bytes(source: Source) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a file for reading, unpacked if it is gzip; a stream stays open afterwards."""
    with contextlib.ExitStack() as stack:
        if is_remote(source):
            with remote_files(cast(str, source)) as (files, name):
                raw = stack.enter_context(io.BufferedReader(files.open(name, "rb")))
        elif isinstance(source, str | os.PathLike):
            try:
                raw = stack.enter_context(open(source, "rb"))
            except (OSError, ValueError) as error:  # a name with a null character is a ValueError
                reason = (isinstance(error, OSError) and error.strerror) or error
                raise ParseError(f"cannot read this file: {reason}", file=source) from None
        else:
            raw = _buffer(source)
            if raw is not getattr(source, "buffer", source):
                stack.callback(lambda: None if raw.closed else raw.detach())
        if raw.peek(2)[:2] == _GZIP_MAGIC:
            unpacked = stack.enter_context(gzip.GzipFile(fileobj=raw, mode="rb"))
            yield unpacked
        else:
            yield raw


def _read_blocks(stream: io.BufferedReader | gzip.GzipFile, source: Source) -> Iterator[tuple[str, bool]]:
    """Text in blocks of whole lines, without the line end of the last one, and whether all of its bytes are UTF-8."""
    pending, number = b"", 1
    block = _read_block(stream, source, number).removeprefix(codecs.BOM_UTF8)
    while block:
        pending += block
        first = pending.find(b"\n")
        if (first if first >= 0 else len(pending)) > MAX_LINE:
            came = f"{first:,}" if first >= 0 else f"at least {len(pending):,}"
            start = shown(pending[:200].decode("utf-8", "replace"), width=40)
            message = f"expected lines of at most {MAX_LINE:,} bytes, got one of {came} that begins {start}"
            raise ParseError(message, file=source, line=number)
        if first >= 0:
            lines, _, pending = pending.rpartition(b"\n")
            yield _decode_block(lines)
            number += lines.count(b"\n") + 1
        block = _read_block(stream, source, number)
    if pending:
        yield _decode_block(pending)


def _decode_block(lines: bytes) -> tuple[str, bool]:
    try:
        return lines.decode(), True
    except UnicodeDecodeError:
        return lines.decode(errors=_ESCAPE), False


def _read_block(stream: io.BufferedReader | gzip.GzipFile, source: Source, number: int) -> bytes:
    with _naming_gzip(source, number):
        return stream.read1(_BLOCK)


@contextlib.contextmanager
def _naming_gzip(source: Source, line: int | None = None) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise ParseError(f"expected a whole gzip file, but it is damaged: {error}", file=source, line=line) from None


def _decode(lines: bytes, source: object, number: int) -> str:
    """The text of lines, the first of which has this number."""
    try:
        return lines.decode()
    except UnicodeDecodeError as error:
        number += lines.count(b"\n", 0, error.start)
        column = error.start - lines.rfind(b"\n", 0, error.start)
        byte = lines[error.start]
        message = f"expected UTF-8 text, but byte {column} of the line is 0x{byte:02x}; "
        other = _name_other(lines) if number == 1 else ""
        if other:
            message += other
        else:
            character = bytes([byte]).decode("windows-1252", errors="replace")
            message += f"{character!r} in Windows-1252 and Latin-1: iconv -f WINDOWS-1252 -t UTF-8 converts these"
        raise ParseError(message, file=source, line=number) from None


def _name_other(start: bytes) -> str:
    """What a file is that begins like another encoding or a compressed file; empty for text."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "this is UTF-16: iconv -f UTF-16 -t UTF-8 converts it"
    packed = [name for magic, name in _PACKED.items() if start.startswith(magic)]
    return f"this is a {packed[0]} file: only gzip is read compressed" if packed else ""


def _buffer(stream: io.IOBase | BinaryIO | TextIO) -> io.BufferedReader:
    binary = getattr(stream, "buffer", stream)
    if isinstance(binary, io.StringIO):
        binary = io.BytesIO(binary.read().encode(errors="surrogatepass"))
    return binary if isinstance(binary, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, binary))
