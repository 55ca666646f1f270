"""One bad item of a file, in any format: readers that collect faults give all others as they are, and it is named."""

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import structattn as sa
from structattn.data import Example
from structattn.data.readers import read_examples
from structattn.errors import ParseError
from structattn.files.item_faults import collecting_faults
from structattn.parsing.parse_texts import parse_each
from structattn.parsing.text_files import read_texts

NAMES = ("fine", "dull", "odd")


def snli(word: str, parse: str = "") -> str:
    parse = parse or f"(ROOT (NN {word}))"
    return json.dumps(
        {"gold_label": "neutral", "sentence1_parse": parse, "sentence2_parse": "(ROOT (NN a))", "pairID": word}
    )


def conllu(word: str, head: str = "0", comments: str = "") -> str:
    return f"{comments}1\t{word}\t_\tADJ\t_\t_\t{head}\troot\t_\t_\n"


def document(word: str, head: str = "0") -> str:
    return conllu(word, comments=f"# newdoc id = {word}\n# label = good\n") + "\n" + conllu("film", head)


# A format, how an item is written, what is between items and before them, and bad items with what is said of them.
FORMATS: dict[str, tuple[list[str], str, str, list[tuple[str, str]]]] = {
    "sst": (
        [f"(3 (2 {w}) (4 film))" for w in NAMES],
        "\n",
        "",
        [("(3 (2 a) (9 b))", "label from 0 to 4"), ("(3 (2 a)", "more ')'")],
    ),
    "labelled": ([f"good {w} film" for w in NAMES], "\n", "", [("good", "expected 'label text'")]),
    "text": ([f"{w} film" for w in NAMES], "\n", "", [("a\tb\tc", "or two separated by a tab")]),
    "csv": (
        [f'"{w}, a film",good' for w in NAMES],
        "\n",
        "text,label\n",
        [
            ("a,b,c", "expected 2 comma-separated"),
            ('"a" b,good', "continues after its closing"),
            ('"a,good', "a field"),
        ],
    ),
    "tsv": ([f"{w} film\tgood" for w in NAMES], "\n", "text\tlabel\n", [("a", "expected 2 tab-separated")]),
    "sick": (
        [f"{w}\t{w}\ta film\t4.5\tNEUTRAL" for w in NAMES],
        "\n",
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n",
        [("7\ta\tb\t9\tNEUTRAL", "from 1 to 5")],
    ),
    "json": (
        [json.dumps({"text": w, "label": "good"}) for w in NAMES],
        "\n",
        "",
        [
            ("{", "expected a JSON object"),
            ('{"text": 3, "label": "x"}', "expected text"),
            ('{"text": "\\ud800"}', "half"),
        ],
    ),
    "snli": ([snli(w) for w in NAMES], "\n", "", [(snli("a", "(ROOT"), "more ')'"), ("3", "expected a JSON object")]),
    "conllu": (
        [conllu(w) for w in NAMES],
        "\n",
        "",
        [(conllu("a", "7"), "a head from 0 to 1"), ("1\ta\n", "10 tab-separated")],
    ),
    "documents": ([document(w) for w in NAMES], "\n", "", [(document("a", "7"), "a head from 0 to 1")]),
    "columns": ([f"{w} ADJ\nfilm NOUN\n" for w in NAMES], "\n", "", [("a\nfilm NOUN\n", "at least 2 columns")]),
    "brackets": (
        [f"(S (JJ {w}) (NN film))" for w in NAMES],
        "\n",
        "",
        [("(S (JJ a) (NN b)", "1 more ')'"), ("(S (JJ a) ())", "a word in the bracket"), ("a", "to start a tree")],
    ),
    "rows": (
        [json.dumps({"text": w, "starts": [0], "ends": [len(w)], "id": w}) for w in NAMES],
        "\n",
        "",
        [('{"text": "a"}', "it has no 'starts'"), ("{", "expected a JSON object")],
    ),
    "parallel": ([f"{w} film\tder Film" for w in NAMES], "\n", "", [("a\t", "a translation after the tab")]),
}
CASES = [
    *((format, bad, message) for format, (_, _, _, bads) in FORMATS.items() for bad, message in bads),
    *((format, None, "expected UTF-8 text") for format in FORMATS),
]


