"""The columnar treebank: what is written comes back, what is damaged is named, and arrays say what sentences say."""

import io
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structattn as sa
from structattn.cli import main
from structattn.data.treebank.example_rows import make_examples, make_rows, read_rows, write_rows
from structattn.data.treebank.parquet import read_parquet, write_parquet
from structattn.data.treebank.schema import VERSION_KEY, make_schema
from structattn.data.treebank.stream import StreamedExamples
from structattn.data.treebank.word_arrays import read_arrays
from structattn.data.treebank.writing import write_examples
from structattn.errors import ConfigError, MissingStructure, ParseError
from structattn.files.text import MAX_BRACKETS, MAX_LINE, MAX_WORDS
from structattn.syntax import format_conllu

arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

TREEBANK = """\
# newdoc id = a
# sent_id = a-1
# text = Vámonos al mar, ya.
# label = fine
#   odd spacing=kept
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=Yes
1\tVamos\tir\tVERB\tV\tMood=Imp\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t1:obj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\tSpaceAfter=No
5.1\tleft\tout\t_\t_\t_\t_\t_\t1:x\t_
6\t,\t,\tPUNCT\t_\t_\t7\tpunct\t_\t_
7\tya\tya\tADV\t_\t_\t1\tadvmod\t_\tSpaceAfter=No
8\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

# sent_id = a-2
# text = 10 000 日本語は難しい。
1\t10 000\t_\tNUM\t_\t_\t2\tnummod\t_\t_
2\t日本語\t_\tNOUN\t_\t_\t4\tobl\t_\t_
3\tは\t_\tADP\t_\t_\t2\tcase\t_\t_
4\t難しい\t_\tADJ\t_\t_\t0\troot\t_\t_
5\t。\t_\tPUNCT\t_\t_\t4\tpunct\t_\t_

# sent_id = a-3
1\tno\t_\t_\t_\t_\t_\t_\t_\t_
2\ttree\t_\t_\t_\t_\t_\t_\t_\t_

"""
WORDS = ["the", "cat", "sat"]
PHRASES = sa.ConstituencyTree(WORDS, [("S", 0, 3), ("NP", 0, 2)], tags=["DT", None, "VBD"])
TREE = sa.DependencyTree([2, 3, 0], ["det", "nsubj", "root"])
EXAMPLES = {
    "words alone": sa.Example(sa.Sentence(WORDS)),
    "no words": sa.Example(sa.Sentence([])),
    "no words, but a tree": sa.Example(sa.Sentence([], [], sa.DependencyTree([], []))),
    "a word of no characters": sa.Example(sa.Sentence(["", "a", ""], dependency=sa.DependencyTree([2, 0, 2]))),
    "words with spaces": sa.Example(sa.Sentence([" a", "b "], metadata={"text": " ab "})),
    "text": sa.Example(sa.Sentence.from_text("The cat isn't there."), "fine", id="7"),
    "text that does not hold the words": sa.Example(sa.Sentence(WORDS, metadata={"text": "The Cat sat", "a": ""})),
    "a text that goes on": sa.Example(sa.Sentence(["the"], metadata={"text": "the cat"})),
    "heads without labels": sa.Example(sa.Sentence(WORDS, dependency=sa.DependencyTree([2, 3, 0]))),
    "phrases": sa.Example(sa.Sentence(WORDS, ["D", "N", "V"], TREE, PHRASES)),
    "phrases with the same tags": sa.Example(
        sa.Sentence(WORDS, ["D", "N", "V"], None, sa.ConstituencyTree(WORDS, [("S", 0, 3)], tags=["D", "N", "V"]))
    ),
    "phrases without tags": sa.Example(sa.Sentence(WORDS, ["D", "N", "V"], TREE, sa.ConstituencyTree(WORDS))),
    "phrases over other words": sa.Example(
        sa.Sentence(["("], None, None, sa.ConstituencyTree(["-LRB-"], [("X", 0, 1)]))
    ),
    "relations": sa.Example(
        sa.Sentence(["a", "b"], relations={"near": [[0.0, 0.1], [1 / 3, 1.0]], "far": [[0, 1], [2, 3]]})
    ),
    "score": sa.Example(sa.Sentence(WORDS), 0.1, weight=0.25),
    "pair": sa.Example((sa.Sentence(WORDS), sa.Sentence(["a", "cat"])), "entailment", id="p"),
    "pair without words": sa.Example((sa.Sentence([]), sa.Sentence([]))),
    "metadata in their order": sa.Example(
        sa.Sentence(["a"], metadata={"label": "x", "sent_id": "1", "text": "a", "b": "1"}), "y", id="1"
    ),
    "parser": sa.Example(sa.Sentence(["a"], metadata={"parser": "my parser 1.0+ab", "sent_id": "z"})),
    "a parser without version": sa.Example(sa.Sentence(["a"], metadata={"parser": "p"})),
    "comments": sa.Example(sa.Sentence(["a"], metadata={"x": "1"}, comments=["#x=1", "#"])),
    "characters of four bytes": sa.Example(sa.Sentence(["🌳", "𝒳"], metadata={"text": "🌳𝒳"})),
}


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    path = tmp_path / "a.conllu"
    path.write_text(TREEBANK, encoding="utf-8")
    return path


