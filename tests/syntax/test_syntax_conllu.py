"""CoNLL-U: reading and writing give back the bytes, and every malformed line is named."""

import dataclasses
import gzip
import itertools
import random
from pathlib import Path

import pytest

from structattn.errors import ConfigError, ParseError
from structattn.syntax import DependencyTree, Sentence, read_conllu, write_conllu

TREEBANK = """\
# newdoc id = one
# sent_id=s1
# text = vámonos al mar
# a remark
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\tMood=Imp\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc|Number=Plur\t1\tobj\t1:obj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
3\ta\ta\tADP\t_\t_\t5\tcase\t5:case\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t5:det\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t1:obl:a\t_

# sent_id = s2
0.1\tSue\tSue\tPROPN\t_\t_\t_\t_\t1:nsubj\tCopyOf=1
1\tlikes\tlike\tVERB\tVBZ\t_\t0\troot\t0:root\t_
2\tNew York\t_\tPROPN\t_\t_\t1\tobj\t1:obj\t_
2.1\tlikes\t_\t_\t_\t_\t_\t_\t1:conj\t_
2.2\tMary\t_\t_\t_\t_\t_\t_\t2.1:obj\t_

1\tno\t_\t_\t_\t_\t_\t_\t_\t_
2\ttree\t_\t_\t_\t_\t_\t_\t_\t_

"""


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return path


def lines_of(*rows):
    """Rows given as ``id form head``; the other columns are missing."""
    return "".join("\t".join([i, form, *"____", head, *"___"]) + "\n" for i, form, head in map(str.split, rows))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reading_and_writing_gives_back_the_bytes(tmp_path, suffix):
    source = write(tmp_path / "a.conllu", TREEBANK)
    target = tmp_path / f"b.conllu{suffix}"
    write_conllu(target, read_conllu(source))
    content = target.read_bytes()
    assert (gzip.decompress(content) if suffix else content) == TREEBANK.encode()
    assert list(read_conllu(target)) == list(read_conllu(source))


def test_what_is_read(tmp_path):
    first, second, third = read_conllu(write(tmp_path / "a.conllu", TREEBANK))
    assert first.words == ("vamos", "nos", "a", "el", "mar")
    assert first.tags == ("VERB", "PRON", "ADP", "DET", "NOUN")
    assert first.dependency == DependencyTree([0, 1, 5, 5, 1], ["root", "obj", "case", "det", "obl"])
    assert first.metadata == {"newdoc id": "one", "sent_id": "s1", "text": "vámonos al mar", "a remark": ""}
    assert second.words == ("likes", "New York")
    assert third == Sentence(["no", "tree"])


def random_sentence(generator):
    num_words = generator.randrange(6)
    words = ["".join(generator.choices("aβ#=_-. \u0085\u00a0", k=generator.randrange(1, 4))) for _ in range(num_words)]
    heads = [generator.randrange(word) for word in range(1, num_words + 1)]
    labels = generator.choice([None, ["dep"] * num_words])
    return Sentence(
        words,
        generator.choice([None, ["X"] * num_words]) if words else None,
        DependencyTree(heads, labels) if words and generator.random() < 0.7 else None,
        metadata={key: generator.choice(["", "1", "a = b"]) for key in generator.choice(["", "xy"])},
    )


def test_sentences_built_in_python_come_back_equal(tmp_path):
    generator = random.Random(3)
    sentences = [random_sentence(generator) for _ in range(300)]
    write_conllu(tmp_path / "a.conllu", sentences)
    assert list(read_conllu(tmp_path / "a.conllu")) == sentences


def test_a_sentence_without_words_is_kept(tmp_path):
    sentences = [Sentence([]), Sentence(["x"]), Sentence([], metadata={"sent_id": "2"})]
    write_conllu(tmp_path / "a.conllu", sentences)
    assert list(read_conllu(tmp_path / "a.conllu")) == sentences


