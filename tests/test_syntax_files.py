"""Text files: gzip, encodings, damage with its true line, and files that appear whole or not at all."""

import gzip
import zlib

import pytest

from structattn.syntax import ParseError, open_text, read_lines, replace_text


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_what_is_written_is_read(tmp_path, name):
    text = "één\u0085 still line one\r\nline\u2028 two\n"
    with replace_text(tmp_path / name) as stream:
        stream.write(text)
    assert list(read_lines(tmp_path / name)) == [(1, "één\u0085 still line one"), (2, "line\u2028 two")]
    with open_text(tmp_path / name) as stream:
        assert stream.read() == text
    assert [file.name for file in tmp_path.iterdir()] == [name]


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
    with pytest.raises(EOFError, match="mine"), open_text(tmp_path / "a.txt"):
        raise EOFError("mine")
