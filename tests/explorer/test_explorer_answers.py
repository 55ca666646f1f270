"""Requests answered by models of every kind: what a reply says is what the functions of inspection say."""

import base64
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from backbones import save_tiny
from explorer_pages import unpack
from small_models import attachment_model, sentence_model
from structattn.data import Example, Vocabulary
from structattn.data.text_vocabulary import CharacterSplitter, TextVocabulary
from structattn.encoders import build
from structattn.errors import ConfigError
from structattn.explorer import Answers, tried_edits
from structattn.explorer.protocol import read_sentence, sentence_to_json
from structattn.explorer.reply_records import answer_to_json
from structattn.http.request_checks import RequestError
from structattn.inspection import arc_influence, flipping_edits, leave_one_out, look
from structattn.inspection.gradient_input import gradient_times_input, has_gradient
from structattn.inspection.single_edits import edit_example, move_word
from structattn.parsing.missing_trees import MissingTrees
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks import SENTIMENT, SequenceModel, Task, TextProcessor, get_task
from structattn.tasks.decoding import build_decoder

DOG = Sentence(
    ["a", "hippopotamus", "barks", "loudly"],
    ["DET", "NOUN", "VERB", "ADV"],
    DependencyTree([2, 3, 0, 3], ["det", "nsubj", "root", "advmod"]),
    ConstituencyTree.from_brackets("(S (NP (DT a) (NN hippopotamus)) (VP (VBZ barks) (RB loudly)))"),
)
KIDS = Sentence(
    ["two", "kids", "wash"],
    dependency=DependencyTree([2, 3, 0], ["nummod", "nsubj", "root"]),
    constituency=ConstituencyTree.from_brackets("(S (NP (CD two) (NNS kids)) (VBP wash))"),
)
VOCABULARY = Vocabulary(["a", "barks", "kids", "two", "wash"])
PAIR = Task("pair", arity=2, combine="product_absolute", labels=("no", "yes"))
TOGETHER = Task("together", arity=2, combine="together", labels=("no", "yes"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("asked"))


def words_model(name: str, task: Task = SENTIMENT, **options: Any) -> Any:
    torch.manual_seed(0)
    return sentence_model(name, task, vocabulary=VOCABULARY, options={"dim": 12, **options})


def translator() -> Any:
    source, target = Vocabulary(sorted(set("".join(DOG.words)))), TextVocabulary.from_texts(["ein Hund"])
    encoder = build("tree_transformer", vocab_size=len(source), dim=8, num_heads=2, num_layers=1)
    decoder = build_decoder("tree_transformer", encoder, len(target), num_heads=2)
    texts = TextProcessor(source, target, CharacterSplitter())
    return SequenceModel(encoder, decoder, get_task("translation"), texts=texts)


KINDS = {
    "ms_san": lambda folder: words_model("ms_san"),
    "disan": lambda folder: words_model("disan"),
    "tree_lstm": lambda folder: words_model("dependency_tree_lstm"),
    "tree_transformer": lambda folder: words_model("tree_transformer", num_heads=2),
    "structured": lambda folder: words_model("structured"),
    "decomposable": lambda folder: words_model("decomposable", TOGETHER),
    "pair": lambda folder: words_model("ms_san", PAIR),
    "score": lambda folder: words_model("dependency_tree_lstm", get_task("sick")),
    "attachment": lambda folder: attachment_model(
        "structured", get_task("attachment"), vocabulary=VOCABULARY, options={"dim": 6}
    ),
    "translation": lambda folder: translator(),
    "backbone": lambda folder: sentence_model(
        "injected",
        TOGETHER,
        vocabulary=Vocabulary([]),
        options={"heads": ["forward/dependency"]},
        embedder={"folder": str(folder)},
    ),
}


def request(do: str, model: Any, *, name: str = "mine", **fields: Any) -> dict[str, Any]:
    sentences = [sentence_to_json(one) for one in (DOG, KIDS)[: model.task.arity]]
    return {"v": 1, "id": 3, "do": do, "models": [name], "sentences": sentences, **fields}


def item(model: Any) -> Example:
    return Example((DOG, KIDS)[: model.task.arity])


def in_json(reply: dict[str, Any]) -> dict[str, Any]:
    assert "error" not in reply, reply
    found: dict[str, Any] = json.loads(json.dumps(reply, allow_nan=False))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_says_what_inspection_says(kind: str, folder: Path) -> None:
    model = KINDS[kind](folder).eval()
    answers = Answers({"mine": model})
    reply = in_json(answers.ask(request("look", model)))
    found = look(model, item(model))
    (entry,) = reply["looks"]
    assert (reply["v"], reply["id"], entry["model"], entry["task"]) == (1, 3, "mine", model.task.name)
    assert reply["sentences"] == [sentence_to_json(one) for one in found.example.sentences]
    assert entry["answer"] == {
        "label": found.answer.label,
        "probabilities": found.answer.probabilities,
        "score": found.answer.score,
        "text": found.answer.text,
    }
    assert len(entry["maps"]) == len(found.maps)
    for record, one in zip(entry["maps"], found.maps, strict=True):
        words = list(found.example.sentences[one.index].words)
        assert (record["name"], record["kind"], record["sentence"]) == (one.name, one.kind, one.index)
        assert record["heads"] == list(one.head_names)
        assert (record["rows"] or words) == list(one.rows)
        assert (record["columns"] or words) == list(one.columns)
        assert np.abs(unpack(record) - one.weights.numpy()).max(initial=0) <= record["scale"] / 131070 * 1.001
        forbidden = one.allowed is not None and bool((~one.allowed).any())
        assert (record["allowed"] is not None) == forbidden
    assert (entry["latent"] is None) == (found.latent[0] is None)
    for tree, known in zip(entry["latent"] or [], found.latent, strict=True) if entry["latent"] else ():
        assert known is not None
        assert tree["heads"] == list(known.heads)
        assert np.abs(unpack(tree) - known.probabilities.numpy()).max() < 1e-5
    assert set(entry["reads"]) <= {"order", "dependency", "constituency"}
    assert len(entry["unknown"]) == model.task.arity
    of_words = kind not in ("backbone", "translation")
    assert entry["unknown"][0] == ([1, 3] if of_words else [])


def test_subwords_name_their_words(folder: Path) -> None:
    model = KINDS["backbone"](folder)
    (entry,) = Answers({"mine": model}).ask(request("look", model))["looks"]
    words = entry["maps"][0]["words"]["rows"]
    assert words == entry["maps"][0]["words"]["columns"]
    assert words[:2] == [None, [0, 0]]
    assert words[-4:] == [[1, 0], [1, 1], [1, 2], None]
    assert words.count([0, 1]) > 1
    assert len(words) == len(entry["maps"][0]["rows"])
    single = sentence_model("backbone", SENTIMENT, vocabulary=Vocabulary([]), embedder={"folder": str(folder)})
    (entry,) = Answers({"mine": single}).ask(request("look", single))["looks"]
    assert entry["maps"][0]["words"]["rows"][:2] == [None, 0]


@pytest.mark.parametrize("do", ["influence", "arcs"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_influence_comes_in_parts(kind: str, do: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = KINDS[kind](folder).eval()
    answers = Answers({"mine": model})
    asked = request(do, model)
    whole = in_json(answers.ask(asked))
    longest = max(len(sentence) for sentence in item(model).sentences)
    monkeypatch.setattr(tried_edits, "_PAIRS_OF_A_REPLY", 2 * longest**2)  # two words a reply
    values, tried, replies = [[None] * len(row or ()) for row in whole["values"]], 0, 0
    while tried < whole["of"]:
        part = in_json(answers.ask({**asked, "from": tried}))
        for row, new in zip(values, part["values"], strict=True):
            row[:] = [old if value is None else value for old, value in zip(row, new or (), strict=False)]
        assert tried < part["tried"] <= whole["of"]
        tried, replies = part["tried"], replies + 1
    for row, expected in zip(values, whole["values"], strict=True):
        assert [value is None for value in row] == [value is None for value in expected or ()]
        assert [value or 0.0 for value in row] == pytest.approx([value or 0.0 for value in expected or ()], abs=1e-5)
    assert replies == (-(-whole["of"] // 2) if any(whole["values"]) else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_inspection(kind: str, folder: Path) -> None:
    model = KINDS[kind](folder).eval()
    reply = in_json(Answers({"mine": model}).ask(request("gradient", model)))
    if not has_gradient(model):
        assert reply["values"] == [None] * len(item(model).sentences)
        return
    expected = [list(each.changes) for each in gradient_times_input(model, item(model))]
    assert np.allclose(np.concatenate(reply["values"]), np.concatenate(expected), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_influence_and_flips_are_those_of_inspection(kind: str, folder: Path) -> None:
    model = KINDS[kind](folder).eval()
    answers = Answers({"mine": model})
    influence, arcs, flip = (in_json(answers.ask(request(do, model))) for do in ("influence", "arcs", "flip"))
    assert {influence["model"], arcs["model"], flip["model"]} == {"mine"}
    nothing = [None] * model.task.arity
    if model.task.answer != "label":
        assert influence["values"] == arcs["values"] == nothing
        assert (flip["edits"], flip["found"]) == ([], 0)
        return
    assert influence["values"] == [list(one.changes) for one in leave_one_out(model, item(model))]
    if "dependency" not in answers.reads["mine"]:
        assert arcs["values"] == nothing
        assert (flip["edits"], flip["found"]) == ([], 0)
        return
    assert arcs["values"] == [list(one.changes) for one in arc_influence(model, item(model))]
    edits = flipping_edits(model, item(model))
    assert flip["found"] == len(edits)
    assert [(one["sentence"], one["word"], one["head"], one["heads"]) for one in flip["edits"]] == [
        (edit.sentence, edit.word, edit.head, list(edit.tree.heads)) for edit in edits
    ]
    for one, edit in zip(flip["edits"], edits, strict=True):
        if edit.prediction.label is None:
            assert (one["label"], one["score"]) == (None, edit.prediction.score)
        else:
            assert (one["label"], one["p"]) == (edit.prediction.label, edit.prediction.probabilities[one["label"]])
    assert kind != "score" or edits


def test_a_flip_that_is_applied_gives_the_answer_it_promised() -> None:
    model = words_model("dependency_tree_lstm", get_task("sick")).eval()
    answers = Answers({"mine": model})
    edit = answers.ask(request("flip", model))["edits"][0]
    asked = request("look", model)
    asked["sentences"][edit["sentence"]] |= {"heads": edit["heads"], "labels": edit["labels"]}
    score = answers.ask(asked)["looks"][0]["answer"]["score"]
    assert score == pytest.approx(edit["score"], abs=1e-6)


def test_two_models_see_the_same_sentence() -> None:
    models = {"one": words_model("ms_san"), "two": words_model("transformer", num_heads=2)}
    reply = Answers(models).ask({**request("look", models["one"]), "models": ["two", "one"]})
    assert [entry["model"] for entry in reply["looks"]] == ["two", "one"]
    assert [entry["reads"] for entry in reply["looks"]] == [["order"], ["order", "dependency"]]
    for name, model in models.items():
        (alone,) = Answers({name: model}).ask(request("look", model, name=name))["looks"]
        assert alone in reply["looks"]


def test_256_words_and_two_models_are_enough_and_257_are_not() -> None:
    models = {"one": words_model("ms_san"), "two": words_model("disan")}
    answers = Answers(models)
    record = sentence_to_json(Sentence(["a"] * 256, dependency=DependencyTree(range(256))))
    reply = in_json(answers.ask({"v": 1, "id": 1, "do": "look", "models": ["one", "two"], "sentences": [record]}))
    assert [entry["maps"][0]["shape"] for entry in reply["looks"]] == [[6, 256, 256], [1, 256, 256]]
    refused = answers.ask({"v": 1, "id": 1, "do": "parse", "text": ["a " * 257]})
    assert refused["error"] == {
        "kind": "RequestError",
        "message": "sentence 0: expected 1 to 256 words, got 257",
        "sentence": 0,
        "word": None,
    }


def test_a_page_of_what_is_shown_has_the_edit_what_was_before_and_the_next_word() -> None:
    model = words_model("ms_san")
    metadata = {"verb": "bark", "wrong_verb": "barks"}
    born = Example((dataclasses.replace(DOG, metadata=metadata),), "positive")
    answers = Answers({"mine": model, "other": words_model("ms_san")})
    item = answers.boot([born], host="server")["items"][0]
    assert item["completions"] == {"positive": "bark", "negative": "barks"}
    before = item["sentences"]
    edited = [{**before[0], "heads": [4, 3, 0, 3]}]
    for sentences, compared, names in ((before, [], ["a hippopotamus barks loudly"]), (edited, before, None)):
        figure = {"what": "page", "format": "html", "before": compared}
        reply = answers.ask({**request("draw", model), "sentences": sentences, "figure": figure})
        html = base64.b64decode(reply["data"]).decode()
        boot = json.loads(html.split('class="structattn-explorer">')[1].split("</script>")[0])
        assert (reply["type"], boot["host"], [one["name"] for one in boot["models"]]) == (
            "text/html",
            "frozen",
            ["mine"],
        )
        assert [one["name"] for one in boot["items"]] == (names or ["after the edit", "before"])
        assert [one["sentences"][0]["heads"] for one in boot["items"]] == [
            one[0]["heads"] for one in (sentences, compared) if one
        ]
        for one in boot["items"]:
            assert (one["completions"], one["expected"]) == (item["completions"], "positive")
            assert one["edits"]["mine"]["dependency"]["looks"]


@pytest.mark.parametrize("kind", ["ms_san", "pair", "score"])
def test_moves_have_the_answers_of_the_moved_trees(kind: str, folder: Path) -> None:
    model = KINDS[kind](folder)
    number = model.task.arity - 1
    moves = [[0, 3], [0, 0], [1, 0]]
    reply = Answers({"mine": model}).ask(request("moves", model, number=number, moves=moves))
    for answer, (word, head) in zip(reply["answers"], moves, strict=True):
        tree = item(model).sentences[number].dependency
        moved = edit_example(item(model), number, move_word(tree, word, head))
        assert answer == answer_to_json(look(model, moved).answer) or answer["score"] == pytest.approx(
            look(model, moved).answer.score
        )
    below = Answers({"mine": model}).ask(request("moves", model, number=number, moves=[[1, 1]]))
    assert "cycle" in below["error"]["message"]


@pytest.mark.parametrize(("size", "start", "tried"), [(5, 0, 10), (40, 0, 780), (200, 0, 125), (256, 76, 152)])
def test_a_reply_has_as_many_edits_as_are_tried_in_part_of_a_second(size: int, start: int, tried: int) -> None:
    model = words_model("dependency_tree_lstm").eval()
    chain = Sentence(["a"] * size, dependency=DependencyTree(range(size)))
    asked = {"v": 1, "id": 1, "do": "flip", "models": ["one"], "sentences": [sentence_to_json(chain)], "from": start}
    reply = Answers({"one": model}).ask(asked)
    # Word i of a chain may hang from any of the i - 2 above its head, or be the root.
    assert (reply["tried"], reply["of"]) == (tried, size * (size - 1) // 2)
    assert reply["found"] == len(flipping_edits(model, chain, part=range(start, tried)))


def test_a_search_goes_on_where_it_ended() -> None:
    model = words_model("dependency_tree_lstm").eval()
    record = sentence_to_json(Sentence(["a"] * 60, dependency=DependencyTree(range(60))))
    ask = Answers({"one": model}).ask
    found, start, replies = 0, 0, 0
    while True:
        asked = {"v": 1, "id": 1, "do": "flip", "models": ["one"], "sentences": [record], "from": start}
        reply = ask(asked)
        found, start, replies = found + reply["found"], reply["tried"], replies + 1
        if start == reply["of"]:
            break
    assert replies == 2
    chain = Sentence(["a"] * 60, dependency=DependencyTree(range(60)))
    assert found == len(flipping_edits(model, chain))
    assert ask({**asked, "from": 10**6})["found"] == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"models": ["other"]}, "models: expected some of mine, got 'other'"),
        (
            {"sentences": [sentence_to_json(DOG), sentence_to_json(KIDS)]},
            "sentences: expected 1 for task 'sentiment', got 2",
        ),
        ({"sentences": [{"words": ["a"], "heads": [1]}]}, "sentence 0: heads must not form a cycle, got 1 -> 1"),
        ({"do": "draw", "figure": {"what": "latent", "format": "svg"}}, "expected a model with latent trees, got mine"),
        (
            {"do": "draw", "figure": {"what": "heads", "format": "svg", "before": [sentence_to_json(KIDS)]}},
            "figure.before: expected the same words and phrases as now, got others",
        ),
    ],
)
def test_a_request_that_does_not_fit_the_models_is_answered_with_an_error(fields: Any, message: str) -> None:
    model = words_model("ms_san")
    reply = Answers({"mine": model}).ask({**request("look", model), **fields})
    assert set(reply) == {"v", "id", "error"}
    assert reply["id"] == 3
    assert reply["error"]["message"].startswith(message)


@pytest.mark.parametrize("bad", [None, 3, [], {}, {"id": "x"}, {"v": 1, "id": True, "do": "look"}])
def test_ask_never_raises(bad: Any) -> None:
    reply = Answers({"mine": words_model("emb_s2t")}).ask(bad)
    assert set(reply) == {"v", "id", "error"}


def test_a_fault_of_ours_is_a_reply_too(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    model = words_model("emb_s2t")
    answers = Answers({"mine": model})
    monkeypatch.setattr(model, "predict", None)
    reply = answers.ask(request("look", model))
    assert reply["error"]["kind"] == "TypeError"
    assert "request 3 failed" in caplog.text


EN = "en 0.1.0"


def test_a_text_gets_the_tree_of_a_parser_and_says_which() -> None:
    asked = {"v": 1, "id": 1, "do": "parse", "text": ["Two kids wash."]}
    (packaged,) = Answers({"mine": words_model("ms_san")}).ask(asked)["sentences"]
    assert (packaged["words"], packaged["heads"]) == (["Two", "kids", "wash", "."], [2, 3, 0, 3])
    assert (packaged["text"], packaged["found_by"]) == ("Two kids wash.", {"dependency": EN})
    (bare,) = Answers({"mine": words_model("disan")}).ask(asked)["sentences"]
    assert (bare["heads"], bare["phrases"], "found_by" in bare) == (None, None, False)
    (parsed,) = Answers({"mine": words_model("disan")}, MissingTrees("en")).ask(asked)["sentences"]
    assert parsed["labels"] == ["nummod", "nsubj", "root", "punct"]
    remembering = words_model("ms_san")
    remembering.find_trees = MissingTrees("en")
    (found,) = Answers({"mine": remembering}).ask(asked)["sentences"]
    assert found == parsed == packaged


@pytest.mark.parametrize("trained_on", ["phrases of its data", "phrases of a parser"])
def test_phrases_of_a_text_say_what_they_were_made_from(trained_on: str) -> None:
    asked = {"v": 1, "id": 1, "do": "parse", "text": ["Two kids wash."]}
    model = words_model("tree_transformer", num_heads=2)
    if trained_on == "phrases of a parser":
        model.find_trees = MissingTrees("en", structures=("constituency",))
    answers = Answers({"mine": model})
    (sentence,) = answers.ask(asked)["sentences"]
    assert (sentence["heads"], sentence["found_by"]["constituency"]) == ([2, 3, 0, 3], EN)
    assert [span[1:] for span in sentence["phrases"]] == [[0, 4], [0, 2]]
    (entry,) = answers.boot([], host="server")["models"]
    assert entry["parsed_phrases"] == (trained_on == "phrases of a parser")


def test_what_no_parser_has_found_is_called_a_chain() -> None:
    class Silent:
        name, version, count = "silent", "1", 0

        def __call__(self, examples: list[Example]) -> list[Example]:
            return examples

    asked = {"v": 1, "id": 1, "do": "parse", "text": ["Two kids wash."]}
    (sentence,) = Answers({"mine": words_model("ms_san")}, Silent()).ask(asked)["sentences"]  # type: ignore[arg-type]
    assert (sentence["heads"], sentence["found_by"]) == ([0, 1, 2, 3], {"dependency": "chain"})


def test_the_source_of_a_tree_stays_with_it_and_trees_of_the_data_have_none() -> None:
    model = words_model("ms_san")
    answers = Answers({"mine": model})
    (sentence,) = answers.ask({"v": 1, "id": 1, "do": "parse", "text": ["Two kids wash."]})["sentences"]
    edited = {**sentence, "heads": [3, 3, 0, 3]}
    (seen,) = answers.ask({**request("look", model), "sentences": [edited]})["sentences"]
    assert seen == edited
    assert "found_by" not in answers.ask(request("look", model))["sentences"][0]
    boot = answers.boot([Sentence(["kids", "wash"]), DOG], host="server")
    assert [item["sentences"][0].get("found_by") for item in boot["items"]] == [{"dependency": EN}, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["heads", "tree", "phrases", "pooling", "latent"])
def test_a_picture_has_the_words(kind: str, what: str, folder: Path) -> None:
    model = KINDS[kind](folder)
    answers = Answers({"mine": model})
    figure = {"what": what, "format": "svg", "before": None}
    reply = answers.ask(request("draw", model, figure=figure))
    has_latent = kind in ("structured", "decomposable", "attachment")
    lacks = {
        "heads": kind == "tree_lstm" or kind == "score",
        "pooling": kind in ("attachment", "backbone"),
        "latent": not has_latent,
    }
    assert ("error" in reply) == lacks.get(what, False), reply
    if "error" not in reply:
        assert reply["type"] == "image/svg+xml"
        svg = base64.b64decode(reply["data"]).decode()
        assert svg.startswith("<svg")
        assert all(word in svg for word in ("barks", "loudly")) or kind in ("translation", "backbone")
        assert model.task.arity == 1 or "wash" in svg


def test_only_the_heads_that_are_named_are_drawn_on_the_scale_of_all() -> None:
    model = words_model("ms_san")
    answers = Answers({"mine": model})
    (entry,) = answers.ask(request("look", model))["looks"]
    name = next(part["name"] for part in entry["maps"] if part["kind"] == "attention")
    keys = [f"mine/{name}/0/{number}" for number in range(6)]
    pictures = []
    for heads in (None, keys, keys[2:3], ["mine/nothing/0/0"]):
        reply = answers.ask(request("draw", model, figure={"what": "heads", "format": "svg", "heads": heads}))
        pictures.append(base64.b64decode(reply["data"]).decode() if "data" in reply else reply["error"]["message"])
    every, named, one, none = pictures
    assert every == named
    assert (every.count("sa-cells sa-s-paper"), one.count("sa-cells sa-s-paper")) == (6, 1)
    scales = [re.findall(r'font-size="10"[^>]*>([\d.]+)<', svg) for svg in (every, one)]
    assert scales[0][-3:] == scales[1][-3:]
    assert none.startswith(f"figure.heads: expected some of {keys[0]}")


def test_a_change_is_drawn_and_no_change_is_none() -> None:
    model = words_model("ms_san")
    answers = Answers({"mine": model})
    moved = sentence_to_json(dataclasses.replace(DOG, dependency=DependencyTree([2, 3, 0, 1])))
    pictures = {}
    for name, before in (("changed", moved), ("same", sentence_to_json(DOG))):
        figure = {"what": "heads", "format": "svg", "before": [before]}
        reply = answers.ask(request("draw", model, figure=figure))
        pictures[name] = base64.b64decode(reply["data"]).decode()
        assert "change of weight" in pictures[name]
    assert pictures["changed"] != pictures["same"]


def test_what_a_page_is_born_with() -> None:
    models = {"one": words_model("ms_san"), "two": words_model("dependency_tree_lstm"), "three": words_model("disan")}
    answers = Answers(models)
    items = [Example((DOG,), "positive", id="a"), Sentence(["kids", "wash"])]
    boot = in_json(answers.boot(items, host="frozen", influence=True, command="structattn"))
    assert (boot["v"], boot["host"], boot["command"], boot["view"]) == (
        1,
        "frozen",
        "structattn",
        {"item": 0, "models": ["one"]},
    )
    assert [one["name"] for one in boot["models"]] == list(models)
    assert [one["reads"] for one in boot["models"]] == [["order", "dependency"], ["dependency"], ["order"]]
    assert len({one["sha256"] for one in boot["models"]}) == 3
    assert boot["models"][0]["labels"] == ["negative", "positive"]
    assert [one["expected"] for one in boot["items"]] == ["positive", None]
    assert boot["items"][1]["sentences"][0]["heads"] == [2, 0]
    for entry in boot["items"]:
        assert [one["model"] for one in entry["replies"]["look"]["looks"]] == list(models)
        for do in ("influence", "gradient", "arcs"):
            assert list(entry["replies"][do]) == list(models)
        carried = {name: list(structures) for name, structures in entry["edits"].items()}
        assert carried == {"one": ["dependency"], "two": ["dependency"], "three": []}
    live = answers.boot(items, host="server")
    assert [list(one["replies"]) for one in live["items"]] == [["look"], []]
    for entry in live["items"]:
        example = Example(tuple(map(read_sentence, entry["sentences"])))
        expected = {name: model.predict([example])[0].label for name, model in models.items()}
        assert {name: answer["label"] for name, answer in entry["answers"].items()} == expected
    assert Answers({name: models[name] for name in ("one", "two")}).boot(items, host="server")["view"]["models"] == [
        "one",
        "two",
    ]


def test_a_page_opens_on_a_sentence_of_which_an_edit_flips_the_answer() -> None:
    model = words_model("dependency_tree_lstm", get_task("sick")).eval()  # any edit moves a score
    answers = Answers({"mine": model, "other": words_model("ms_san", get_task("sick"))})
    single = Example((Sentence(["a"], dependency=DependencyTree([0])),) * 2)
    examples = [single, Example((DOG, KIDS)), single]
    for host, opened in (("server", 1), ("frozen", 1), ("widget", 0)):
        boot = answers.boot(examples, host=host)
        assert boot["view"]["item"] == opened
        assert "look" in boot["items"][opened]["replies"]
    assert answers.boot([single], host="server")["view"]["item"] == 0


def test_models_that_cannot_be_explored_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected at least one model to explore, got none"):
        Answers({})
    with pytest.raises(ConfigError, match=r"bare: expected a model that answers a task, .* got SentenceEncoder"):
        Answers({"bare": build("emb_s2t", vocab_size=5, dim=4)})
    without = words_model("emb_s2t")
    without.encoder = torch.nn.Identity()
    with pytest.raises(ConfigError, match="expected a model with a sentence encoder, got one of task 'sentiment'"):
        Answers({"without": without})
    with pytest.raises(ConfigError, match="expected models that read the same number of sentences, got a 1, b 2"):
        Answers({"a": words_model("emb_s2t"), "b": words_model("emb_s2t", PAIR)})
    with pytest.raises(RequestError, match="sentence 0: expected 1 to 256 words, got 257"):
        Answers({"a": words_model("emb_s2t")}).boot([Sentence(["a"] * 257)], host="server")


def test_models_are_left_as_they_were() -> None:
    model = words_model("ms_san").train()
    modes = [part.training for part in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random_state = torch.get_rng_state()
    answers = Answers({"mine": model})
    for do in ("look", "influence", "arcs", "flip"):
        in_json(answers.ask(request(do, model)))
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