def test_a_changed_sentence_keeps_its_other_columns(tmp_path):
    first, *_ = read_conllu(write(tmp_path / "a.conllu", TREEBANK))
    changed = dataclasses.replace(
        first,
        words=["VAMOS", *first.words[1:]],
        dependency=DependencyTree([0, 1, 2, 3, 4]),
        metadata={"text": "x", "newdoc id": "one", "label": "good"},
    )
    write_conllu(tmp_path / "b.conllu", [changed])
    lines = (tmp_path / "b.conllu").read_text(encoding="utf-8").split("\n")
    assert lines[:3] == ["# newdoc id = one", "# text = x", "# label = good"]
    assert lines[4] == "1\tVAMOS\tir\tVERB\tV\tMood=Imp\t0\t_\t0:root\t_"
    assert lines[3].startswith("1-2\t")
    (again,) = read_conllu(tmp_path / "b.conllu")
    assert (again.words, again.dependency, again.metadata) == (changed.words, changed.dependency, changed.metadata)


def test_a_repeated_key_is_changed_once(tmp_path):
    text = "# k = 1\n# other\n# k = 2\n" + lines_of("1 a 0") + "\n"
    (sentence,) = read_conllu(write(tmp_path / "a.conllu", text))
    assert sentence.metadata == {"k": "2", "other": ""}
    write_conllu(tmp_path / "b.conllu", [dataclasses.replace(sentence, metadata={"k": "3"})])
    assert (tmp_path / "b.conllu").read_text() == "# k = 3\n" + lines_of("1 a 0") + "\n"


def test_sentences_are_streamed(tmp_path):
    def endless():
        yield from itertools.repeat(Sentence(["x"]), 3)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_conllu(tmp_path / "a.conllu", endless())
    assert list(tmp_path.iterdir()) == []
    path = write(tmp_path / "b.conllu", lines_of("1 a 0") + "\n" + lines_of("2 b 0"))
    reader = read_conllu(path)
    assert next(reader).words == ("a",)
    with pytest.raises(ParseError):
        next(reader)


