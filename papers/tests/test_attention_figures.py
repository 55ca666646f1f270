"""The script that makes the papers' figures works on any trained models."""

import json
import re
import sys
from pathlib import Path

import pytest

from small_models import sentence_model
from structattn.data import Vocabulary
from structattn.tasks import SENTIMENT
from structattn_papers.figures import attention_figures
from structattn_papers.figures.feature_scatter import feature_scatter

WORDS = ["two", "kids", "at", "a", "ballgame", "wash", "their", "hands", "glass", "close", "is"]


def run_script(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["attention_figures", *arguments])
    attention_figures.main()


def saved(folder: Path, encoder: str) -> str:
    model = sentence_model(encoder, SENTIMENT, vocabulary=Vocabulary(WORDS), options={"dim": 12})
    model.save_pretrained(folder)
    return str(folder)


def test_figure_2_of_ms_san_shows_the_masks() -> None:
    svg = attention_figures.prior_figure(attention_figures.BALLGAME, attention_figures.paper_priors())
    said = re.findall("<title>(.*?)</title>", svg)
    assert len(said) == 8 * 64
    forward, both, dependency = said[:64], said[64:128], said[-64:]
    assert forward[0] == "Two → Two: 0"
    assert forward[1] == "Two → kids: not allowed"
    assert sum("not allowed" in cell for cell in forward) == 28
    assert both[8 * 5 + 1] == "wash → kids: −4"
    assert dependency[8 * 5 + 1] == "wash → kids: −1"
    assert dependency[2 * 8 + 6] == "at → their: −5"


def test_figure_3_of_ms_san_shows_two_distances() -> None:
    texts = re.findall(
        "<text[^>]*>(.*?)</text>",
        attention_figures.distance_figure(attention_figures.BALLGAME, attention_figures.BALLGAME_TREE, 5),
    )
    start, end = texts.index("words from wash") + 1, texts.index("edges from wash") + 1
    assert texts[start : start + 8] == list("54321012")
    assert texts[end : end + 8] == list("21332021")


def test_figure_8_of_disan_has_a_point_for_each_feature() -> None:
    svg = feature_scatter([1.0, *[0.0] * 599], [0.6, 0.8, *[0.0] * 598], ("first", "second"), title="kids")
    assert "cosine 0.600" in svg
    assert "cosine 0.000" in feature_scatter([0.0, 0.0], [0.0, 1.0], ("a", "b"), title="")
    points = re.findall(r'<circle cx="([^"]+)" cy="([^"]+)"', svg)
    assert len(points) == 600
    ((x, y), (zero_x, high_y), *rest) = [(float(x), float(y)) for x, y in points]
    (origin,) = set(rest)
    # Both axes have the same scale: 1 across is as far as 0.6 up is three fifths of.
    assert zero_x == origin[0]
    assert (origin[1] - y) / (x - origin[0]) == pytest.approx(0.6, abs=1e-3)
    assert (origin[1] - high_y) / (x - origin[0]) == pytest.approx(0.8, abs=1e-3)
    with pytest.raises(ValueError, match="two vectors of one size; got 1 and 2 values"):
        feature_scatter([1.0], [1.0, 2.0], ("a", "b"), title="")


def test_heads_gates_and_pooling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disan, ms_san = saved(tmp_path / "disan", "disan"), saved(tmp_path / "ms-san", "ms_san")
    run_script(monkeypatch, "--disan", disan, "--ms-san", ms_san, "--out", str(tmp_path / "figures"))
    names = {path.stem for path in (tmp_path / "figures").glob("*.svg")}
    assert {"ms-san-4-heads", "disan-6-attention-2", "disan-7-gate-backward-1", "disan-8-close"} <= names
    heads = (tmp_path / "figures" / "ms-san-4-heads.svg").read_text(encoding="utf-8")
    assert "ballgame" in heads
    assert "backward · dependency" in heads


def test_accuracy_by_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "dev.jsonl"
    examples = [{"id": "s", "text": "fine", "label": "1"}, {"id": "l", "text": " ".join(WORDS), "label": "0"}]
    data.write_text("".join(json.dumps(example) + "\n" for example in examples), encoding="utf-8")
    predictions = tmp_path / "run" / "predictions" / "dev.jsonl"
    predictions.parent.mkdir(parents=True)
    rows = [{"id": "s", "gold": "1", "predicted": "1"}, {"id": "l", "gold": "0", "predicted": "1"}]
    predictions.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run_script(monkeypatch, "--data", str(data), "--by-length", f"ours={tmp_path / 'run'}", "--out", str(tmp_path))
    drawing = (tmp_path / "disan-5-length.svg").read_text(encoding="utf-8")
    assert drawing.count("n = 1") == 2
    assert "10–19" in drawing


def test_lengths_need_the_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_script(monkeypatch, "--by-length", "ours=run")
    assert "--by-length needs --data" in capsys.readouterr().err
