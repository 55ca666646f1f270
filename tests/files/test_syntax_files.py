"""Text files: gzip, encodings, damage with its true line, and files that appear whole or not at all."""

import bz2
import errno
import gzip
import io
import lzma
import resource
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from structattn.data.readers.formats import recognise_format
from structattn.errors import ConfigError, ParseError
from structattn.files.json_yaml import naming_description
from structattn.files.replacing import claim_folder, replace_bytes, replace_folder, replace_text
from structattn.files.text import (
    MAX_BLANK_LINES,
    MAX_LINE,
    check_apart,
    check_readable,
    is_parquet,
    is_pipe,
    open_bytes,
    parse_json,
    read_lines,
    read_text,
)
from structattn.files.urls import is_remote, spell_url


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_what_is_written_is_read(tmp_path, name):
    text = "één\u0085 still line one\r\nline\u2028 two\n"
    with replace_text(tmp_path / name) as stream:
        stream.write(text)
    assert list(read_lines(tmp_path / name)) == [(1, "één\u0085 still line one"), (2, "line\u2028 two")]
    assert read_text(tmp_path / name) == text
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_file_may_be_in_a_folder_that_is_still_to_be_made(tmp_path):
    with replace_text(tmp_path / "new" / "folder" / "a.txt") as stream:
        stream.write("one\n")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["a.txt"]


def test_gzip_is_known_by_its_bytes_and_written_by_its_name(tmp_path):
    with replace_text(tmp_path / "a.gz") as stream:
        stream.write("x\n")
    (tmp_path / "a.txt").write_bytes((tmp_path / "a.gz").read_bytes())
    assert list(read_lines(tmp_path / "a.txt")) == [(1, "x")]
    (tmp_path / "b.gz").write_text("plain\n")
    assert list(read_lines(tmp_path / "b.gz")) == [(1, "plain")]


def test_the_same_text_gives_the_same_gzip_bytes(tmp_path):
    for name in ("a.gz", "b.gz"):
        with replace_text(tmp_path / name) as stream:
            stream.write("x\n")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_byte_order_mark_is_skipped(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfword\n")
    assert list(read_lines(tmp_path / "a.txt")) == [(1, "word")]
    assert read_text(tmp_path / "a.txt") == "word\n"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt.gz"
    with replace_text(target) as stream:
        stream.write("old\n")

    def write_half():
        with replace_text(target) as stream:
            stream.write("new\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert list(read_lines(target)) == [(1, "old")]
    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_nothing_is_seen_before_the_end(tmp_path):
    with replace_text(tmp_path / "a.txt") as stream:
        stream.write("x" * 100_000)
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bytes_that_are_not_utf8_name_their_line(tmp_path, pack):
    path = tmp_path / "a"
    path.write_bytes(pack(b"good\n" * 5000 + b"caf\xe9\n" + b"good\n" * 5000))
    with pytest.raises(ParseError, match="expected UTF-8 text, but byte 4 of the line is 0xe9") as caught:
        list(read_lines(path))
    assert (caught.value.file, caught.value.line) == (str(path), 5001)
    with pytest.raises(ParseError, match="expected UTF-8 text, but byte 4 of the line is 0xe9") as caught:
        read_text(path)
    assert (caught.value.file, caught.value.line) == (str(path), 5001)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("windows-1252", "byte 4 of the line is 0xe9; 'é' in Windows-1252 and Latin-1: iconv -f WINDOWS-1252"),
        ("utf-16", "byte 1 of the line is 0xff; this is UTF-16: iconv -f UTF-16 -t UTF-8 converts it"),
    ],
)
def test_other_encodings_are_named(tmp_path, encoding, message):
    path = tmp_path / "a.txt"
    path.write_bytes("café\n".encode(encoding))
    with pytest.raises(ParseError, match=message):
        list(read_lines(path))


@pytest.mark.parametrize(("name", "pack"), [("bzip2", bz2.compress), ("xz", lzma.compress)])
def test_other_packers_are_named(tmp_path, name, pack):
    path = tmp_path / "a.txt"
    path.write_bytes(pack(b"one\ntwo\n" * 99))
    with pytest.raises(ParseError, match=f"this is a {name} file: only gzip is read compressed"):
        list(read_lines(path))