def content(format: str, items: Sequence[str]) -> bytes:
    _, between, before, _ = FORMATS[format]
    return (before + "".join(item + between for item in items)).encode(errors="surrogateescape")


def read(format: str, items: Sequence[str]) -> list[Example]:
    return list(read_examples(io.BytesIO(content(format, items)), format))


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize(("format", "bad", "message"), CASES, ids=[f"{case[0]}-{case[2][:12]}" for case in CASES])
def test_the_others_are_read(format: str, bad: str | None, message: str, position: int) -> None:
    items = list(FORMATS[format][0])
    good = read(format, items)
    assert len(good) == 3
    items[position] = (
        items[position].replace("film", "f\udce9lm").replace(NAMES[position], "\udce9") if bad is None else bad
    )
    with collecting_faults() as faults:
        rest = read(format, items)
    expected = [each for index, each in enumerate(good) if index != position]
    assert [(each.sentences, each.label) for each in rest] == [(each.sentences, each.label) for each in expected]
    assert [each.id for each in rest] == [each.id for each in expected]
    assert len(faults) == 1
    with pytest.raises(ParseError, match=re.escape(message)) as caught:
        read(format, items)
    assert str(caught.value) == str(faults[0])


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("heads", [7], "head of word 1"),
        ("text", "fi", "within the text"),
        ("weight", -1.0, "weight"),
        ("answer", b"\xe9", "UTF-?8"),
    ],
)
def test_rows_of_parquet(column: str, value: object, message: str, position: int, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    good = [sa.Example(sa.Sentence([name], dependency=sa.DependencyTree([0])), "good", id=name) for name in NAMES]
    sa.data.write_examples(tmp_path / "a.parquet", good)
    table = parquet.read_table(tmp_path / "a.parquet")
    values = [value if index == position else each for index, each in enumerate(table[column].to_pylist())]
    index = table.schema.get_field_index(column)
    if isinstance(value, bytes):  # of which Arrow makes a text only without a check
        array = arrow.array(values, arrow.binary()).view(arrow.string())
    else:
        array = arrow.array(values, table.schema.types[index])
    parquet.write_table(table.set_column(index, table.schema.field(index), array), tmp_path / "b.parquet")
    with collecting_faults() as faults:
        rest = list(read_examples(tmp_path / "b.parquet"))
    assert rest == [each for number, each in enumerate(good) if number != position]
    assert re.search(f"row {position + 1}: .*{message}", str(faults[0]))
    assert len(faults) == 1


def test_a_pair_is_left_out_with_its_sentence(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    words = sa.Sentence(["a", "b"])
    good = [sa.Example((words, words), "good", id=name) for name in NAMES]
    sa.data.write_examples(tmp_path / "a.jsonl", good)
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    for bad in (2, 3):
        changed = [*lines[:bad], lines[bad].replace('"ends": [1, 3]', '"ends": [1]'), *lines[bad + 1 :]]
        with collecting_faults() as faults:
            assert list(read_examples(io.StringIO("\n".join(changed)), "rows")) == [good[0], good[2]]
        assert len(faults) == 1


TREES = "(S (JJ fine) (NN film))\n(S (JJ dull)\n(S (JJ odd) (NN film))\n"
HEADS = "\n".join((conllu("fine"), conllu("dull", "7"), conllu("odd")))


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("a.txt", b"fine film\ndull f\xe9lm\nodd film\n", b"a\nb\nc\n"),
        ("a.txt", b"fine film\ndull film\nodd film\n", b"a\nb\xe9\nc\n"),
        ("a.txt", b"fine film\ndull film\nodd film\n", b"a\n\nc\n"),
        ("a.mrg", TREES.encode(), b"a\nb\nc\n"),
        ("a.conllu", HEADS.encode(), b"a\nb\nc\n"),
    ],
)
def test_files_stay_aligned(name: str, first: bytes, second: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(first)
    (tmp_path / "b.txt").write_bytes(second)
    with collecting_faults() as faults:
        rest = list(read_examples(f"{tmp_path / name},{tmp_path / 'b.txt'}", "parallel"))
    assert [(each.id, each.sentences[0].words[0], each.label) for each in rest] == [
        ("0", "fine", "a"),
        ("2", "odd", "c"),
    ]
    assert len(faults) == 1


def test_questions_of_agreement_stay_aligned(tmp_path: Path) -> None:
    (tmp_path / "a.text").write_bytes(b"the dog is\nthe d\xe9g is\nthe dogs are\n")
    (tmp_path / "a.gold").write_text("2\tis\tare\t0\n2\tis\tare\t0\n2\tare\tis\t0\n", encoding="utf-8")
    with collecting_faults() as faults:
        rest = list(read_examples(tmp_path / "a.text", "agreement"))
    assert [(each.id, each.label) for each in rest] == [("0", "singular"), ("2", "plural")]
    assert "a.text:2: expected UTF-8 text, but byte 6 of the line is 0xe9" in str(faults[0])


@pytest.mark.parametrize("bad", [b'{"text": "f\xe9"}', b'{"text": "\\ud800"}', b"3"])
def test_items_of_a_json_array(bad: bytes) -> None:
    with collecting_faults() as faults:
        rest = list(read_examples(io.BytesIO(b'[{"text": "fine"},' + bad + b',{"text": "odd"}]'), "json"))
    assert [(each.id, each.sentences[0].words) for each in rest] == [("0", ("fine",)), ("2", ("odd",))]
    assert "item 2: expected" in str(faults[0])


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("csv", 'text,label\n"a\nfine film",good\n"b\n"c" d\ne",bad\nodd,good\n'),
        ("brackets", "(S\n(JJ fine)\n(NN film))\n(S\n(JJ dull)\n(NN film)\n"),
    ],
)
def test_parts_of_an_item_over_several_lines_are_no_items(format: str, text: str) -> None:
    with collecting_faults(), pytest.raises(ParseError):
        list(read_examples(io.StringIO(text), format))


