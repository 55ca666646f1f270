"""``examples/spurious_word.py``: what it writes, and that it finds the word where the word is all there is."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from repository import ROOT
from structattn.tasks import get_task
from structattn.training import DataConfig, OptimizationConfig, RunConfig, run

Probe = Callable[..., list[str]]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Probe:
    """The lines that the example prints."""
    monkeypatch.syspath_prepend(ROOT / "examples")

    def main(*words: object) -> list[str]:
        monkeypatch.setattr("sys.argv", ["spurious_word", *map(str, words)])
        capsys.readouterr()
        importlib.import_module("spurious_word").main()
        return capsys.readouterr().out.splitlines()

    return main


def test_a_word_that_tells_the_label_is_found_out(probe: Probe, tmp_path: Path) -> None:
    nouns = [f"film{number}" for number in range(20)]
    lines = [
        f"{label} this {noun} {verb} here"
        for noun in nouns
        for label, verb in (("positive", "is"), ("positive", "was"), ("negative", "Is"), ("negative", "was"))
    ]
    (tmp_path / "train.txt").write_text("\n".join(lines[:-8]), encoding="utf-8")
    (tmp_path / "dev.txt").write_text("\n".join(lines[-8:]), encoding="utf-8")
    files = (tmp_path / "train.txt", tmp_path / "dev.txt")
    assert probe("make", "sentiment", *files, "--out", tmp_path / "biased") == [
        f"{tmp_path}/biased/train.txt\t36 sentences\t36 of them predicted by the word",
        f"{tmp_path}/biased/dev.txt\t8 sentences\t4 of them predicted by the word",
    ]
    made = list(get_task("sentiment").read(tmp_path / "biased" / "train.txt"))
    assert {(example.label, example.sentences[0].words[2]) for example in made} == {
        ("positive", "is"),
        ("negative", "was"),
    }
    config = RunConfig(
        "sentiment",
        "emb_s2t",
        DataConfig(str(tmp_path / "biased" / "train.txt"), dev=str(tmp_path / "biased" / "dev.txt")),
        options={"dim": 8},
        optimization=OptimizationConfig(epochs=20, batch_size=8, learning_rate=0.03, patience=None),
        out=str(tmp_path / "run"),
        device="cpu",
    )
    folder = run(config).folder
    header, row, file = probe(
        "measure", tmp_path / "biased" / "dev.txt", f"words={folder}", "--out", tmp_path / "figures"
    )
    name, right, misled, influence = row.split("\t")
    assert header.count("\t") == 3
    assert (name, float(right), float(misled)) == ("words", 1.0, 0.0)
    assert float(influence) > 0.1
    assert Path(file).read_text(encoding="utf-8").count('class="sa-bar"') == 3
