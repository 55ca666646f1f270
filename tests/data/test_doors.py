"""One value has one meaning, whichever way it comes in: tables, JSON, data frames, data sets, lists."""

import csv
import gzip
import io
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structattn as sa
from structattn.data.data_summary import summarise
from structattn.data.readers.python_objects import read_objects
from structattn.data.treebank.example_rows import make_rows, write_rows
from structattn.errors import ParseError

pandas = pytest.importorskip("pandas")

Values = Sequence[Any]
TEXTS = ["so fine", "so dull", "quite fine"]


def write_table(folder: Path, values: Values, separator: str) -> Path:
    path = folder / ("data.csv" if separator == "," else "data.tsv")
    with path.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, delimiter=separator)
        rows.writerow(["text", "label"])
        rows.writerows(zip(TEXTS, values, strict=True))
    return path


def write_objects(folder: Path, values: Values, *, as_array: bool) -> Path:
    objects = [{"text": text, "label": value} for text, value in zip(TEXTS, values, strict=True)]
    path = folder / ("data.json" if as_array else "data.jsonl")
    lines = json.dumps(objects) if as_array else "\n".join(map(json.dumps, objects))
    path.write_text(lines, encoding="utf-8")
    return path


def compress(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def list_labels(examples: Any) -> list[Any]:
    return [example.label for example in examples]


def read_frame(values: Values) -> Any:
    return pandas.DataFrame({"text": TEXTS, "label": list(values)})


DOORS: dict[str, Callable[[Path, Values], list[Any]]] = {
    "csv": lambda folder, values: list_labels(sa.read_examples(write_table(folder, values, ","), target="class")),
    "tsv": lambda folder, values: list_labels(sa.read_examples(write_table(folder, values, "\t"), target="class")),
    "csv.gz": lambda folder, values: list_labels(
        sa.read_examples(compress(write_table(folder, values, ",")), target="class")
    ),
    "stream": lambda folder, values: list_labels(
        sa.read_examples(io.StringIO(write_table(folder, values, ",").read_text()), "csv", target="class")
    ),
    "json": lambda folder, values: list_labels(
        sa.read_examples(write_objects(folder, values, as_array=True), target="class")
    ),
    "jsonl": lambda folder, values: list_labels(
        sa.read_examples(write_objects(folder, values, as_array=False), target="class")
    ),
    "frame": lambda folder, values: list_labels(read_objects(read_frame(values), target="class")),
    "frame of a file": lambda folder, values: list_labels(
        read_objects(pandas.read_csv(write_table(folder, values, ",")), target="class")
    ),
    "mappings": lambda folder, values: list_labels(
        read_objects([{"text": t, "label": v} for t, v in zip(TEXTS, values, strict=True)], target="class")
    ),
    "pairs": lambda folder, values: list_labels(read_objects(list(zip(TEXTS, values, strict=True)), target="class")),
    "array": lambda folder, values: list_labels(
        read_objects(list(zip(TEXTS, np.asarray(values), strict=True)), target="class")
    ),
}
VALUES = {
    "strings": (["good", "bad", "good"], ["good", "bad", "good"]),
    "whole numbers": ([1, 0, 1], ["1", "0", "1"]),
    "whole numbers with a point": ([1.0, 0.0, -1.0], ["1", "0", "-1"]),
    "truth values": ([True, False, True], ["true", "false", "true"]),
    "fractions": ([0.5, 1.5, 0.5], ["0.5", "1.5", "0.5"]),
    "leading zeros": (["01", "02", "01"], ["01", "02", "01"]),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", VALUES)
def test_a_label_is_the_same_by_every_door(door: str, name: str, tmp_path: Path) -> None:
    values, labels = VALUES[name]
    if (door, name) == ("frame of a file", "leading zeros"):
        pytest.skip("pandas itself reads 01 as a number")
    assert DOORS[door](tmp_path, values) == labels


@pytest.mark.parametrize("door", ["json", "jsonl", "frame", "mappings", "pairs"])
@pytest.mark.parametrize("missing", [None, math.nan])
def test_a_missing_label_is_none_by_every_door(door: str, missing: float | None, tmp_path: Path) -> None:
    assert DOORS[door](tmp_path, ["good", missing, "bad"]) == ["good", None, "bad"]


@pytest.mark.parametrize("door", ["json", "jsonl", "frame", "mappings", "pairs"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_is_no_class(door: str, value: float, tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"expected a label, got -?inf"):
        DOORS[door](tmp_path, [1.0, value, 0.0])


def test_an_empty_label_is_refused_whether_or_not_pandas_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas")
    with pytest.raises(ParseError, match="data:1: expected a label, got an empty field"):
        list(read_objects([("so fine", "")], target="class"))


class Features:
    """What a ``datasets.Dataset`` says of its columns, in as much as the library reads it."""

    def __init__(self, rows: list[dict[str, Any]], label: Any) -> None:
        self.rows, self.features = rows, {"text": None, "label": label}

    def __iter__(self) -> Any:
        return iter(self.rows)


class ClassLabel:
    def __init__(self, names: list[str]) -> None:
        self.names = names


class Sequenced:
    def __init__(self, feature: ClassLabel) -> None:
        self.feature = feature


def test_a_data_set_marks_what_has_no_label_with_minus_one() -> None:
    rows = [{"text": "so fine", "label": label} for label in (1, -1, 0)]
    assert list_labels(read_objects(Features(rows, ClassLabel(["no", "yes"])))) == ["yes", None, "no"]
    with pytest.raises(ParseError, match="data:1: expected a class from 0 to 1, or -1 for none, got 2"):
        list(read_objects(Features([{"text": "so", "label": 2}], ClassLabel(["no", "yes"]))))


def test_tags_are_lists_beside_lists_of_words(tmp_path: Path) -> None:
    words, tags = ["Ann", "slept"], ["B-PER", "O"]
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"tokens": words, "ner_tags": tags}), encoding="utf-8")
    for examples in (
        sa.read_examples(path),
        read_objects([{"tokens": words, "tags": tags}]),
        read_objects(Features([{"tokens": words, "label": [1, 0]}], Sequenced(ClassLabel(["O", "B-PER"])))),
        read_objects(pandas.DataFrame({"tokens": [words], "tags": [np.asarray(tags)]})),
    ):
        (example,) = examples
        assert (example.sentences[0].words, example.label) == (tuple(words), "B-PER O")
    for record, message in (
        ({"tokens": words, "tags": ["O"]}, "here 1 for 2 words"),
        ({"text": "Ann slept", "tags": tags}, "here 2 for a text"),
        ({"tokens": words, "tags": ["O", 3.5]}, "expected tags that are strings without spaces"),
    ):
        with pytest.raises(ParseError, match=message):
            list(read_objects([record]))


@pytest.mark.parametrize(
    "text",
    [
        "# id a1 domain=en\nAnn _ _ B-PER\nslept _ _ O\n\n# id a2 domain=en\nRome _ _ B-LOC\n",
        "# sent_id = 3\nAnn B-PER\nslept O\n\n# text = Rome\nRome B-LOC\n",
        "# a note on the first sentence\nAnn\tB-PER\nslept\tO\n\nRome\tB-LOC\n",
        "# id a0\n\nAnn B-PER\nslept O\n\nRome B-LOC\n",
    ],
)
def test_metadata_are_no_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text, encoding="utf-8")
    examples = [(example.sentences[0].words, example.label) for example in sa.read_examples(path, "columns")]
    assert examples == [(("Ann", "slept"), "B-PER O"), (("Rome",), "B-LOC")]


