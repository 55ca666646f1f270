"""What a page and Python say to each other: matrices come back, every bad request is refused in one line."""

import base64
import json
import math
import random
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
import torch

from explorer_pages import unpack
from structattn.data import Example
from structattn.explorer.protocol import Request, check_request, read_sentence, sentence_to_json
from structattn.explorer.reply_records import pack, pack_bits, shorten_text
from structattn.http.request_checks import MOST_BYTES, RequestError, read_body
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

DOG = {
    "words": ["a", "dog", "barks"],
    "heads": [2, 3, 0],
    "labels": ["det", "nsubj", "root"],
    "phrases": [["NP", 0, 2]],
}
LOOK = {"v": 1, "id": 7, "do": "look", "models": ["mine"], "sentences": [DOG], "text": None, "figure": None}
PARSE = {"v": 1, "id": 7, "do": "parse", "text": ["a dog barks"]}
DRAW = {**LOOK, "do": "draw", "figure": {"what": "heads", "format": "svg"}}


def changed(**fields: Any) -> dict[str, Any]:
    return {**LOOK, **fields}


def moves(pairs: Any, number: Any = 0) -> dict[str, Any]:
    return changed(do="moves", models=["mine"], number=number, moves=pairs)


def about(**fields: Any) -> dict[str, Any]:
    return changed(sentences=[{**DOG, **fields}])


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([LOOK], "request: expected an object"),
    "nothing": (None, "request: expected an object, got None"),
    "unknown key": (changed(path="/etc/passwd"), "request: unknown key 'path'; known: v, id"),
    "no version": ({"id": 7, "do": "look"}, "v: expected 1, got None"),
    "later version": (changed(v=2), "v: expected 1, got 2"),
    "version true": (changed(v=True), "v: expected 1, got True"),
    "no id": ({"v": 1, "do": "look"}, "id: expected a whole number, got None"),
    "id of letters": (changed(id="7"), "id: expected a whole number, got '7'"),
    "id in parts": (changed(id=7.5), "id: expected a whole number, got 7.5"),
    "id true": (changed(id=True), "id: expected a whole number, got True"),
    "unknown action": (changed(do="train"), "do: expected one of look, parse"),
    "no action": (
        changed(do=None),
        "do: expected one of look, parse, influence, gradient, arcs, flip, moves, draw, got None",
    ),
    "action in a list": (changed(do=["look"]), "do: expected one of"),
    "no models": (changed(models=[]), "models: expected 1 to 2, got 0"),
    "three models": (changed(models=["a", "b", "c"]), "models: expected 1 to 2, got 3"),
    "models as a text": (changed(models="mine"), "models: expected a list, got 'mine'"),
    "model as a number": (changed(models=[1]), "models: expected texts, got 1"),
    "influence on two": (changed(do="influence", models=["a", "b"]), "models: expected 1, got 2"),
    "arcs of two": (changed(do="arcs", models=["a", "b"]), "models: expected 1, got 2"),
    "edits from below": (
        changed(do="flip", models=["a"], **{"from": -1}),
        "from: expected a whole number from 0, got -1",
    ),
    "edits from a text": (changed(do="flip", models=["a"], **{"from": "2"}), "from: expected a whole number from 0"),
    "flips of two": (changed(do="flip", models=["a", "b"]), "models: expected 1, got 2"),
    "moves of no sentence": (moves([[0, 3]], 1), "number: expected that of a sentence, got 1"),
    "moves of a sentence by name": (moves([[0, 3]], "0"), "number: expected that of a sentence, got '0'"),
    "no moves": (moves([]), "moves: expected 1 to 256, got 0"),
    "move of no word": (moves([[3, 1]]), "moves: expected a word and its new head each, got [3, 1]"),
    "move below no word": (moves([[0, 4]]), "moves: expected a word and its new head each, got [0, 4]"),
    "half a move": (moves([[0]]), "moves: expected a word and its new head each, got [0]"),
    "no sentences": (changed(sentences=None), "sentences: expected a list, got None"),
    "empty list of sentences": (changed(sentences=[]), "sentences: expected 1 to 2, got 0"),
    "three sentences": (changed(sentences=[DOG] * 3), "sentences: expected 1 to 2, got 3"),
    "sentence as a text": (changed(sentences=["a dog"]), "sentence 0: sentence: expected an object, got 'a dog'"),
    "unknown key of a sentence": (about(lemmas=[]), "sentence 0: sentence: unknown key 'lemmas'"),
    "no words": (about(words=[]), "sentence 0: words: expected 1 to 256, got 0"),
    "words missing": (changed(sentences=[{}]), "sentence 0: words: expected a list, got None"),
    "257 words": (about(words=["a"] * 257), "sentence 0: words: expected 1 to 256, got 257"),
    "word as a number": (about(words=["a", 1, "b"]), "sentence 0: words: expected texts, got 1"),
    "empty word": (about(words=["a", "", "b"]), "sentence 0: words: expected no empty word, got ''"),
    "half a character": (about(words=["a", "\ud83d", "b"]), "sentence 0: words: expected texts, got '\\ud83d'"),
    "tags of other words": (about(tags=["DET"]), "sentence 0: tags: expected one for each of 3 words, got 1"),
    "tag as a number": (about(tags=["DET", 1, "X"]), "sentence 0: tags: expected a text for word 2, got 1"),
    "heads of other words": (about(heads=[0]), "sentence 0: heads: expected one for each of 3 words, got 1"),
    "head out of range": (about(heads=[2, 4, 0]), "sentence 0: heads: expected a number from 0 to 3, got 4 at word 2"),
    "head below zero": (about(heads=[2, -1, 0]), "heads: expected a number from 0 to 3, got -1 at word 2"),
    "head in parts": (about(heads=[2, 3.0, 0]), "heads: expected a number from 0 to 3, got 3.0 at word 2"),
    "head true": (about(heads=[True, 3, 0]), "heads: expected a number from 0 to 3, got True at word 1"),
    "cycle": (about(heads=[2, 1, 0]), "sentence 0: heads must not form a cycle, got 1 -> 2 -> 1"),
    "own head": (about(heads=[1, 3, 0]), "sentence 0: heads must not form a cycle, got 1 -> 1"),
    "labels without heads": (about(heads=None), "sentence 0: labels: expected heads with them, got none"),
    "labels of other words": (about(labels=["x"]), "sentence 0: labels: expected one for each of 3 words, got 1"),
    "phrases that cross": (about(phrases=[["A", 0, 2], ["B", 1, 3]]), "sentence 0: spans must not cross"),
    "empty phrase": (about(phrases=[["A", 1, 1]]), "sentence 0: span 'A' must contain at least one of 3 words"),
    "phrase out of range": (about(phrases=[["A", 0, 4]]), "sentence 0: span 'A' must contain at least one of 3 words"),
    "phrase without an end": (about(phrases=[["A", 0]]), "phrases: expected [label, start, end] each, got ['A', 0]"),
    "phrase of letters": (about(phrases=[["A", "0", "2"]]), "phrases: expected [label, start, end] each"),
    "too many phrases": (about(phrases=[["A", 0, 3]] * 1025), "phrases: expected 0 to 1024, got 1,025"),
    "text as a number": (about(text=3), "sentence 0: text: expected a text of at most 20,000 characters, got 3"),
    "leaf as a number": (about(leaves=[None, 3, "X"]), "sentence 0: leaves: expected a text for word 2, got 3"),
    "nothing to parse": ({**PARSE, "text": [" "]}, "text: expected at least one word, got none"),
    "text to parse as a text": ({**PARSE, "text": "a dog"}, "text: expected a list, got 'a dog'"),
    "long text": ({**PARSE, "text": ["a" * 20_001]}, "text: expected at most 20,000 characters, got 20,001"),
    "three texts": ({**PARSE, "text": ["a"] * 3}, "text: expected 1 to 2, got 3"),
    "no figure": (changed(do="draw"), "figure: expected an object, got None"),
    "unknown figure": ({**DRAW, "figure": {"what": "cat", "format": "svg"}}, "figure.what: expected one of heads"),
    "unknown format": (
        {**DRAW, "figure": {"what": "tree", "format": "exe"}},
        "figure.format: expected one of svg, png",
    ),
    "picture of a page": ({**DRAW, "figure": {"what": "page", "format": "svg"}}, "figure.format: expected one of html"),
    "page of a picture": ({**DRAW, "figure": {"what": "tree", "format": "html"}}, "figure.format: expected one of svg"),
    "unknown key of a figure": ({**DRAW, "figure": {"file": "x"}}, "figure: unknown key 'file'"),
    "bad sentence before": (
        {**DRAW, "figure": {"what": "heads", "format": "svg", "before": [{"words": []}]}},
        "sentence 0: words: expected 1 to 256, got 0",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused_in_one_line(name: str) -> None:
    request, message = BAD[name]
    with pytest.raises(RequestError) as caught:
        check_request(request)
    assert str(caught.value).startswith(message) or message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("request_", "word"), [(about(words=["a", "", "b"]), 1), (about(heads=[2, 4, 0]), 1)])
