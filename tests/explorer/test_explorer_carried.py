"""Edits on a page without a server: every answer and every weight is that of the model."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_explorer_answers import DOG, KIDS, KINDS, VOCABULARY, words_model

from backbones import save_tiny
from explorer_live import explorer, status, word
from explorer_pages import missing, opened
from small_models import sentence_model
from structattn.data import Example
from structattn.explorer import Answers, carried_edits
from structattn.explorer.explorer_page import frozen_page
from structattn.explorer.protocol import sentence_to_json
from structattn.inspection import flipping_edits, look
from structattn.inspection.single_edits import list_edits, moved_twice, replace_tree
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import SENTIMENT

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
ASKED = """async ([name, edits]) => {
  const app = [...document.querySelectorAll("div")].find(e => e.explorer).explorer;
  const said = [];
  for (const sentences of edits) {
    const look = await app.replies.looks([name], sentences).then(([reply]) => reply.look, error => error.message);
    said.push(look.answer ? {
      answer: look.answer,
      maps: look.maps.map(({ weights, allowed, rows, columns, shape }) =>
        ({ weights: [...weights], allowed: allowed && [...allowed], rows, columns, shape })),
    } : look);
  }
  return said;
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("carried"))


def write_page(folder: Path, model: Any, example: Example, **options: Any) -> Path:
    path = folder / "page.html"
    path.write_text(frozen_page(Answers({"mine": model}).boot([example], host="frozen", **options)), encoding="utf-8")
    return path


def ask_page(page: Any, edits: list[Example]) -> list[Any]:
    records = [[sentence_to_json(sentence) for sentence in edit.sentences] for edit in edits]
    return list(page.evaluate(ASKED, ["mine", records]))


def check_answer(said: Any, answer: Any, error: float = 1e-5) -> None:
    assert said["answer"]["label"] == answer.label
    for label, share in answer.probabilities.items():
        assert said["answer"]["probabilities"][label] == pytest.approx(share, abs=error)
    if answer.score is not None:
        assert said["answer"]["score"] == pytest.approx(answer.score, abs=1e-5)


@pytest.mark.parametrize("kind", ["ms_san", "tree_lstm", "tree_transformer", "pair", "score", "backbone", "disan"])
def test_every_single_edit_has_the_answer_and_the_weights_of_the_model(
    chromium: Any, folder: Path, tmp_path: Path, kind: str
) -> None:
    torch.manual_seed(0)
    model = KINDS[kind](folder).eval()
    example = Example((DOG, KIDS)[: model.task.arity])
    edits = [edit for structure in ("dependency", "constituency") for edit in list_edits(example, structure)]
    with opened(chromium, write_page(tmp_path, model, example)) as page:
        said = ask_page(page, edits)
    assert len(said) == len(edits) > 10
    for reply, edit in zip(said, edits, strict=True):
        seen = look(model, edit)
        check_answer(reply, seen.answer)
        for record, part in zip(reply["maps"], seen.maps, strict=True):
            assert record["shape"] == list(part.weights.shape)
            assert np.abs(np.array(record["weights"]) - part.weights.numpy().ravel()).max() < 1e-5
            assert record["rows"] in (None, list(part.rows))
            assert record["columns"] in (None, list(part.columns))
            flags = True if part.allowed is None else part.allowed.numpy()
            expected = np.broadcast_to(flags, part.weights.shape).ravel()
            assert (expected == (True if record["allowed"] is None else np.array(record["allowed"], bool))).all()


def test_two_moves_have_the_answer_and_three_are_refused_with_the_command(chromium: Any, tmp_path: Path) -> None:
    model = words_model("ms_san").eval()
    example = Example((DOG,))
    assert DOG.dependency is not None
    trees = list(moved_twice(DOG.dependency))
    pairs = [Example((replace_tree(DOG, tree),)) for tree in trees]
    with opened(chromium, write_page(tmp_path, model, example, command="structattn explore RUNS")) as page:
        said = ask_page(
            page, [*pairs, Example((replace_tree(DOG, DependencyTree([3, 1, 0, 1], DOG.dependency.labels)),))]
        )
    assert len({tree.heads for tree in trees}) == len(pairs) == 7
    for reply, pair in zip(said[:-1], pairs, strict=True):
        check_answer(reply, look(model, pair).answer, error=2.5e-4)
        assert reply["maps"] == []
    assert said[-1].endswith("For a live explorer run: structattn explore RUNS")