def test_a_hash_is_a_word(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("# NOUN\n1 NUM\n\nno DET\n# NOUN\n", encoding="utf-8")
    assert [example.sentences[0].words for example in sa.read_examples(path, "columns")] == [("#", "1"), ("no", "#")]


def test_every_line_of_a_sentence_has_the_same_columns(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("Ann _ B-PER\nNew York _ B-LOC\n", encoding="utf-8")
    with pytest.raises(ParseError, match=r"train.txt:2: expected 3 columns as in the line before, got 4"):
        list(sa.read_examples(path, "columns"))


def test_labels_of_fasttext_lose_their_prefix_and_are_one_per_line(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("__label__pos so fine\n__label__neg so dull\n", encoding="utf-8")
    assert list_labels(sa.read_examples(path)) == ["pos", "neg"]
    path.write_text("__label__pos __label__new so fine\n", encoding="utf-8")
    with pytest.raises(
        ParseError, match=r"train.txt:1: expected one label, got 'pos' and 'new'; --task multilabel reads"
    ):
        list(sa.read_examples(path))


def test_a_treebank_keeps_its_trees_by_every_door(tmp_path: Path) -> None:
    tree = sa.ConstituencyTree.from_brackets("(S (NP (D the) (N dog)) (V barks))")
    sentence = sa.Sentence(tree.words, ["D", "N", "V"], sa.DependencyTree([2, 3, 0], ["det", "nsubj", "root"]), tree)
    examples = [sa.Example((sentence,), "yes", id="1"), sa.Example((sa.Sentence(["so"]),), "no", id="2")]
    rows = [row for example in examples for row in make_rows(example)]
    write_rows(tmp_path / "data.jsonl", examples)
    for door in (
        sa.read_examples(tmp_path / "data.jsonl"),
        read_objects(rows),
        read_objects(pandas.DataFrame(rows)),
        read_objects(pandas.read_json(tmp_path / "data.jsonl", lines=True)),
    ):
        both = list(door)
        assert [example.label for example in both] == ["yes", "no"]
        assert both[0].sentences[0].dependency == sentence.dependency
        assert both[0].sentences[0].constituency == sentence.constituency


def test_labels_that_differ_by_case_are_said(tmp_path: Path) -> None:
    (warning,) = summarise(
        [sa.Example(text, label) for text, label in zip("abc", ["neg", "NEG", "pos"], strict=True)] * 9
    ).warnings
    assert warning == "data: the labels 'neg', 'NEG' differ only by case, and are different classes"