def test_line_ends_of_windows_blank_lines_and_a_missing_last_one(tmp_path):
    text = "\n\n" + lines_of("1 a 0") + "\n\n\n" + lines_of("1 b 0")
    sentences = list(read_conllu(write(tmp_path / "a.conllu", text.replace("\n", "\r\n"))))
    assert [sentence.words for sentence in sentences] == [("a",), ("b",)]
    assert list(read_conllu(write(tmp_path / "b.conllu", ""))) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1\ta\n", 1, "expected 10 tab-separated columns, got 2"),
        (lines_of("1 a 0").replace("\n", "\t_\n"), 1, "expected 10 tab-separated columns, got 11"),
        (lines_of("1 a 0").replace("\t", " "), 1, "expected 10 tab-separated columns, got 1"),
        (lines_of("1 a 0").replace("a", ""), 1, "expected '_' for no value, got an empty column 2"),
        (lines_of("1 a 0") + " \n", 2, "expected 10 tab-separated columns, got 1"),
        (lines_of("1 a 0", "2 b x"), 2, "expected a head from 0 to 2, got 'x'"),
        (lines_of("1 a 0", "2 b 1.5"), 2, "expected a head from 0 to 2, got '1.5'"),
        (lines_of("1 a 0", "2 b 3"), 2, "expected a head from 0 to 2, got '3'"),
        (lines_of("1 a 0", "2 b -1"), 2, "expected a head from 0 to 2, got '-1'"),
        (lines_of("1 a 0", "2 b _"), 2, "expected a head from 0 to 2, got '_'"),
        (lines_of("1 a 1"), 1, "expected heads that lead to the root, got the cycle 1 -> 1"),
        (lines_of("1 a 0", "2 b 3", "3 c 2"), 2, "expected heads that lead to the root, got the cycle 2 -> 3 -> 2"),
        (lines_of("1 a 0", "1 b 0"), 2, "expected the id 2, got '1'"),
        (lines_of("1 a 0", "3 b 0"), 2, "expected the id 2, got '3'"),
        (lines_of("0 a 0"), 1, "expected the id 1, got '0'"),
        (lines_of("one a 0"), 1, "expected the id 1, got 'one'"),
        (lines_of("_ a 0"), 1, "expected the id 1, got '_'"),
        (lines_of("1 a 0", "3-4 b _", "2 b 1"), 2, "expected the id 2-4, got '3-4'"),
        (lines_of("1 a 0", "2-1 b _", "2 b 1"), 2, "expected the id 2, got '2-1'"),
        (lines_of("1 a 0", "2-3 b _", "2 b 1"), 2, "expected a range that ends by the last word 2, got one up to 3"),
        (lines_of("1-2 a _", "1 a 0", "2-3 b _", "2 b 1", "3 c 1"), 3, "expected no range before the one up to 2 is"),
        (lines_of("1 a 0", "1.2 b _"), 2, "expected the id 1.1, got '1.2'"),
        (lines_of("1 a 0", "2.1 b _"), 2, "expected the id 1.1, got '2.1'"),
        (lines_of("1 a 0") + "# late\n", 2, "expected comments before the first word, got '# late'"),
    ],
)
def test_malformed_lines_are_named(tmp_path, text, line, message):
    good = "# sent_id = good\n" + lines_of("1-2 ab _", "1 a 0", "1.1 e _", "2 b 1") + "\n"
    path = write(tmp_path / "bad.conllu", good + "# c = d\n" + text + "\n" + good)
    with pytest.raises(ParseError) as caught:
        list(read_conllu(path))
    error = caught.value
    assert (error.file, error.line) == (str(path), 7 + line)
    assert error.message.startswith(message)
    assert str(error) == f"{path}:{7 + line}: {error.message}"


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "a.conllu.gz"
    text = (lines_of("1 a 0") + "\n") * 300
    path.write_bytes(gzip.compress(text.encode())[:50])
    with pytest.raises(ParseError, match="whole gzip file"):
        list(read_conllu(path))
    path.write_bytes(text.encode() + b"1\t\xff")
    with pytest.raises(ParseError, match="UTF-8") as caught:
        list(read_conllu(path))
    assert caught.value.line == 601
    with pytest.raises(ParseError, match="cannot read this file"):
        next(read_conllu(tmp_path / "none"))


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (Sentence(["a", ""]), "must not be empty or have a tab or line end in it, got '' in the sentence"),
        (Sentence(["a\tb"]), "must not be empty or have a tab or line end in it, got 'a\\\\tb' in the sentence"),
        (Sentence(["a"], ["X\n"]), "must not be empty or have a tab or line end in it, got 'X\\\\n' in the sentence"),
        (Sentence(["a"], metadata={"k=": "v"}), "no '=' in its key, got 'k=': 'v'"),
        (Sentence(["a"], metadata={"k": "v\nw"}), "must have no line end"),
        (Sentence(["a"], metadata={"": "v"}), "got '': 'v'"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path, sentence, message):
    with pytest.raises(ValueError, match=message):
        write_conllu(tmp_path / "a.conllu", [sentence])
    assert list(tmp_path.iterdir()) == []


def test_of_a_column_that_conllu_lacks_only_the_two_signs_for_no_value_are_dropped(tmp_path):
    rows = "".join(f"{number}\tmar\t{value}\n" for number, value in enumerate(("_", "*", "_*", "a"), 1))
    (tmp_path / "a.conllup").write_text(f"# global.columns = ID FORM BIO\n{rows}", encoding="utf-8")
    (sentence,) = read_conllu(tmp_path / "a.conllup")
    assert [row[9] for row in sentence.rows] == ["_", "_", "BIO=_*", "BIO=a"]


@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.gz"])
def test_half_of_a_pair_is_no_character_to_write(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.conllu.*: expected characters to write, got half of a pair"):
        write_conllu(tmp_path / name, [Sentence(["a"]), Sentence(["\ud800"])])
    assert not list(tmp_path.iterdir())
