"""Files without end, or of more than anybody writes: an error before memory or time are gone."""

import gzip
import io
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from structattn.cli import main
from structattn.data import Vocabulary, load_vectors, read_examples
from structattn.data.readers import FORMATS
from structattn.errors import ConfigError, ParseError
from structattn.files.json_yaml import MAX_DEPTH, MAX_YAML, MAX_YAML_VALUES, read_json, read_json_lines, read_yaml
from structattn.files.text import MAX_FILE, MAX_LINE, read_lines
from structattn.syntax import read_brackets, read_conllu, split_words
from structattn.training import load_config

# Shapes are checked at every call in tests, so the limits are lower here.
LINE, WORDS, BLANK = 400_000, 1_000, 10_000
LIMITS = {
    "MAX_LINE": LINE,
    "MAX_FILE": 4 * LINE,
    "MAX_BLANK_LINES": BLANK,
    "MAX_WORDS": WORDS,
    "MAX_BRACKETS": 4 * WORDS,
    "MAX_PHRASE_WORDS": 4 * WORDS,
}


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    list(FORMATS.values())  # a reader that is imported later would keep the low limits
    for name, module in list(sys.modules.items()):
        for limit in LIMITS if name.startswith("structattn") else ():
            if limit in vars(module):
                monkeypatch.setattr(module, limit, LIMITS[limit])