def test_a_mistake_at_a_word_names_it(request_: Any, word: int) -> None:
    with pytest.raises(RequestError) as caught:
        check_request({**request_, "sentences": [DOG, *request_["sentences"]]})
    assert (caught.value.sentence, caught.value.word) == (1, word)


def test_a_good_request_becomes_values() -> None:
    dog = Sentence(
        ["a", "dog", "barks"],
        dependency=DependencyTree([2, 3, 0], ["det", "nsubj", "root"]),
        constituency=ConstituencyTree(["a", "dog", "barks"], [("NP", 0, 2)]),
    )
    assert check_request(LOOK) == Request(7, "look", ("mine",), (dog,))
    assert check_request(PARSE) == Request(7, "parse", texts=("a dog barks",))
    figure = check_request({**DRAW, "figure": {"what": "heads", "format": "svg", "before": [DOG]}}).figure
    assert figure is not None
    assert figure.originals == (dog,)
    words = [f"w{number}" for number in range(256)]
    assert len(check_request(about(words=words, heads=None, labels=None, phrases=None)).sentences[0]) == 256


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[1]", "expected a JSON object, got [1]"),
        (b"{", "expected JSON: Expecting property name"),
        (b"\xff", "expected JSON: 'utf-8' codec can't decode"),
        (b"[" * 100_000, "expected JSON: it is nested too deeply"),
        (b" " * (MOST_BYTES + 1), "expected a request of at most 1,000,000 bytes, got 1,000,001"),
    ],
)
def test_a_body_that_is_no_request(body: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=r"^expected") as caught:
        read_body(body)
    assert str(caught.value).startswith(message)
    assert read_body(b'{"v": 1}') == {"v": 1}