def test_a_truncated_gzip_file_names_the_line_it_ends_in(tmp_path):
    path = tmp_path / "a.gz"
    lines = "".join(f"line {number} {number * 7919 % 97}\n" for number in range(20_000))
    packed = gzip.compress(lines.encode())
    for size in (5, 100, 10_000, len(packed) - 1):
        path.write_bytes(packed[:size])
        whole = zlib.decompressobj(31).decompress(packed[:size])
        with pytest.raises(ParseError, match="expected a whole gzip file, but it is damaged") as caught:
            list(read_lines(path))
        assert (caught.value.file, caught.value.line) == (str(path), whole.count(b"\n") + 1)
        with pytest.raises(ParseError, match="expected a whole gzip file, but it is damaged"):
            read_text(path)


def test_a_damaged_gzip_file(tmp_path):
    path = tmp_path / "a.gz"
    packed = bytearray(gzip.compress(b"some text\n" * 1000))
    packed[-5] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(ParseError, match="damaged"):
        list(read_lines(path))


def test_a_missing_file_and_a_folder(tmp_path):
    for path, message in ((tmp_path / "none.txt", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ParseError, match=f"cannot read this file: {message}") as caught:
            list(read_lines(path))
        assert (caught.value.file, caught.value.line) == (str(path), None)


def test_errors_of_the_reader_pass_through(tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(EOFError, match="mine"), open_bytes(tmp_path / "a.txt"):
        raise EOFError("mine")


def test_streams_are_read_and_stay_open(tmp_path):
    content = "één\nzwei\n".encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    streams = [
        io.BytesIO(content),
        io.BytesIO(gzip.compress(content)),
        io.StringIO(content.decode()),
        io.TextIOWrapper(io.BytesIO(content)),
        open(tmp_path / "a.gz", "rb"),  # noqa: SIM115 - closed below
    ]
    for stream in streams:
        assert list(read_lines(stream)) == [(1, "één"), (2, "zwei")]
        assert not stream.closed
        stream.close()
    with pytest.raises(ParseError, match=r"^stream:2: expected UTF-8"):
        list(read_lines(io.BytesIO(b"good\n\xe9\n")))


def test_lines_across_blocks_are_whole(tmp_path):
    lines = [f"{'é' * (k * 7919 % 60_000)}{k}" for k in range(200)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    assert list(read_lines(tmp_path / "a.txt")) == list(enumerate(lines, start=1))


def test_a_line_may_be_as_long_as_the_limit(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" + b"b" * MAX_LINE + b"\nc\n")
    assert [len(line) for _, line in read_lines(path)] == [1, MAX_LINE, 1]
    for end in (b"", b"\n", b"\nc\n"):
        path.write_bytes(b"a\n" + b"b" * (MAX_LINE + 1) + end)
        with pytest.raises(ParseError, match=f"expected lines of at most {MAX_LINE:,} bytes, got one of ") as caught:
            list(read_lines(path))
        assert caught.value.line == 2
        assert f"{MAX_LINE + 1:,} that begins '{'b' * 40}'..." in str(caught.value)


def test_blank_lines_may_be_many_but_not_endless(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n" * MAX_BLANK_LINES + b"a" + b"\n" * MAX_BLANK_LINES)
    assert sum(1 for _ in read_lines(path)) == 2 * MAX_BLANK_LINES
    path.write_bytes(b"a\n" + b" \r\n" * (MAX_BLANK_LINES + 1))
    with pytest.raises(ParseError, match=f"expected text after {MAX_BLANK_LINES:,} blank lines") as caught:
        list(read_lines(path))
    assert caught.value.line == MAX_BLANK_LINES + 2


def test_a_whole_file_has_a_limit(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * 1001))
    assert len(read_text(path, max_bytes=1001)) == 1001
    with pytest.raises(ParseError, match="expected at most 1,000 bytes, got more"):
        read_text(path, max_bytes=1000)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_deep_json_is_a_value_error(opening):
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(opening * 100_000)
    with pytest.raises(ValueError, match="Expecting"):
        parse_json("[1,")


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b", gzip.compress(b"text", mtime=0)[:7], b"\x1f\x8b\x07" + b"\0" * 20, b"\x1f\x8bgarbage"]
)
def test_gzip_that_is_damaged_at_its_beginning_is_named(tmp_path, content):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(content)
    for read in (is_parquet, check_readable, recognise_format, lambda path: list(read_lines(path)), read_text):
        with pytest.raises(ParseError, match="expected a whole gzip file, but it is damaged") as caught:
            read(path)
        assert caught.value.file == str(path)


def test_two_writers_of_a_file_write_two_files(tmp_path):
    path = tmp_path / "a.txt"
    with replace_text(path) as first:
        first.write("first\n" * 10_000)
        with replace_text(path) as second:
            second.write("second\n")
            hidden = [file.name for file in tmp_path.iterdir()]
        assert path.read_text() == "second\n"
    assert path.read_text() == "first\n" * 10_000
    assert len(set(hidden)) == 2
    assert all(name.startswith(".a.txt.") and name.endswith(".tmp") for name in hidden)
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    (tmp_path / "usual").write_text("")
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_two_writers_of_a_folder_write_two_folders(tmp_path):
    path = tmp_path / "model"

    def write(start=None, rounds=1):
        for _ in range(rounds):
            with replace_folder(path) as folder:
                if start is not None:
                    start.wait()
                for name in ("a", "b"):
                    (folder / name).write_text(folder.name)

    with replace_folder(path) as first:
        write()
        assert len({file.read_text() for file in path.iterdir()}) == 1
        (first / "c").write_text("last")
    assert [file.name for file in path.iterdir()] == ["c"]
    start = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, start, 20) for _ in range(4)]:
            done.result()
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert len({file.read_text() for file in path.iterdir()}) == 1


def test_half_a_character_is_no_json():
    r"""An escape of a surrogate stands for a character with its other half, and for none alone; ``\\`` is no escape."""
    assert parse_json(r'["\ud83d\uDE00", "\\ud83d", "\\\ud83d\ude00"]') == [
        "\N{GRINNING FACE}",
        r"\ud83d",
        "\\\N{GRINNING FACE}",
    ]
    for text in (r'["\ud83d"]', r'{"\uDC00": 1}', rb'["a\ud83d\ud83d\ude00"]', r'["\ude00\ud83d"]'):
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            parse_json(text)


def test_what_cannot_be_written_is_named_as_it_was_given(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    cases = {
        errno.ENAMETOOLONG: (tmp_path / ("x" * 300), 1),
        errno.EFBIG: (tmp_path / "big", 1 << 20),
        errno.ENOSPC: (Path("/dev/full"), 1 << 20),
    }
    found = {}
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))
    try:
        for number, (path, size) in cases.items():
            with pytest.raises(OSError) as caught, replace_bytes(path) as stream:
                stream.write(bytes(size))
            found[number] = (caught.value.errno, caught.value.filename)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found == {number: (number, str(path)) for number, (path, _) in cases.items()}
    assert list(tmp_path.iterdir()) == []