def test_texts_keep_their_numbers() -> None:
    texts = read_texts(io.BytesIO(b"Kids wash.\nD\xe9j\xe0 vu.\nThey sing.\n"), "text", {})
    with collecting_faults() as faults:
        parsed = [sentence for _, text in parse_each(texts) for sentence in text]
    assert [sentence.metadata["sent_id"] for sentence in parsed] == ["1-1", "3-1"]
    assert "stream:2: expected UTF-8 text, but byte 2 of the line is 0xe9" in str(faults[0])


@pytest.mark.parametrize("start", [b"\xff\xfea\x00", b"PK\x03\x04\xe9", b"BZh9\xe9"])
def test_a_file_of_another_kind_is_one_fault(start: bytes) -> None:
    with collecting_faults() as faults, pytest.raises(ParseError, match="this is"):
        list(read_examples(io.BytesIO(start + b"\n\xe9\n\xe9\n"), "text"))
    assert not faults


@pytest.mark.parametrize("format", FORMATS)
def test_where_every_item_is_bad_the_faults_say_so(format: str) -> None:
    with collecting_faults() as faults:
        assert not read(format, [FORMATS[format][3][0][0]])
    assert len(faults) == 1


def test_a_header_that_is_no_text_ends_its_file() -> None:
    for options in ({}, {"text_column": "text"}):
        with collecting_faults(), pytest.raises(ParseError, match=r"^stream:1: expected UTF-8 text"):
            list(read_examples(io.BytesIO(b"t\xe9xt,label\na,good\n"), "csv", **options))
    with collecting_faults() as faults:
        rest = read_examples(io.BytesIO(b"\xe9,good\nfine,good\n"), "csv", text_column=0, label_column=1)
        assert [each.id for each in rest] == ["1"]
    assert len(faults) == 1
