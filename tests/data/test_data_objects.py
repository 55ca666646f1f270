"""Examples from Python objects: each kind of collection gives the same examples."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from structattn.data import Example
from structattn.data.readers.python_objects import read_objects
from structattn.errors import ConfigError, ParseError
from structattn.syntax import Sentence

TEXTS = ("It isn't bad.", "Dull")
LABELS = ("pos", "neg")
EXPECTED = [(("It", "is", "n't", "bad", "."), "pos"), (("Dull",), "neg")]


class Frame:
    """What this library uses of a pandas ``DataFrame``."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = list(columns)
        self._rows = list(zip(*columns.values(), strict=True))

    def itertuples(self, *, index: bool, name: str | None) -> Iterable[tuple[Any, ...]]:
        assert not index
        assert name is None
        return iter(self._rows)

    def __iter__(self) -> Iterable[str]:
        return iter(self.columns)


class Dataset(list):  # type: ignore[type-arg]
    """What this library uses of a ``datasets.Dataset``."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__(rows)
        self.features = {"text": SimpleNamespace(dtype="string"), "label": SimpleNamespace(names=["neg", "pos"])}


@pytest.mark.parametrize(
    "data",
    [
        Frame({"text": list(TEXTS), "label": list(LABELS)}),
        Frame({"Unnamed: 0": [0, 1], "Sentiment": list(LABELS), "Review": list(TEXTS)}),
        Dataset([{"text": TEXTS[0], "label": 1}, {"text": TEXTS[1], "label": 0}]),
        [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)],
        list(zip(TEXTS, LABELS, strict=True)),
        (row for row in zip(TEXTS, LABELS, strict=True)),
        [Example(text, label) for text, label in zip(TEXTS, LABELS, strict=True)],
        [{"words": words, "label": label} for words, label in EXPECTED],
    ],
    ids=["frame", "usual names", "dataset", "mappings", "tuples", "generator", "examples", "words"],
)
def test_every_kind_of_collection(data: Iterable[Any]) -> None:
    assert [(example.sentences[0].words, example.label) for example in read_objects(data)] == EXPECTED


def test_texts_and_sentences_have_no_labels() -> None:
    found = list(read_objects(["It isn't bad.", Sentence(["Dull"])]))
    assert [(example.sentences[0].words, example.label, example.id) for example in found] == [
        (EXPECTED[0][0], None, "0"), (("Dull",), None, "1")
    ]  # fmt: skip


def test_pairs() -> None:
    rows = [{"a": "one", "b": "two", "c": "same", "n": 7}]
    (example,) = read_objects(rows, text_column=("a", "b"), label_column="c", id_column="n")
    assert [sentence.words for sentence in example.sentences] == [("one",), ("two",)]
    assert (example.label, example.id) == ("same", "7")
    (example,) = read_objects([("one", "two", "same")])
    assert (len(example.sentences), example.label) == (2, "same")


@pytest.mark.parametrize("pair", [("one", "two"), (Sentence(["one"]), Sentence(["two"])), ("one", Sentence(["two"]))])
def test_a_tuple_of_two_is_a_pair_where_an_example_has_two_texts(pair: tuple[Any, ...]) -> None:
    (example,) = read_objects([pair], num_texts=2)
    assert [sentence.words for sentence in example.sentences] == [("one",), ("two",)]
    assert (example.label, example.id) == (None, "0")


@pytest.mark.parametrize(
    ("label", "target", "expected"),
    [
        (1, None, "1"),
        (np.int64(1), None, "1"),
        (1, "score", 1.0),
        (1.5, None, 1.5),
        (np.float32(1.5), None, 1.5),
        (True, None, "true"),
        (None, None, None),
        (float("nan"), None, None),
    ],
)
def test_labels(label: object, target: str | None, expected: object) -> None:
    (example,) = read_objects([{"text": "a", "label": label}], target=target)
    assert example.label == expected
    assert type(example.label) is type(expected)


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([3], {}, ParseError, "data:1: expected a mapping, a tuple .* got 3"),
        ([("a", "b"), ("a", "b", "c", "d")], {}, ParseError, r"data:2: expected a tuple .* got 4 values"),
        (
            [{"x": "a"}],
            {},
            ParseError,
            "data:1: expected a column such as text or review, .* got 'x'; name the columns",
        ),
        ([{"text": "a"}], {"label_column": "y"}, ParseError, "data:1: expected a column 'y', got 'text'"),
        ([{"text": 3}], {}, ParseError, "data:1: expected text or a list of words under 'text', got 3"),
        ("train.csv", {}, ParseError, "expected a data frame, a data set or a list of examples, got 'train.csv'"),
        ({"train": [], "dev": []}, {}, ParseError, r"a list of examples, got dict with the keys \['train', 'dev'\]"),
        ([("a", "b")], {"target": "rank"}, ConfigError, "unknown target 'rank'"),
    ],
)
def test_what_is_no_data(data: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(read_objects(data, **options))


@pytest.mark.parametrize(
    "row", ["dull \ud83d", ("dull", "a\ud83d"), {"words": ["\udc00"]}, {"text": "a", "id": "\ud83d"},
            Sentence(["\ud83d"]), Example("a \ud83d"), Example((Sentence(["a"]), Sentence(["\udfff"])))]
)  # fmt: skip
def test_half_a_character_is_refused(row: Any) -> None:
    rows = read_objects(["\N{GRINNING FACE}", row])
    assert next(rows).sentences[0].words == ("\N{GRINNING FACE}",)
    with pytest.raises(ParseError, match="data:2: expected characters, got half of a surrogate pair in "):
        next(rows)


def test_a_column_twice_in_a_data_frame_is_refused_if_it_is_read() -> None:
    pandas = pytest.importorskip("pandas")
    row = ["so fine", "pos", 1, 2]
    frame = pandas.DataFrame([row], columns=["text", "label", "note", "note"])
    assert next(read_objects(frame)).label == "pos"
    frame.columns = ["text", "label", "note", "text"]
    with pytest.raises(ParseError, match="expected one column 'text', got 2"):
        next(read_objects(frame))


def test_missing_labels_of_pandas_are_unknown() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", "b", "c"], "label": pandas.array(["x", pandas.NA, "y"], dtype="string")})
    assert [example.label for example in read_objects(frame)] == ["x", None, "y"]
    numbers = pandas.DataFrame({"text": ["a", "b"], "label": pandas.array([1, None], dtype="Int64")})
    assert [example.label for example in read_objects(numbers)] == ["1", None]
