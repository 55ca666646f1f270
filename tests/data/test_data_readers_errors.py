"""Readers on bad input: every malformed line is reported with its file and number, every wrong option by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from structattn.data import read_examples
from structattn.data.readers import FORMATS
from structattn.errors import ConfigError, ParseError

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def snli_line(label: str, parse: str) -> str:
    item = {"gold_label": label, "sentence1_parse": "(ROOT (UH Hush))", "sentence2_parse": parse}
    return json.dumps(item) + "\n"


def write(folder: Path, text: str, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


@pytest.mark.parametrize(
    ("format", "text", "line", "message"),
    [
        ("sst", "(3 (2 a) (1 b)\n", 1, r"expected 1 more '\)'"),
        ("sst", "(3 a)\n(3 (x a) (1 b))\n", 2, "expected a label from 0 to 4 on every phrase and word, got 'x'"),
        ("sst", "(3 a (1 b))\n", 1, "expected a label from 0 to 4 .* got None"),
        ("sst", "()\n", 1, "expected a label from 0 to 4 .* got no root"),
        ("labelled", "1 a\nalone\n", 2, "expected 'label text', got 'alone'"),
        ("tsv", "a\tb\n", 1, r"expected a column such as text .* got 'a, b'; name the columns with text_column"),
        ("tsv", "sentence\tlabel\na\t1\nb\n", 3, "expected 2 tab-separated columns as in the header, got 1"),
        ("tsv", "sentence\tlabel\na\t \n", 2, "expected a label, got an empty field"),
        ("tsv", "g\tf\t1\t2\t3.5\tA\tB\ng\tf\t1\n", 2, "expected at least 7 tab-separated columns, got 3"),
        ("tsv", "g\tf\t1\t2\t3.5\tA\tB\ng\tf\t1\t2\tnan\tA\tB\n", 2, "expected a number as score, got 'nan'"),
        ("json", '{"text": "a"}\n[1]\n', 2, r"expected a JSON object, got '\[1\]'"),
        ("json", "{'a'}\n", 1, "expected a JSON object, got"),
        ("json", '{"text": "\\\\ud83d \\ud83d\\ude00"}\n{"text": "dull \\ud83d"}\n', 2, "half of a surrogate pair"),
        ("json", '[{"text": "\\ude00", "label": 1}]\n', 1, "half of a surrogate pair"),
        ("rows", '{"text": "\\ud83d", "starts": [0], "ends": [1]}\n', 1, "half of a surrogate pair"),
        ("json", '{"label": 1}\n', 1, "expected a column such as text or review, .* got 'label'"),
        ("json", '{"text": 3}\n', 1, "expected text or a list of words under 'text', got 3"),
        ("json", '{"text": "a", "label": [1]}\n', 1, "expected a string or a number as label, got"),
        ("json", '{"text": "a", "weight": -1}\n', 1, "expected a weight of at least 0, got -1"),
        ("snli", "nothing\n", 1, "expected a JSON object, got 'nothing'"),
        ("snli", '{"gold_label": "x"}\n', 1, "expected a JSON object with text under .* got gold_label"),
        ("snli", snli_line("neutral", "(UH Oh)") + snli_line("x", "(S"), 2, r"expected 1 more '\)'"),
        ("sick", "a\tb\n", 1, "expected the header pair_ID"),
        ("sick", f"{SICK_HEADER}\n1\ta\tb\t9\tX\n", 2, "expected a relatedness score from 1 to 5, got '9'"),
        ("sick", f"{SICK_HEADER}\n1\ta\tb\n", 2, "expected 5 tab-separated columns as in the header, got 3"),
        ("conllu", "1\ta\n", 1, "expected 10 tab-separated columns, got 2"),
        ("brackets", "(S a b\n", 1, r"expected 1 more '\)'"),
    ],
)
def test_malformed_lines(tmp_path: Path, format: str, text: str, line: int, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ParseError, match=message) as caught:
        list(read_examples(path, format=format))
    assert caught.value.file == str(path)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "gold", "file", "line", "message"),
    [
        ("a is <eos>\n", "1\tis\tare\n", "gold", 1, "expected position, right form, wrong form and attractors"),
        ("a is <eos>\n", "x\tis\tare\t0\n", "gold", 1, "expected position"),
        ("a is <eos>\n", "0\tis\tare\t0\n", "gold", 1, "expected 'is' at position 0 of the sentence, got 'a'"),
        ("a is <eos>\n", "5\tis\tare\t0\n", "gold", 1, "expected 'is' at position 5 of the sentence, got 2 words"),
        ("a is <eos>\nb\n", "1\tis\tare\t0\n", "gold", None, "expected as many lines as a.text, got 1"),
        ("a is <eos>\n", "1\tis\tare\t0\nx\n", "text", None, "expected as many lines as a.gold, got 1"),
    ],
)
def test_malformed_agreement(tmp_path: Path, text: str, gold: str, file: str, line: int | None, message: str) -> None:
    paths = {"text": write(tmp_path, text, "a.text"), "gold": write(tmp_path, gold, "a.gold")}
    with pytest.raises(ParseError, match=message) as caught:
        list(read_examples(paths["text"]))
    assert caught.value.file == str(paths[file])
    assert caught.value.line == line


def test_agreement_needs_both_files(tmp_path: Path) -> None:
    path = write(tmp_path, "a is <eos>\n", "a.text")
    with pytest.raises(ParseError, match=r"a pair of files NAME.text and NAME.gold"):
        list(read_examples(path, format="agreement"))


def test_agreement_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"No such file"):
        list(read_examples(tmp_path / "a.text.gz", format="agreement"))


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_empty_file(tmp_path: Path, format: str | None) -> None:
    path = write(tmp_path, "", "a.text")
    if format == "agreement":
        write(tmp_path, "", "a.gold")
    with pytest.raises(ParseError, match="expected at least one example") as caught:
        list(read_examples(path, format=format))
    assert caught.value.file == str(path)


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_missing_file(tmp_path: Path, format: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        list(read_examples(tmp_path / "none.txt", format=format))
    assert caught.value.file == str(tmp_path / "none.txt")


def test_a_malformed_first_line_of_json_lines_has_a_number(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="expected a JSON object, got 'text'") as caught:
        list(read_examples(write(tmp_path, "text\n", name="data.jsonl")))
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"text": "a"}, 3]', "item 2: expected a JSON object, got 3"),
        ('[{"text": "a"}, {"label": 3}]', "item 2: expected a column such as text or review"),
        ('[{"text": "a"}\n{"text": "b"}]', "expected an array of JSON objects, got .*Expecting ',' delimiter"),
    ],
)
def test_malformed_arrays_of_json(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        list(read_examples(write(tmp_path, text, "a.json")))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("text,label\na,b\nc\n", 3, "expected 2 comma-separated columns as in the header, got 1"),
        ("text;label\na;b\nc;d;e\n", 3, "expected 2 semicolon-separated columns as in the header, got 3"),
        (
            'text,label\n"a\nb",x\n"c,y\n',
            4,
            "expected a row of comma-separated fields, a quotation mark opens a field that",
        ),
        ('text,label\n"a" b,x\n', 2, "a field continues after its closing quotation mark"),
        (
            "review_body,outcome\na,b\n",
            1,
            r"got 'review_body, outcome'; name the columns with text_column and label_",
        ),
        ("text,label\na,\n", 2, "expected a label, got an empty field"),
        ('"body, in full",mood\na,b\n', 1, "got '\"body, in full\", mood'"),
        ("text,label,label\na,b,c\n", 1, "expected one column 'label', got 2: 'text, label, label'"),
        ("text,text,label\na,b,c\n", 1, "expected one column 'text', got 2: 'text, text, label'"),
        ("text,label\ra,b\r", 1, "a line contains a carriage return; lines end in"),
    ],
)
def test_malformed_rows(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        list(read_examples(write(tmp_path, text, "a.csv")))
    assert caught.value.line == line


def test_unrecognisable(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"expected a line of one of the formats sst, .* got 'word'; name the format"):
        read_examples(write(tmp_path, "word\n"))


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("xlsx", {}, "unknown data format 'xlsx'; known: agreement, "),
        ("sst", {"target": "score"}, "data format 'sst' has no option 'target'; known: phrases"),
        ("snli", {"tokenised": True}, "data format 'snli' has no option 'tokenised'; known: none"),
        ("labelled", {"target": "rank"}, "unknown target 'rank'; known: class, score"),
        ("sick", {"target": "class"}, "unknown target 'class'; known: relatedness, entailment"),
        ("tsv", {"text_column": (0, 1, 2)}, "text_column: expected one column, or two for pairs of texts, got 3"),
        (
            "labelled",
            {"text_column": 1},
            "data format 'labelled' has no option 'text_column'; known: target, tokenised",
        ),
        ("tsv", {"label_column": 1}, "text_column: expected a number like that of the other columns, got none"),
    ],
)
def test_bad_options(tmp_path: Path, format: str, options: dict[str, object], message: str) -> None:
    path = write(tmp_path, "a\tb\n")
    with pytest.raises(ConfigError, match=message):
        list(read_examples(path, format=format, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text_column": "zzz"}, "expected a column 'zzz', got 'a, b'"),
        ({"text_column": 5}, r"expected a column 5 \(from 0\), got a row of 2 columns"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, columns: dict[str, str | int], message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        list(read_examples(write(tmp_path, "a\tb\n"), **columns))
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("text,label", {"text_column": 0, "label_column": 1}),
        ("7,Review", {"text_column": 1}),
        ("premise,hypothesis,x", {"text_column": (0, 1), "label_column": 2}),
    ],
)
def test_numbers_of_columns_where_there_is_a_header(tmp_path: Path, header: str, columns: dict[str, Any]) -> None:
    path = write(tmp_path, f"{header}\na,b,c\n", "a.csv")
    with pytest.raises(
        ParseError, match=r"expected no header, as the columns are numbers, got .*; name the col"
    ) as caught:
        list(read_examples(path, **columns))
    assert caught.value.line == 1
    assert len(list(read_examples(write(tmp_path, "a text,label,review\na,b,c\n", "b.csv"), **columns))) == 2


def test_a_label_in_conllu_that_is_no_score(tmp_path: Path) -> None:
    path = write(tmp_path, "# sent_id = s-1\n# label = good\n1\tHush\t_\tINTJ\t_\t_\t0\troot\t_\t_\n\n")
    with pytest.raises(ParseError, match="sentence s-1: expected a number as score, got 'good'"):
        list(read_examples(path, target="score"))