def some_sentences() -> list[Sentence]:
    words = ["a", "dog", "barks"]
    brackets = ConstituencyTree.from_brackets("(S (NP (DT a) (NN dog)) barks)")
    return [
        Sentence(words),
        Sentence(words, ["DET", "NOUN", "VERB"]),
        Sentence(words, dependency=DependencyTree([2, 3, 0])),
        Sentence(words, dependency=DependencyTree([0, 0, 1], ["x", "y", "z"])),
        Sentence(words, constituency=ConstituencyTree(words, [("S", 0, 3), ("S", 0, 3), ("NP", 0, 2)])),
        Sentence(words, constituency=ConstituencyTree(words, tags=["DT", "NN", "VB"])),
        Sentence(words, ["DET", "NOUN", "VERB"], DependencyTree([2, 3, 0], ["x", "y", "z"]), brackets),
        Sentence(["It", "is", "n't", "."], metadata={"text": "It isn't."}),
    ]


@pytest.mark.parametrize("sentence", some_sentences())
def test_a_sentence_comes_back_as_it_was(sentence: Sentence) -> None:
    record = json.loads(json.dumps(sentence_to_json(sentence)))
    found = read_sentence(record)
    assert sentence_to_json(found) == record
    assert (found.words, found.dependency, found.constituency) == (
        sentence.words,
        sentence.dependency,
        sentence.constituency,
    )
    assert found.text == sentence.text
    assert sentence.tags is None or found.tags == sentence.tags


@pytest.mark.parametrize("shape", [(0,), (1,), (6, 7, 7), (2, 3), (1, 0, 4)])
@pytest.mark.parametrize("top", [1.0, 0.001, 37.5, 1e-30])
def test_packed_numbers_come_back(shape: tuple[int, ...], top: float) -> None:
    generator = np.random.default_rng(0)
    weights = generator.random(shape) * top
    packed = json.loads(json.dumps(pack(weights)))
    assert packed["scale"] > 0
    found = unpack(packed)
    assert found.shape == shape
    assert (np.abs(found - weights) <= packed["scale"] / 131070 * (1 + 1e-9)).all()
    np.testing.assert_allclose(unpack(pack(found)), found, rtol=1e-12)
    assert pack(torch.tensor(weights)) == pack(weights) == pack(weights.tolist()) or weights.size == 0


def test_packed_numbers_by_hand() -> None:
    packed = pack([[1.0, 0.0, 0.5, 256 / 65535]])
    assert (packed["shape"], packed["scale"]) == ([1, 4], 1.0)
    assert zlib.decompress(base64.b64decode(packed["data"])) == bytes([255, 0, 128, 1, 255, 0, 0, 0])
    assert pack(np.zeros((2, 2)))["scale"] == 1.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001])
def test_numbers_that_are_no_weights_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"expected (finite weights, got|weights of at least 0, got)"):
        pack([0.5, value])


def test_packed_flags_by_hand() -> None:
    generator = random.Random(0)
    for size in (1, 7, 8, 9, 100):
        flags = [generator.random() < 0.5 for _ in range(size)] + [False]
        text = pack_bits(flags)
        assert text is not None
        bits = "".join(f"{byte:08b}" for byte in zlib.decompress(base64.b64decode(text)))
        assert [bit == "1" for bit in bits[: len(flags)]] == flags
        assert set(bits[len(flags) :]) <= {"0"}
    assert pack_bits(torch.ones(2, 3, dtype=torch.bool)) is None


def test_items_are_named_by_the_beginning_of_their_text() -> None:
    assert shorten_text(Example(("A dog.", "An animal."))) == "A dog . / An animal ."
    assert shorten_text(Example("a " * 44 + "b")) == ("a " * 44)[:87] + "…"


def test_the_protocol_needs_no_torch() -> None:
    program = "import sys, structattn.explorer.protocol; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
