"""Models of every kind in a frozen page: what a browser shows is what Python finds."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_explorer_answers import DOG, KIDS, KINDS

from backbones import save_tiny
from explorer_live import by_mouse, explorer, name_phrase, settle, status
from explorer_pages import missing, opened
from structattn.data import Example
from structattn.explorer import Answers
from structattn.explorer.explorer_page import frozen_page
from structattn.explorer.explorer_server import ExplorerServer
from structattn.inspection import look

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("shown"))


@pytest.mark.parametrize("kind", KINDS)
def test_values_names_and_answers_are_those_of_python(chromium: Any, folder: Path, tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    model = KINDS[kind](folder).eval()
    example = Example((DOG, KIDS)[: model.task.arity])
    path = tmp_path / "page.html"
    boot = Answers({"mine": model}).boot([example], host="frozen", influence=True)
    path.write_text(frozen_page(boot), encoding="utf-8")
    found = look(model, example)
    with opened(chromium, path, viewport={"width": 400, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        explorer(page, 'app.change({ by: "tokens" })')
        texts = "rows: head.rows.map(unit => unit.text), columns: head.columns.map(unit => unit.text)"
        names = f"title: head.title, kind: head.kind, {texts}"
        shown = explorer(page, f"app.heads[0].map(head => ({{values: [...head.values], {names}}}))")
        latent = explorer(page, "app.now[0].look.latent.map(tree => [...tree.weights])")
        labels = dict(
            zip(
                page.locator(".classes .class, .classes strong").all_inner_texts(),
                page.locator(".classes .number:not(.soft)").all_inner_texts(),
                strict=True,
            )
        )
    heads = [(one, weights) for one in found.maps for weights in one.weights]
    assert len(shown) == len(heads)
    titles = [(record["kind"], record["title"]) for record in shown]
    assert len(set(titles)) == len(titles)
    assert kind == "translation" or not [title for _, title in titles if "attention" in title], "no path of a module"
    for record, (one, weights) in zip(shown, heads, strict=True):
        assert (record["kind"], record["rows"], record["columns"]) == (one.kind, list(one.rows), list(one.columns))
        assert np.abs(np.array(record["values"]) - weights.flatten().numpy()).max(initial=0) < 1e-5
    for values, tree in zip(latent, [tree for tree in found.latent if tree is not None], strict=True):
        assert np.abs(np.array(values) - tree.probabilities.flatten().numpy()).max() < 1e-5
    wanted = sorted(found.answer.probabilities.items(), key=lambda pair: -pair[1])[:8]
    assert set(labels) == {name for name, _ in wanted}
    assert all(abs(float(labels[name].removesuffix("%")) - 100 * share) < 0.051 for name, share in wanted)


@pytest.mark.parametrize("kind", ["ms_san", "disan", "tree_lstm"])
def test_an_edit_beside_the_server_is_that_of_python(chromium: Any, folder: Path, kind: str) -> None:
    torch.manual_seed(0)
    model = KINDS[kind](folder).eval()
    answers = Answers({"mine": model})
    with ExplorerServer(answers.ask, answers.boot([DOG], host="server")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = chromium.new_context().new_page()
        page.goto(server.url)
        settle(page)
        by_mouse(page, 1, 3)
        said = status(page)
        shown = explorer(page, "app.heads[0].map(head => [...head.values])")
        answer = explorer(page, "app.now[0].look.answer.probabilities")
        page.context.close()
        server.shutdown()
    tree = DOG.dependency.moved(3, 2)
    found = look(model, dataclasses.replace(DOG, dependency=tree))
    expected = [weights.flatten().numpy() for one in found.maps for weights in one.weights]
    assert len(shown) == len(expected)
    for values, weights in zip(shown, expected, strict=True):
        assert np.abs(np.array(values) - weights).max() < 1e-5
    assert answer == pytest.approx(found.answer.probabilities, abs=1e-6)
    assert ("cannot see this: it reads the order of words." in said) == (kind == "disan")
    assert ("moved" in said) == (kind == "ms_san")


def test_weights_before_a_phrase_was_added_stand_where_its_words_and_phrases_are(chromium: Any, folder: Path) -> None:
    """A new phrase is a new row and column: the other rows keep their former weights, and the new ones had none."""
    torch.manual_seed(0)
    model = KINDS["tree_transformer"](folder).eval()
    answers = Answers({"mine": model})
    with ExplorerServer(answers.ask, answers.boot([DOG], host="server")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = chromium.new_context().new_page()
        page.goto(server.url)
        settle(page)
        name_phrase(page, 1, 1, "XP")
        said = status(page)
        shown = explorer(page, "app.heads[0].map(head => [[...head.before], head.rows.map(unit => unit.text)])")
        moved = explorer(page, "app.heads[0].map(head => head.moved)")
        now = explorer(page, "app.heads[0].map(head => [...head.values])")
        page.context.close()
        server.shutdown()
    heads = [(one.rows, weights) for one in look(model, DOG).maps if one.kind == "attention" for weights in one.weights]
    assert "XP “hippopotamus” added." in said
    found = list(zip(shown, moved, now, strict=True))[: len(heads)]  # pooling comes after attention
    for ((values, names), moves, after), (rows, weights) in zip(found, heads, strict=True):
        expected = np.zeros((len(names), len(names)))
        old = [names.index(row) for row in rows]
        assert len(names) == len(rows) + 1
        expected[np.ix_(old, old)] = weights.numpy()
        assert np.abs(np.array(values) - expected.ravel()).max() < 1e-5
        assert moves == pytest.approx(np.abs(np.array(after) - expected.ravel()).sum() / 2 / len(names), abs=1e-5)
        assert moves > 0
