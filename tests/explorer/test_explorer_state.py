"""Shared states: read from a file, refused in one line, drawn by ``plot --state`` as the explorer draws them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pypdf import PdfReader

from small_models import sentence_model
from structattn.cli import main
from structattn.data import Vocabulary
from structattn.data.tensors import checksum
from structattn.errors import ConfigError, ParseError
from structattn.explorer import Answers, read_state, save_state
from structattn.explorer.protocol import State, check_state
from structattn.http.request_checks import RequestError
from structattn.syntax import DependencyTree, Sentence
from structattn.tasks import SENTIMENT

WORDS = ["a", "dog", "barks", "loudly"]
BEFORE = {"words": WORDS, "heads": [2, 3, 0, 3]}
AFTER = {"words": WORDS, "heads": [2, 3, 0, 1]}
STATE: dict[str, Any] = {
    "v": 1,
    "sentences": [AFTER],
    "before": [BEFORE],
    "view": {"models": ["mine"], "mode": "change", "scale": "row", "word": [0, 2]},
    "runs": {"mine": "abc"},
}
PICTURES = ("heads", "tree", "pooling")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return sentence_model("ms_san", SENTIMENT, vocabulary=Vocabulary(sorted(WORDS)), options={"dim": 12})


def write(folder: Path, value: Any) -> Path:
    path = folder / "state.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_a_state_is_read(tmp_path: Path) -> None:
    after, before = (Sentence(WORDS, dependency=DependencyTree(one["heads"])) for one in (AFTER, BEFORE))
    expected = State((after,), (before,), ("mine",), {"mine": "abc"}, change=True, by_row=True)
    assert read_state(write(tmp_path, STATE)) == expected
    assert check_state({"v": 1, "sentences": [AFTER]}) == State((after,), (after,), (), {})


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([STATE], "state: expected an object, got ["),
    "unknown key": ({**STATE, "path": "x"}, "state: unknown key 'path'; known: v, sentences, before, view, runs"),
    "later version": ({**STATE, "v": 2}, "v: expected 1, got 2"),
    "no sentences": ({**STATE, "sentences": []}, "sentences: expected 1 to 2, got 0"),
    "cycle": ({**STATE, "sentences": [{"words": ["a"], "heads": [1]}]}, "sentence 0: heads must not form a cycle"),
    "other words before": ({**STATE, "before": [{"words": ["b"]}]}, "before: expected the words of the sentences"),
    "unknown key of the view": ({**STATE, "view": {"zoom": 2}}, "view: unknown key 'zoom'"),
    "unknown mode": (
        {**STATE, "view": {"mode": "film"}},
        "view.mode: expected one of weights, change, difference, got 'film'",
    ),
    "unknown scale": ({**STATE, "view": {"scale": "log"}}, "view.scale: expected one of shared, row, got 'log'"),
    "three models": ({**STATE, "view": {"models": ["a", "b", "c"]}}, "view.models: expected 1 to 2, got 3"),
    "runs in a list": ({**STATE, "runs": ["abc"]}, "runs: expected the SHA-256 of each model, got ['abc']"),
    "number for a run": ({**STATE, "runs": {"mine": 3}}, "runs: expected the SHA-256 of each model"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_state_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    value, message = BAD[name]
    with pytest.raises(RequestError) as caught:
        check_state(value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "state.json: expected a state of the explorer: expected JSON: "),
        ("[]", "state.json: expected a state of the explorer: expected a JSON object, got []"),
        (json.dumps({**STATE, "v": 2}), "state.json: expected a state of the explorer: v: expected 1, got 2"),
    ],
)
def test_a_file_that_is_no_state_is_named(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        read_state(write(tmp_path, content))
    assert message in str(caught.value)
    with pytest.raises(ParseError, match="nowhere: cannot read this file: No such file or directory"):
        read_state(tmp_path / "nowhere")


@pytest.mark.parametrize("mode", ["weights", "change"])
@pytest.mark.parametrize("scale", ["shared", "row"])
def test_the_files_are_what_the_explorer_exports(mode: str, scale: str, model: Any, tmp_path: Path) -> None:
    state = check_state({**STATE, "view": {"mode": mode, "scale": scale}})
    written = save_state(tmp_path, model, state, formats=["svg"], name="mine")
    assert [path.name for path in written] == [f"{what}.svg" for what in PICTURES]
    answers = Answers({"mine": model})
    for what in PICTURES:
        compared = what == "tree" or (what == "heads" and mode == "change")
        figure = {"what": what, "format": "svg", "scale": scale, "before": [BEFORE] if compared else None}
        asked = {"v": 1, "id": 1, "do": "draw", "models": ["mine"], "sentences": [AFTER], "figure": figure}
        exported = base64.b64decode(answers.ask(asked)["data"]).decode()
        assert (tmp_path / f"{what}.svg").read_text(encoding="utf-8") == exported
    heads = (tmp_path / "heads.svg").read_text(encoding="utf-8")
    assert ("change of weight" in heads) == (mode == "change")
    assert "before" in (tmp_path / "tree.svg").read_text(encoding="utf-8")


def test_the_page_has_the_edit_and_what_was_before(model: Any, tmp_path: Path) -> None:
    (page,) = save_state(tmp_path, model, check_state(STATE), name="mine")
    text = page.read_text(encoding="utf-8")
    assert "after the edit" in text
    assert '"heads":[2,3,0,1]' in text
    assert '"heads":[2,3,0,3]' in text
    (same,) = save_state(tmp_path, model, check_state({"v": 1, "sentences": [AFTER]}))
    assert '"heads":[2,3,0,3]' not in same.read_text(encoding="utf-8")


def test_another_model_than_that_of_the_state_is_said(
    model: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_state(tmp_path, model, check_state({**STATE, "runs": {"mine": checksum(model.state_dict())}}))
    assert caplog.text == ""
    save_state(tmp_path, model, check_state(STATE), name="ours")
    assert "the state was saved with mine, whose parameters differ from those of ours" in caplog.text


def test_what_does_not_fit_the_model_writes_nothing(model: Any, tmp_path: Path) -> None:
    two = check_state({"v": 1, "sentences": [AFTER, AFTER]})
    with pytest.raises(RequestError, match="sentences: expected 1 for task 'sentiment', got 2"):
        save_state(tmp_path / "plots", model, two)
    with pytest.raises(ConfigError, match="unknown format 'gif'; known: html, svg, png, pdf"):
        save_state(tmp_path / "plots", model, check_state(STATE), formats=["gif"])
    assert not (tmp_path / "plots").exists()


def test_the_command_draws_a_state_as_pdf(model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.save_pretrained(tmp_path / "model")
    state, out = write(tmp_path, STATE), tmp_path / "out"
    words = ["plot", tmp_path / "model", "--state", state, "--format", "pdf", "--out", out, "--device", "cpu"]
    assert main([*map(str, words)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(out / f"{what}.pdf") for what in PICTURES]
    text = PdfReader(out / "tree.pdf").pages[0].extract_text()
    assert all(word in text for word in WORDS)