@pytest.fixture
def shard(treebank: Path) -> Path:
    path = treebank.with_suffix(".parquet")
    write_parquet(path, sa.read_examples(treebank, "conllu"))
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_field_comes_back(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    assert list(make_examples(make_rows(example), "rows")) == [example]
    write_parquet(tmp_path / "a.parquet", [example])
    (back,) = sa.read_examples(tmp_path / "a.parquet")
    assert back == example
    for one, other in zip(back.sentences, example.sentences, strict=True):
        assert list(one.metadata) == list(other.metadata)
        assert (one.rows, one.comments) == (other.rows, other.comments)
    assert write_rows(tmp_path / "a.jsonl", [example]) == len(example.sentences)
    assert list(sa.read_examples(tmp_path / "a.jsonl")) == [example]


def test_many_examples_over_groups_of_rows(tmp_path: Path) -> None:
    examples = [*EXAMPLES.values()] * 3
    assert write_parquet(tmp_path / "a.parquet", examples, group_size=5) == sum(len(one.sentences) for one in examples)
    assert list(read_parquet(tmp_path / "a.parquet")) == examples


def test_conllu_comes_back_byte_for_byte(treebank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = treebank.parent
    chain = ["a.conllu", "b.parquet", "c.jsonl", "d.parquet", "e.conllu"]
    for source, target in itertools.pairwise(chain):
        assert main(["convert", str(here / source), str(here / target)]) == 0
    assert (here / "e.conllu").read_bytes() == treebank.read_bytes()
    assert "3 sentences" in capsys.readouterr().out


def test_words_are_places_in_the_text(shard: Path) -> None:
    first, second, third = parquet.read_table(shard).to_pylist()
    # "Vamos" does not stand in the text, so the words stand for it.
    assert first["text"] == "Vamos nos a el mar , ya ."
    assert (first["id"], first["answer"]) == ("a-1", "fine")
    assert second["text"] == "10 000 日本語は難しい。"
    assert [second["text"][start:end] for start, end in zip(second["starts"], second["ends"], strict=True)] == [
        "10 000", "日本語", "は", "難しい", "。",
    ]  # fmt: skip
    assert second["heads"] == [2, 4, 2, 0, 4]
    assert third["heads"] is None
    assert third["tags"] is None


def test_arrays_say_what_sentences_say(tmp_path: Path) -> None:
    examples = [*EXAMPLES.values()] * 2
    write_parquet(tmp_path / "a.parquet", examples, group_size=7)
    sentences = [sentence for example in examples for sentence in example.sentences]
    batches = list(read_arrays(tmp_path / "a.parquet", batch_size=6))
    place = 0
    for batch in batches:
        for start, end in zip(batch.offsets, batch.offsets[1:], strict=False):
            sentence, tree = sentences[place], sentences[place].dependency
            words = range(start, end)
            assert tuple(batch.words.names[batch.words.codes[word]] for word in words) == sentence.words
            assert batch.heads[start:end].tolist() == ([-1] * len(sentence) if tree is None else list(tree.heads))
            for found, names in ((batch.labels, tree and tree.labels), (batch.tags, sentence.tags)):
                codes = found.codes[start:end].tolist()
                assert [found.names[code] if code >= 0 else None for code in codes] == list(
                    names or [None] * len(sentence)
                )
            place += 1
    assert place == len(sentences)
    assert [length for batch in batches for length in batch.lengths] == list(map(len, sentences))
    vocabulary = sa.Vocabulary(["cat", "the"])
    ids = np.concatenate([batch.word_ids(vocabulary) for batch in batches])
    assert ids.tolist() == [one for sentence in sentences for one in vocabulary.encode(sentence.words)]


def test_a_pattern_of_shards(shard: Path) -> None:
    other = shard.with_name("b.parquet")
    other.write_bytes(shard.read_bytes())
    found = [example.id for example in sa.read_examples(str(shard.with_name("*.parquet")))]
    assert found == [f"{name}.parquet/a-{number}" for name in "ab" for number in (1, 2, 3)]


def test_shards_of_a_size(treebank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(treebank), str(treebank.with_name("s.conllu.gz")), "--shard-size", "2"]) == 0
    assert [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()] == ["2 sentences", "1 sentences"]
    parts = sorted(treebank.parent.glob("s-*.conllu.gz"))
    assert [part.name for part in parts] == ["s-00000.conllu.gz", "s-00001.conllu.gz"]
    assert "".join(format_conllu(one) for part in parts for one in sa.read_conllu(part)) == TREEBANK
    again = treebank.with_name("again.conllu")
    assert main(["convert", str(treebank.with_name("s-*.conllu.gz")), str(again)]) == 0
    assert again.read_text(encoding="utf-8") == TREEBANK


def test_parts_of_an_earlier_conversion_are_not_mixed_with_new_ones(
    treebank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["convert", str(treebank), str(treebank.with_name("[s].parquet")), "--shard-size"]
    other = treebank.with_name("[s]-2024.parquet")
    other.touch()
    assert main([*words, "1"]) == 0
    before = {part: part.read_bytes() for part in treebank.parent.glob("*.parquet")}
    assert main([*words, "2"]) == 2
    names = f"{treebank.with_name('[s]-00000.parquet')} to {treebank.with_name('[s]-00002.parquet')}"
    assert f"expected no parts of an earlier conversion, got {names}" in capsys.readouterr().err
    assert {part: part.read_bytes() for part in treebank.parent.glob("*.parquet")} == before


def test_other_file_systems() -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    files = fsspec.filesystem("memory")
    with files.open("/bank/a.conllu", "wb") as stream:
        stream.write(TREEBANK.encode())
    assert main(["convert", "memory://bank/a.conllu", "memory://bank/out/b.parquet"]) == 0
    assert main(["convert", "memory://bank/out/*.parquet", "memory://bank/c.conllu"]) == 0
    assert files.cat("/bank/c.conllu") == TREEBANK.encode()
    with pytest.raises(ParseError, match=r"memory://bank/none.conllu: cannot read this file: there is no such file"):
        list(sa.read_examples("memory://bank/none.conllu", "conllu"))
    with pytest.raises(ParseError, match="this pattern, got none"):
        sa.read_examples("memory://bank/*.csv")


def test_what_a_format_cannot_hold_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    phrases, pair = EXAMPLES["phrases"], EXAMPLES["pair"]
    assert write_examples(tmp_path / "a.conllu", [phrases, pair]) == 3
    assert "cannot represent 1 phrase trees" in caplog.text
    assert [one.metadata.get("sent_id") for one in sa.read_conllu(tmp_path / "a.conllu")] == [None, "p-1", "p-2"]
    assert write_examples(tmp_path / "a.mrg", [phrases]) == 1
    assert "1 dependency trees" in caplog.text
    assert (tmp_path / "a.mrg").read_text() == "(S (NP (DT the) cat) (VBD sat))\n"
    with pytest.raises(MissingStructure, match="example 'p' has no phrase tree"):
        write_examples(tmp_path / "b.mrg", [phrases, pair])
    with pytest.raises(ParseError, match="must not be empty"):
        write_examples(tmp_path / "b.conllu", [EXAMPLES["a word of no characters"]])
    with pytest.raises(ConfigError, match=r"b.docx: expected a name that ends in .parquet, .jsonl, .conllu, .mrg"):
        write_examples(tmp_path / "b.docx", [phrases])
    assert not list(tmp_path.glob("*b*"))


def damaged(shard: Path, how: str) -> Any:
    """A damaged copy of a shard."""
    content, table = shard.read_bytes(), parquet.read_table(shard)
    if how == "cut in the middle":
        return io.BytesIO(content[: len(content) // 2])
    if how == "a byte changed":
        return io.BytesIO(content[:40] + bytes([content[40] ^ 255]) + content[41:])
    if how == "no rows":
        table = table.slice(0, 0)
    elif how == "a column missing":
        table = table.drop_columns(["heads"])
    elif how == "another type":
        table = table.set_column(table.schema.get_field_index("heads"), "heads", table["labels"])
    elif how == "another version":
        table = table.replace_schema_metadata({VERSION_KEY: "17"})
    elif how == "another table":
        table = arrow.table({"text": ["a"], "stars": [5]})
    else:
        rows = table.to_pylist()
        rows[1] |= {"a cycle": {"heads": [2, 1, 2, 0, 4]}, "too few tags": {"tags": ["X"]}, "no text": {"text": None},
                    "half a pair": {"part": 2}, "ends missing": {"ends": [1]}}[how]  # fmt: skip
        if how == "half a pair":
            rows = rows[1:]
        table = arrow.Table.from_pylist(rows, schema=make_schema())
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return io.BytesIO(stream.getvalue())


DAMAGE = {
    "cut in the middle": "expected a whole Parquet file, but it is truncated or damaged",
    "a byte changed": "expected a whole Parquet file, but it is truncated or damaged",
    "no rows": "expected at least one example in format 'parquet', got none",
    "a column missing": "expected the column 'heads', it is missing",
    "another type": "expected the column 'heads' to contain lists of whole numbers, it contains lists of text",
    "another version": "expected version 1 of the treebank's columns, got version 17",
    "another table": r"expected a treebank \(structattn convert makes one\), got a table of text, stars",
    "a cycle": "row 2: expected a sentence, but heads must not form a cycle",
    "too few tags": "row 2: expected a sentence, but the sentence has 5 words but its tags has 1 entries",
    "no text": "row 2: expected a sentence, but",
    "half a pair": "row 1: expected the second sentence of a pair after its first one",
    "ends missing": "row 2: expected a sentence, but",
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_named(how: str, shard: Path) -> None:
    with pytest.raises(ParseError, match=f"^stream: {DAMAGE[how]}"):
        list(sa.read_examples(damaged(shard, how), "parquet"))


@pytest.mark.parametrize("how", ["a word", "a name of a column", "a label"])
def test_bytes_that_are_no_text_are_named(how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.parquet"
    write_parquet(tmp_path / "whole.parquet", [sa.Example(sa.Sentence(["kids", "wash"]), "good")])
    table = parquet.read_table(tmp_path / "whole.parquet")
    parquet.write_table(table, file, compression="none", use_dictionary=how == "a label")
    old = {"a word": b"kids wash", "a name of a column": b"phrase_tags", "a label": b"good"}[how]
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, b"\xa0" + old[1:]))
    with pytest.raises(ParseError, match=f"^{file}: (row 1: )?expected "):
        list(sa.read_examples(file))
    assert main(["convert", str(file), str(tmp_path / "b.conllu")]) == 2
    assert re.search(f"error: {file}: (row 1: )?expected", capsys.readouterr().err)


def test_a_weight_below_0_is_named(tmp_path: Path) -> None:
    rows = make_rows(EXAMPLES["words alone"]) + make_rows(sa.Example(sa.Sentence(["abcd"])))
    rows[1]["weight"] = -1.0
    with pytest.raises(ParseError, match=r"^a: row 2: Example expects a finite weight of at least 0, got -1\.0"):
        list(make_examples(rows, "a"))


@pytest.mark.parametrize("how", ["too few tags", "ends missing", "a column missing"])
def test_damage_is_named_in_arrays(how: str, shard: Path) -> None:
    with pytest.raises(ParseError, match=r"^stream: expected"):
        list(read_arrays(damaged(shard, how)))


def test_words_outside_of_their_text_are_refused_in_arrays(tmp_path: Path) -> None:
    for number, (starts, ends) in enumerate([([0, 1], [2, 3]), ([0, 4], [2, 9]), ([2, 0], [3, 1]), ([2, 1], [1, 2])]):
        rows = make_rows(EXAMPLES["words alone"]) + make_rows(sa.Example(sa.Sentence(["abcd"])))
        rows[1] |= {"starts": starts, "ends": ends}
        parquet.write_table(arrow.Table.from_pylist(rows, schema=make_schema()), tmp_path / f"{number}.parquet")
        with pytest.raises(ParseError, match="expected words in their order within the text of row 2"):
            list(read_arrays(tmp_path / f"{number}.parquet"))


def test_a_shard_that_grows_is_refused(shard: Path) -> None:
    examples = read_parquet(shard)
    next(examples)
    with shard.open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(ParseError, match="expected a file that does not change while it is read"):
        list(examples)


def test_rows_of_json_that_contradict_themselves(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "starts": [0], "ends": [1]}\n{"text": "a", "starts": 3, "ends": [1]}\n')
    with pytest.raises(ParseError, match=r"a.jsonl: row 2: expected a sentence, but"):
        list(read_rows(path))


def test_hugging_face_reads_the_shards(shard: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    found = datasets.load_dataset("parquet", data_files=str(shard), split="train", cache_dir=str(tmp_path / "cache"))
    assert found["id"][:] == ["a-1", "a-2", "a-3"]
    assert found[1]["heads"] == [2, 4, 2, 0, 4]


def test_bytes_of_a_word(tmp_path: Path) -> None:
    """A treebank with all its columns takes at most 40 bytes a word on disk and 200 in memory."""
    words = [f"w{number % 997}x{number % 13}" for number in range(20_000)]
    sentences = []
    for start in range(0, len(words), 20):
        some = words[start : start + 20]
        tree = sa.DependencyTree([0, *range(1, 20)], ["root"] + ["dep", "nsubj"] * 9 + ["obj"])
        text = " ".join(some)
        sentences.append(sa.Sentence(some, ["NOUN"] * 20, tree, metadata={"sent_id": f"s{start}", "text": text}))
    path = tmp_path / "a.parquet"
    write_parquet(path, (sa.Example(sentence, id=sentence.metadata["sent_id"]) for sentence in sentences))
    assert path.stat().st_size / len(words) < 40
    assert parquet.read_table(path).nbytes / len(words) < 200


def large(kind: Any) -> Any:
    """The type with offsets and whole numbers of 64 bits, as polars and pandas have them."""
    if arrow.types.is_list(kind):
        return arrow.large_list(large(kind.value_type))
    if arrow.types.is_struct(kind):
        return arrow.struct([(field.name, large(field.type)) for field in kind])
    wide = {arrow.string(): arrow.large_string(), arrow.binary(): arrow.large_binary(), arrow.int32(): arrow.int64()}
    return wide.get(kind, kind)


def coded(kind: Any) -> Any:
    """The type as numbers of a list of texts; not within lists, where Arrow has no cast to it."""
    return arrow.dictionary(arrow.int32(), kind) if kind == arrow.string() else kind


@pytest.mark.parametrize("changed", [large, coded])
def test_other_types_of_the_same_columns_are_read_alike(changed: Callable[[Any], Any], shard: Path) -> None:
    table, other = parquet.read_table(shard), shard.with_name("other.parquet")
    kinds = zip(table.schema.names, map(changed, table.schema.types), strict=True)
    parquet.write_table(table.cast(arrow.schema([*kinds], metadata=table.schema.metadata)), other)
    assert list(sa.read_examples(other)) == list(sa.read_examples(shard))
    (own,), (found,) = read_arrays(shard), read_arrays(other)
    assert (found.words.counts(), found.heads.tolist()) == (own.words.counts(), own.heads.tolist())
    streamed, here = StreamedExamples([str(other)]), StreamedExamples([str(shard)])
    assert list(streamed) == list(here)
    assert streamed.counts == here.counts


LARGE = {
    "text": ({"text": "a" * (MAX_LINE + 1)}, f"at most {MAX_LINE:,} bytes or elements under 'text', got 5,000,001"),
    "names": ({"tags": ["a" * MAX_LINE]}, f"at most {MAX_LINE:,} bytes or elements under 'tags', got 5,000,001"),
    "words": ({key: [0] * (MAX_WORDS + 1) for key in ("starts", "ends", "heads")}, "at most 100,000 words of a tree"),
    "phrases": ({"spans": [{"label": "", "start": 0, "end": 1}] * (MAX_BRACKETS + 1)}, "at most 400,000 phrases"),
}


@pytest.mark.parametrize("how", LARGE)
def test_a_row_holds_no_more_than_text_may(how: str, tmp_path: Path) -> None:
    values, message = LARGE[how]
    rows = make_rows(EXAMPLES["words alone"]) + make_rows(sa.Example(sa.Sentence(["a"]))) * 2
    rows[2] = {**rows[2], **values}
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.Table.from_pylist(rows, schema=make_schema()), path, row_group_size=2)
    readers = (sa.read_examples, lambda path: StreamedExamples([str(path)]), read_arrays)
    for read in readers[: 2 if how == "phrases" else 3]:  # arrays are read without phrases
        with pytest.raises(ParseError, match=f"a.parquet: row 3: expected {message}"):
            list(read(path))


def test_what_an_example_says_wins_over_its_metadata(tmp_path: Path) -> None:
    once = sa.Sentence(["fine"], metadata={"label": "0", "sent_id": "x", "a": "b"})
    for example, expected in (
        (sa.Example(once, "negative", id="mine"), ("negative", "mine")),
        (sa.Example(once, 0.5, id="0"), ("0.5", "x")),  # an id that only counts
        (sa.Example(sa.Sentence(["fine"]), "good", id="mine"), ("good", "mine")),
    ):
        write_examples(tmp_path / "a.conllu", [example])
        (back,) = sa.read_examples(tmp_path / "a.conllu", "conllu")
        assert (back.label, back.id) == expected
    write_examples(tmp_path / "a.conllu", [sa.Example((once, once), "same", id="p")])
    assert [one.metadata["sent_id"] for one in sa.read_conllu(tmp_path / "a.conllu")] == ["p-1", "p-2"]


@pytest.mark.parametrize("column", ["starts", "ends", "heads", "part"])
def test_null_in_a_column_of_numbers_is_named(column: str, tmp_path: Path) -> None:
    rows = [row for example in EXAMPLES.values() for row in make_rows(example)]
    row = next(row for row in rows if row["heads"] is not None)
    null = None if column == "part" else [None, *row[column][1:]]
    parquet.write_table(arrow.Table.from_pylist([{**row, column: null}], schema=make_schema()), tmp_path / "a.parquet")
    if column == "part":  # as where it is missing in JSON
        streamed = StreamedExamples([str(tmp_path / "a.parquet")])
        assert list(sa.read_examples(tmp_path / "a.parquet")) == list(streamed)
        return
    for read in (sa.read_examples, read_arrays):
        with pytest.raises(ParseError, match="expected"):
            list(read(tmp_path / "a.parquet"))


def test_null_in_a_line_of_conllu_is_named(tmp_path: Path) -> None:
    (row,) = make_rows(sa.Example(sa.Sentence(["a"])))
    rows = [{**row, "lines": [{"row": 0, "line": None}]}]
    with pytest.raises(ParseError, match=r"^a: row 1: expected a sentence"):
        list(make_examples(rows, "a"))
