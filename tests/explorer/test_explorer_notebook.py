"""The explorer and every figure where Python displays things: widgets, frames, a notebook that is really executed."""

import html
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import structattn as sa
from small_models import sentence_model
from structattn import inspection, pictures
from structattn.data import Vocabulary
from structattn.errors import ConfigError
from structattn.explorer import frozen_page, notebook
from structattn.http.request_checks import RequestError
from structattn.pictures.heatmap import gate_image
from structattn.pictures.html_page import Document
from structattn.pictures.svg import Picture, stack
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import SENTIMENT

DOG = Sentence(["a", "dog", "barks"], dependency=DependencyTree([2, 3, 0]))
LOOK = {"v": 1, "id": 77, "do": "look", "models": ["model"]}


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return sentence_model("ms_san", SENTIMENT, vocabulary=Vocabulary(["a", "barks", "dog"]), options={"dim": 12})


def figures(model: Any) -> dict[str, str]:
    maps = inspection.attention_maps(model, DOG)
    pooling, gate = (next(one for one in maps if one.kind == kind) for kind in ("pooling", "gate"))
    return {
        "attention_figure": inspection.attention_figure(maps),
        "pooling_figure": inspection.pooling_figure([pooling]),
        "features_figure": inspection.features_figure(gate),
        "attribution_figure": inspection.attribution_figure(inspection.leave_one_out(model, DOG)),
        "heatmap": pictures.heatmap(["a"], ["b"], [[1]]),
        "heatmap_grid": pictures.heatmap_grid([pictures.Panel(["a"], ["b"], [[1]])]),
        "arc_diagram": pictures.arc_diagram(["a", "b"], [pictures.Arc(0, 1)]),
        "dependency_tree": pictures.dependency_tree(DOG.words, DOG.dependency),
        "constituency_tree": pictures.constituency_tree(["a"], sa.ConstituencyTree(["a"], [("X", 0, 1)])),
        "bar_chart": pictures.bar_chart(["a"], [pictures.Series("s", [], [1.0])]),
        "line_chart": pictures.line_chart([pictures.Series("s", [0, 1], [1.0, 2.0])]),
        "line_panels": pictures.line_panels([pictures.Series("s", [0], [1.0])], pictures.Series("t", [0], [2.0])),
        "gate_image": gate_image(["a"], [[0.5, 0.25]]),
        "stack": stack([pictures.heatmap(["a"], ["b"], [[1]])] * 2),
    }


def test_every_figure_shows_itself(model: Any) -> None:
    found = figures(model)
    for name, svg in found.items():
        assert isinstance(svg, Picture), name
        assert svg._repr_html_() == f'<div style="overflow-x:auto">{svg}</div>', name
        assert svg.startswith("<svg "), name


def test_a_page_is_shown_in_a_frame_of_its_own() -> None:
    page = Document('<!doctype html><p title="a & b">\'</p></iframe>')
    shown = page._repr_html_()
    source = re.fullmatch(r'<iframe sandbox="allow-scripts allow-downloads" srcdoc="([^"]*)" .*></iframe>', shown)
    assert source is not None
    assert "<" not in source[1]
    assert html.unescape(source[1]) == page
    assert isinstance(frozen_page({"v": 1, "title": "t", "models": [], "items": []}), Document)
    assert isinstance(pictures.page("t", []), Document)


def test_the_widget_answers_messages(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    widget = sa.explore(model, DOG)
    assert repr(widget) == "<explorer of model>"
    assert widget.boot["host"] == "widget"
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(type(widget), "send", lambda self, reply: sent.append(reply))
    asked = {**LOOK, "sentences": widget.boot["items"][0]["sentences"]}
    widget._handle_custom_msg(asked, [])
    widget._handle_custom_msg({**asked, "do": "dance"}, [])
    first, second = sent
    assert first["id"] == second["id"] == 77
    assert first["looks"] == widget.boot["items"][0]["replies"]["look"]["looks"]
    assert second["error"]["message"].startswith("do: expected one of look")


def test_a_widget_has_a_page_for_those_who_cannot_show_it(model: Any) -> None:
    data, _ = sa.explore({"one": model, "two": model}, [DOG, Sentence(["dog"])])._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= set(data)
    assert data["text/html"].startswith('<iframe sandbox="allow-scripts')


def test_without_anywidget_it_is_a_frozen_page(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)
    page = sa.explore(model, ["a dog barks", DOG])
    assert isinstance(page, Document)
    found = re.search(r'class="structattn-explorer">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    boot = json.loads(found[1])
    assert (boot["host"], [item["name"] for item in boot["items"]]) == ("frozen", ["a dog barks"] * 2)
    assert [item["sentences"][0]["heads"] for item in boot["items"]] == [
        [3, 3, 0],
        [2, 3, 0],
    ]  # the first by the parser
    assert set(boot["items"][1]["replies"]) == {"look", "influence", "gradient", "arcs"}


def test_what_cannot_be_explored_is_refused(model: Any) -> None:
    with pytest.raises(RequestError, match="expected 1 to 256 words, got 300"):
        sa.explore(model, "a " * 300)
    with pytest.raises(ConfigError, match="model: expected a model that answers a task"):
        sa.explore(model.encoder, DOG)


@pytest.mark.integration
def test_a_notebook_is_executed(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model")
    cells = [
        f"import structattn as sa\nmodel = sa.load({str(tmp_path / 'model')!r})\n"
        "widget = sa.explore(model, 'a dog barks')\nwidget",
        "replies = []\nwidget.send = replies.append\n"
        "sentence = {'words': ['a', 'dog', 'barks'], 'heads': [2, 3, 0]}\n"
        "asked = {'v': 1, 'id': 5, 'do': 'look', 'models': ['model'], 'sentences': [sentence]}\n"
        "widget._handle_custom_msg(asked, [])\nprint(replies[0]['looks'][0]['answer']['label'])",
        "sa.inspection.attention_figure(sa.inspection.attention_maps(model, sa.Sentence(['a', 'dog'],"
        " dependency=sa.DependencyTree([2, 0]))))",
    ]
    written = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    done = NotebookClient(written, timeout=120, kernel_name="python3").execute()
    shown, printed, figure = (cell["outputs"] for cell in done["cells"])
    assert "application/vnd.jupyter.widget-view+json" in shown[-1]["data"]
    assert "structattn-explorer" in shown[-1]["data"]["text/html"]
    (answer,) = model.predict([DOG])
    assert printed[-1]["text"].strip() == answer.label
    assert figure[-1]["data"]["text/html"].startswith('<div style="overflow-x:auto"><svg ')