def test_pairs_of_moves_are_all_trees_that_differ_in_two_heads() -> None:
    heads = (2, 3, 0, 3, 4)
    expected = set()
    for code in range(6**5):
        other = tuple(code // 6**place % 6 for place in range(5))
        if sum(a != b for a, b in zip(heads, other, strict=True)) == 2 and other[2] == 0 and other.count(0) == 1:
            try:
                expected.add(DependencyTree(other).heads)
            except ValueError:
                continue
    assert sorted(tree.heads for tree in moved_twice(DependencyTree(heads))) == sorted(expected)


def test_edits_that_flip_are_found_from_what_the_page_carries(chromium: Any, tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = sentence_model("dependency_tree_lstm", SENTIMENT, vocabulary=VOCABULARY, options={"dim": 12}).eval()
    with torch.no_grad():
        for parameter in model.classifier.second.parameters():
            parameter *= 50  # the same labels, further from a half
    expected = flipping_edits(model, Example((DOG,)))
    with opened(chromium, write_page(tmp_path, model, Example((DOG,)))) as page:
        reply = page.evaluate(
            """() => { const app = [...document.querySelectorAll("div")].find(e => e.explorer).explorer;
            return app.request("flip", { models: ["mine"] }); }"""
        )
    assert (reply["found"], reply["tried"]) == (len(expected), 8) == (4, 8)
    for said, edit in zip(reply["edits"], expected, strict=True):
        assert (said["word"], said["head"], said["heads"]) == (edit.word, edit.head, list(edit.tree.heads))
        assert said["p"] == pytest.approx(edit.prediction.probabilities[said["label"]], abs=1e-5)


def test_a_person_edits_undoes_and_is_told_what_the_page_has(chromium: Any, tmp_path: Path) -> None:
    model = words_model("ms_san").eval()
    assert DOG.dependency is not None
    moved = dataclasses.replace(DOG, dependency=DOG.dependency.moved(0, 4))
    share = look(model, moved).answer.probabilities["positive"]
    with opened(chromium, write_page(tmp_path, model, Example((DOG,)))) as page:
        assert "every single edit of this sentence, and the predictions of two" in page.locator(".carried").inner_text()
        word(page, 3).click()
        word(page, 0).click()
        assert status(page).startswith("loudly → a.")
        assert f"{100 * share:.1f}%" in page.locator(".classes").inner_text()
        word(page, 0).click()
        word(page, 1).click()
        assert page.locator(".heads").inner_text().startswith("For this edit the page has the prediction alone.")
        page.get_by_role("button", name="undo").click()
        page.get_by_role("button", name="undo").click()
        status(page)
        assert explorer(page, "app.state.sentences[0].heads") == list(DOG.dependency.heads)
        assert page.get_by_role("button", name="Parse").count() == 0


def test_phrases_are_added_and_deleted(chromium: Any, tmp_path: Path) -> None:
    model = words_model("tree_transformer", num_heads=2).eval()
    with opened(chromium, write_page(tmp_path, model, Example((DOG,)))) as page:
        page.locator(".phrase").nth(1).click()
        page.get_by_role("button", name="Delete").click()
        assert status(page).startswith("NP “a hippopotamus” deleted.")
        page.keyboard.press("Control+z")
        word(page, 1).focus()
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("n")
        assert "crosses" in status(page)


def test_long_sentences_carry_predictions_and_longer_ones_say_that_they_have_none(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = words_model("ms_san").eval()
    monkeypatch.setattr(carried_edits, "MOST_WEIGHTS", 10)
    with opened(chromium, write_page(tmp_path, model, Example((DOG,)))) as page:
        assert page.locator(".carried").inner_text().startswith("This page has the predictions of every single edit")
        word(page, 3).click()
        word(page, 0).click()
        assert status(page).startswith("loudly → a.")
    monkeypatch.setattr(carried_edits, "MOST_WORK", 10)
    with opened(chromium, write_page(tmp_path, model, Example((DOG,)))) as page:
        assert page.locator(".carried").inner_text().startswith("This page has no answers to edits of this sentence.")
        word(page, 0).press("r")
        assert status(page).startswith("A prediction for an edited tree needs the model")


def test_bytes_of_a_sentence_of_13_words_with_six_heads() -> None:
    words = [VOCABULARY.words[2 + place % 5] for place in range(13)]
    heads = [2, 3, 0, 3, 4, 8, 8, 5, 8, 9, 12, 10, 3]
    model = words_model("ms_san").eval()
    boot = Answers({"mine": model}).boot([Sentence(words, dependency=DependencyTree(heads))], host="frozen")
    (edits,) = boot["items"][0]["edits"].values()
    assert edits["dependency"]["looks"] is not None
    assert edits["dependency"]["pairs"] is not None
    assert len(str(edits)) < 40_000