def test_the_same_file_under_two_names_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    check_apart(tmp_path / "a.txt", None, tmp_path / "b.txt", "/dev/null", "/dev/null")
    with pytest.raises(ConfigError, match="expected another file than"):
        check_apart(tmp_path / "a.txt", tmp_path / ".." / tmp_path.name / "a.txt")


def test_what_can_be_read_only_once(tmp_path):
    assert [is_pipe(path) for path in ("/dev/null", __file__, tmp_path, tmp_path / "missing.txt")] == [True] + [
        False
    ] * 3


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("s3://bucket/a.conllu", "s3://bucket/a.conllu"),
        (Path("s3://bucket/a"), "s3://bucket/a"),
        (Path("file:///a/b.csv"), "file:///a/b.csv"),
        (Path("memory://a"), "memory://a"),
        ("simplecache::s3://bucket/a", "simplecache::s3://bucket/a"),
        ("a.conllu", None),
        (Path("/a/b:c/d"), None),
        ("a:b.txt", None),
        ("C:/a.txt", None),
    ],
)
def test_what_is_on_another_file_system(path, url):
    assert is_remote(path) == (url is not None)
    assert url is None or spell_url(path) == url


def test_a_claimed_folder_is_removed_if_nothing_was_written(tmp_path):
    folder = tmp_path / "new" / "run"
    with claim_folder(folder):
        assert [file.name for file in folder.iterdir()] == ["lock"]
    assert not folder.parent.exists()
    with claim_folder(folder):
        (folder / "a.txt").write_text("a\n")
    assert [file.name for file in folder.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (KeyError("heads"), ParseError, "config.json: expected the key 'heads', it is missing"),
        (ZeroDivisionError("no heads"), ParseError, "config.json: expected a model that can be built: no heads"),
        (ConfigError("unknown encoder"), ConfigError, "config.json: unknown encoder"),
    ],
)
def test_what_fails_to_be_built_names_the_file_that_describes_it(error, kind, message):
    with pytest.raises(kind) as caught, naming_description(Path("config.json")):
        raise error
    assert str(caught.value) == message
