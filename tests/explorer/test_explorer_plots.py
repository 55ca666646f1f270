"""Pages and single figures of trained models on some sentences."""

import inspect
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from test_inspection import DOG, KIDS, VOCABULARY

from small_models import sentence_model
from structattn.data import Example, Vocabulary
from structattn.encoders import build
from structattn.errors import ConfigError, MissingExtra
from structattn.explorer import attention_page, save_plots
from structattn.explorer.plots import FORMATS
from structattn.http.request_checks import RequestError
from structattn.syntax import Sentence
from structattn.tasks import SentenceModel, get_task

LABELS = {"agreement": ["plural", "singular"], "pair_classification": ["no", "yes"]}


def model_of(name: str, task: str = "agreement", **options: Any) -> SentenceModel:
    options = {"dim": 12, **options}
    return sentence_model(name, get_task(task), vocabulary=VOCABULARY, labels=LABELS[task], options=options)


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" class="structattn-explorer">(.*?)</script>', html)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_has_every_sentence_and_every_head() -> None:
    model = model_of("ms_san")
    examples = [Example((KIDS,), "plural"), Example((DOG,), "singular")]
    html = attention_page(model, examples, "Six <heads>", name="mine", command="structattn explore mine")
    data = data_of(html)
    assert [item["expected"] for item in data["items"]] == ["plural", "singular"]
    for item, sentence in zip(data["items"], (KIDS, DOG), strict=True):
        (look,) = item["replies"]["look"]["looks"]
        assert look["model"] == "mine"
        heads = [head for found in look["maps"] if found["kind"] == "attention" for head in found["heads"]]
        assert len(heads) == 6
        assert item["sentences"][0]["words"] == list(sentence.words)
        assert set(item["replies"]) == {"look"}
    assert "Six &lt;heads&gt;" in html
    assert "structattn explore mine" in html
    assert html == attention_page(model, examples, "Six <heads>", name="mine", command="structattn explore mine")


def test_influence_of_words_and_arcs_comes_where_it_is_asked_for() -> None:
    data = data_of(attention_page(model_of("ms_san"), [KIDS], influence=True))
    replies = data["items"][0]["replies"]
    assert set(replies) == {"look", "influence", "gradient", "arcs"}
    assert len(replies["influence"]["model"]["values"][0]) == len(KIDS)


def test_the_page_of_a_task_on_pairs_and_of_one_text() -> None:
    (item,) = data_of(attention_page(model_of("disan", "pair_classification"), Example((DOG, KIDS))))["items"]
    assert [one["words"] for one in item["sentences"]] == [list(DOG.words), list(KIDS.words)]
    (item,) = data_of(attention_page(model_of("disan"), "a dog barks"))["items"]
    assert item["sentences"][0]["words"] == ["a", "dog", "barks"]


def test_pages_need_a_model_and_a_sentence() -> None:
    with pytest.raises(ValueError, match="expected at least one sentence, got none"):
        attention_page(model_of("disan"), [])
    with pytest.raises(RequestError, match=r"at most 256 words in a page, got one of 300; .*--format svg"):
        attention_page(model_of("disan"), [DOG, "dog " * 300])
    encoder = build("disan", vocab_size=len(VOCABULARY), dim=8)
    with pytest.raises(ConfigError, match="expected a model that answers a task"):
        attention_page(encoder, DOG)


@pytest.mark.parametrize("name", ["ms_san", "disan", "tree_transformer"])
def test_every_format_has_every_figure(name: str, tmp_path: Path) -> None:
    pytest.importorskip("typst")
    model = model_of(name, **({"num_heads": 2} if name == "tree_transformer" else {}))
    files = save_plots(tmp_path / "plots", model, [DOG, KIDS], formats=FORMATS, influence=True)
    assert {file.name for file in files} == {file.name for file in (tmp_path / "plots").iterdir()}
    figures = {ending: {file.stem for file in files if file.suffix == f".{ending}"} for ending in ("svg", "png", "pdf")}
    assert figures["svg"] == figures["png"] == figures["pdf"]
    always = ("attention", "tree", "phrases", "pooling", "influence")
    assert {f"{number}-{what}" for number in ("01", "02") for what in always} <= figures["svg"]
    gates = {"ms_san": {"01-gate"}, "disan": {"01-gate-1", "01-gate-2"}, "tree_transformer": set()}
    assert {figure for figure in figures["svg"] if figure.startswith("01-gate")} == gates[name]
    assert (tmp_path / "plots" / "attention.html") in files
    for file in files:
        if file.suffix == ".svg":
            ET.fromstring(file.read_text(encoding="utf-8"))


def test_pictures_may_be_scaled_by_row(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["dog"])
    encoder = build("transformer", vocab_size=len(vocabulary), dim=6, num_heads=2)
    model = SentenceModel(encoder, get_task("agreement"), LABELS["agreement"], vocabulary=vocabulary)
    for by_row in (False, True):
        (heads, *_) = save_plots(tmp_path, model, [Sentence(["a", "dog"])], formats=["svg"], by_row=by_row)
        assert ("share of row" in heads.read_text(encoding="utf-8")) == by_row


def test_folder_and_model_the_other_way_round(tmp_path: Path) -> None:
    model = model_of("ms_san")
    unchecked = inspect.unwrap(save_plots)
    for swapped, came in (((model, tmp_path), "SentenceModel and PosixPath"), ((tmp_path, "run"), "PosixPath and str")):
        with pytest.raises(TypeError, match=rf"expected save_plots\(folder, model, sentences\).*; got {came}"):
            unchecked(*swapped, [DOG])


def test_formats_are_checked_before_anything_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("ms_san")
    with pytest.raises(ConfigError, match="unknown format 'jpg'; known: html, svg, png, pdf"):
        save_plots(tmp_path / "plots", model, [DOG], formats=["svg", "jpg"])
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(MissingExtra, match="typst is not installed"):
        save_plots(tmp_path / "plots", model, [DOG], formats=["svg", "pdf"])
    assert not (tmp_path / "plots").exists()