class Endless(io.RawIOBase):
    """A stream that repeats a text for ever, after another one; it notes how much was asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        self.rest = b""
        self.given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while len(self.rest) < len(buffer):
            more = b"".join(itertools.islice(self.pieces, 1000))
            if not more:
                break
            self.rest += more
        given, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        buffer[: len(given)] = given
        self.given += len(given)
        return len(given)


ROW = "\t_\t_\t_\t_\t_\t_\t_\t_\t_\n"


def numbered(pattern: str) -> Iterator[bytes]:
    return (pattern.format(number).encode() for number in itertools.count(1))


def repeated(text: str, start: str = "") -> Iterator[bytes]:
    return itertools.chain([start.encode()], itertools.repeat(text.encode()))


# What has no end, the formats that would read on, and what is said of it.
TREE, SENTENCE = "expected trees of at most", "expected sentences of at most"
DOCUMENT, LONG, BLANKS = "expected documents of at most", "expected lines of at most", "expected text after"
SKIPPED = [name for name in FORMATS if name not in ("conllu", "documents")]
FLOODS: dict[str, tuple[Callable[[], Iterator[bytes]], Iterable[str], str]] = {
    "zeros": (lambda: repeated("\0"), FORMATS, LONG),
    "newlines": (lambda: repeated("\n"), FORMATS, BLANKS),
    "blank lines": (lambda: repeated(" \t\r\n"), SKIPPED, BLANKS),
    "open brackets": (lambda: repeated("(\n"), ["brackets"], TREE),
    "open phrases": (lambda: repeated("(a\n"), ["brackets"], TREE),
    "words of a tree": (lambda: repeated("word\n", "(S "), ["brackets"], TREE),
    "tagged words of a tree": (lambda: repeated("(a b)\n", "(S "), ["brackets"], TREE),
    "long words of a tree": (lambda: repeated("a" * 10_000 + "\n", "(S "), ["brackets"], TREE),
    "comments": (lambda: repeated("# a = b\n"), ["conllu", "documents"], SENTENCE),
    "long comments": (lambda: repeated("# " + "b" * 10_000 + "\n"), ["conllu"], SENTENCE),
    "rows": (lambda: numbered("{}" + ROW), ["conllu", "documents"], SENTENCE),
    "sentences of a document": (lambda: repeated(f"1\ta{ROW[2:]}\n", "# newdoc\n"), ["documents"], DOCUMENT),
    "long sentences of a document": (
        lambda: repeated(f"# a = {'b' * 100_000}\n1\ta{ROW[2:]}\n", "# newdoc\n"),
        ["documents"],
        DOCUMENT,
    ),
}


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize(("flood", "format"), [(name, form) for name in FLOODS for form in FLOODS[name][1]])
def test_floods_end_in_an_error(flood: str, format: str) -> None:
    make, _, message = FLOODS[flood]
    stream = Endless(make())
    message = {"agreement": "expected a pair of files", "parquet": "in a file of its own, .* a pipe"}.get(
        format, message
    )
    with pytest.raises(ParseError, match=message):
        for _ in read_examples(stream, format):
            pass
    assert stream.given <= 3 * LINE


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("unit", [b"\0", b"\n", b"("])
@pytest.mark.parametrize("format", [None, *FORMATS])
def test_what_unpacks_to_far_more_is_not_unpacked(unit: bytes, format: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.text.gz"
    with gzip.open(path, "wb", 1) as stream:
        for _ in range(30):
            stream.write(unit * LINE)
    if format == "agreement":
        (tmp_path / "a.gold.gz").write_bytes(path.read_bytes())
    # The format that skips no blank line has something to say about the first one.
    message = (
        "expected position" if (format, unit) == ("agreement", b"\n") else f"{LONG}|{BLANKS}|as it is read from its end"
    )
    with pytest.raises(ParseError, match=message) as caught:
        list(read_examples(path, format))
    assert Path(str(caught.value.file)).parent == tmp_path


@pytest.mark.usefixtures("low_limits")
def test_other_readers_have_the_same_limits(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", 1) as stream:
        for _ in range(5):
            stream.write(b"\0" * LINE)
    whole = "expected at most"
    readers: list[tuple[Callable[[Path], Any], str]] = [
        (lambda path: list(read_brackets(path)), LONG),
        (lambda path: list(read_conllu(path)), LONG),
        (lambda path: list(read_json_lines(path)), LONG),
        (lambda path: load_vectors(path, Vocabulary(["a"])), LONG),
        (read_json, whole),
        (Vocabulary.from_file, whole),
    ]
    for read, message in readers:
        with pytest.raises(ParseError, match=message) as caught:
            read(path)
        assert caught.value.file == str(path)


@pytest.mark.usefixtures("low_limits")
def test_what_is_within_the_limits_is_read(tmp_path: Path) -> None:
    (tree,) = read_brackets(io.StringIO("(S " + "(a b) " * WORDS + ")\n"))
    assert len(tree) == WORDS
    deep = 4 * WORDS
    (tree,) = read_brackets(io.StringIO("(S\n" * deep + "a b" + ")" * deep + "\n"))
    assert len(tree.spans) == deep
    rows = "".join(f"{number}\ta{ROW[2:]}" for number in range(1, WORDS + 1))
    (sentence,) = read_conllu(io.StringIO(rows))
    assert len(sentence) == WORDS
    document = "# newdoc\n" + f"1\ta{ROW[2:]}\n" * WORDS
    (example,) = read_examples(io.StringIO(document), "documents")
    assert len(example.sentences[0]) == WORDS


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("phrases", ["all", "unique"])
def test_phrases_of_a_tree_have_a_limit(phrases: Any) -> None:
    deep = 100
    text = "(1 (1 a) " * deep + "(1 a)" + ")" * deep + "\n"
    assert deep * deep // 2 > LIMITS["MAX_PHRASE_WORDS"]
    assert len(list(read_examples(io.StringIO(text), "sst"))) == 1
    with pytest.raises(ParseError, match=r"expected phrases of at most .* words together"):
        list(read_examples(io.StringIO(text), "sst", phrases=phrases))


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1e3", "٣", "9" * 10])
def test_numbers_nobody_writes_are_no_numbers(number: str) -> None:
    rows = [
        ("conllu", f"1\ta\t_\t_\t_\t_\t{number}\t_\t_\t_\n"),
        ("conllu", f"{number}{ROW}"),
    ]
    for format, text in rows:
        with pytest.raises(ParseError, match="expected") as caught:
            list(read_examples(io.StringIO(text), format))
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("format", ["json", "snli"])
def test_deep_json_lines_have_a_number(opening: str, format: str) -> None:
    with pytest.raises(ParseError, match="nested too deeply") as caught:
        list(read_examples(io.StringIO("\n" + opening * 100_000), format))
    assert caught.value.line == 2


def test_vectors_have_a_width(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("cat" + " 1" * 10_001 + "\n")
    with pytest.raises(ParseError, match="expected a word and at most 10,000 numbers, got 10,001"):
        load_vectors(path, Vocabulary(["cat"]))


@pytest.mark.parametrize("unit", ["a+", "'s", "a@", "a+b@", "n't", ":-)", "(", "1,", "https://", "-LRB-", "can't"])
def test_splitting_takes_time_in_proportion_to_the_text(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from structattn.syntax import tokenisation

    looked_at = 0
    split = tokenisation._split_once

    def counted(part: str, is_last: bool) -> Any:
        nonlocal looked_at
        looked_at += len(part)
        return split(part, is_last)

    monkeypatch.setattr(tokenisation, "_split_once", counted)
    text = "x" + unit * 2_000
    assert "".join(split_words(text)) == text
    assert looked_at <= 3 * len(text)


# YAML and JSON of our own


def yaml_bomb(levels: int, *, merge: bool = False) -> str:
    """Each level has ten times the one before, by reference."""
    first = "a0: &a0 {k0: 1}\n" if merge else "a0: &a0 [x]\n"
    lines = []
    for level in range(1, levels):
        before = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {f'{{<<: [{before}]}}' if merge else f'[{before}]'}\n")
    return first + "".join(lines)


BOMBS = {
    "aliases": yaml_bomb(12),
    "merge keys": yaml_bomb(12, merge=True),
    "an alias within itself": "options: &a {b: *a}\n",
    "a list within itself": "options: &a [*a]\n",
    "brackets": "[" * 20_000,
    "braces": "{a: " * 10_000,
    "lines": "- " * 10_000,
    "values": "options: [" + "a, " * MAX_YAML_VALUES + "]\n",
    "bytes": "task: " + "a" * MAX_YAML + "\n",
    "a number": "seed: " + ":".join(["1"] * 20_000) + "\n",
    "a date": "seed: 2020-99-99\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_configurations_are_bounded(bomb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(BOMBS[bomb], encoding="utf-8")
    for read in (read_yaml, load_config):
        with pytest.raises(ConfigError, match="expected") as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert str(caught.value).count(str(path)) == 1
    assert main(["train", "--config", str(path)]) == 2
    assert "structattn: error: " in capsys.readouterr().err


def test_aliases_that_stand_for_little_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("base: &base {dim: 4}\nfirst: *base\nsecond: {<<: *base, heads: 2}\n", encoding="utf-8")
    assert read_yaml(path) == {"base": {"dim": 4}, "first": {"dim": 4}, "second": {"dim": 4, "heads": 2}}
    path.write_text(yaml.safe_dump({str(number): number for number in range(MAX_YAML_VALUES // 2 - 1)}))
    assert len(read_yaml(path)) == MAX_YAML_VALUES // 2 - 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "nested at most 100 times"),
        ('{"a": ' + "9" * 30 + "}", "whole numbers below 2\\*\\*64"),
        ('{"a": ' + "9" * 5000 + "}", "damaged"),
        ('{"a": "' + "a" * MAX_LINE + '"}', "expected at most"),
    ],
    ids=["deep", "large", "larger", "long"],
)
def test_json_of_ours_is_bounded(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ParseError, match=message) as caught:
        read_json(path)
    assert caught.value.file == str(path)


def test_the_limits_are_beyond_real_data() -> None:
    war_and_peace, longest_review, vectors_of_a_large_model, squad = 3_300_000, 15_000, 16_384 * 12, 50_000_000
    assert max(war_and_peace, longest_review, vectors_of_a_large_model) < MAX_LINE
    assert squad < MAX_FILE
    assert next(read_lines(io.BytesIO(b"a" * war_and_peace)))[0] == 1
