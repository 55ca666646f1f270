"""``calibrate``: what a run keeps, who applies it, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import structattn as sa
from interrupting import interrupted
from structattn.cli import main
from structattn.errors import ConfigError
from structattn.tasks.calibration import Calibration, temper
from structattn.tasks.torch_export import DESCRIPTION, export_program
from structattn.training import calibrate

pytestmark = pytest.mark.integration

OPTIONS = {"options": {"dim": 6}, "optimization": {"epochs": 6, "learning_rate": 0.01}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with its data: ``train.csv``, half of whose labels mean nothing, and ``dev.csv``."""
    generator = np.random.default_rng(0)
    for name in ("train", "dev"):
        labels = generator.choice(["good", "bad"], size=40).tolist()
        rows = [f"so {'fine' if label == 'good' or number % 3 == 0 else 'dull'} {number},{label}" for number, label in
                enumerate(labels)]  # fmt: skip
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    sa.train(tmp_path / "train.csv", encoder="emb_s2t", out=tmp_path / "run", **OPTIONS)
    return tmp_path


def test_the_temperature_is_kept_and_applied(folder: Path) -> None:
    run = folder / "run"
    before = sa.predict(run, ["so fine", "so dull"])
    result = calibrate(run, folder / "dev.csv", test=[("so fine", "good"), ("so dull", "bad")], abstain=0.9)
    assert (result.examples, sum(count for *_, count in result.after.bins)) == (40, 2)
    result = calibrate(run, folder / "dev.csv", test=folder / "dev.csv", abstain=0.9)
    kept = sa.load(run)
    assert kept.calibration == result.calibration
    assert result.after.negative_log_likelihood <= result.before.negative_log_likelihood
    after = kept.predict(["so fine", "so dull"])
    for first, second in zip(before, after, strict=True):
        expected = temper(np.array([list(first.probabilities.values())]), result.calibration.temperature)
        assert list(second.probabilities.values()) == pytest.approx(expected[0], rel=1e-5)
        assert second.details == ({"abstained": True} if max(second.probabilities.values()) < 0.9 else {})
    assert "## Calibration" in (run / "best" / "README.md").read_text(encoding="utf-8")
    again = calibrate(run, folder / "dev.csv", test=folder / "dev.csv")
    assert again.before == result.before
    assert (run / "best" / "README.md").read_text(encoding="utf-8").count("## Calibration") == 1
    kept.save_pretrained(folder / "copy")
    assert sa.load(folder / "copy").calibration == result.calibration


def test_the_model_of_an_unfinished_run_gets_a_card(folder: Path) -> None:
    with interrupted(after=1):
        sa.train(folder / "train.csv", encoder="emb_s2t", out=folder / "unfinished", **OPTIONS)
    result = calibrate(folder / "unfinished", folder / "dev.csv")
    assert sa.load(folder / "unfinished").calibration == result.calibration
    card = (folder / "unfinished" / "best" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    assert card.count("## Calibration") == 1


def test_an_exported_program_has_the_temperature(folder: Path) -> None:
    calibrate(folder / "run", folder / "dev.csv", thresholds={"good": 0.6})
    model = sa.load(folder / "run")
    difference = export_program(model, folder / "model.pt2", check=True)
    assert difference is not None
    extra = {DESCRIPTION: ""}
    torch.export.load(folder / "model.pt2", extra_files=extra)
    assert Calibration(**json.loads(extra[DESCRIPTION])["calibration"]) == model.calibration


def test_the_command_prints_figures_and_writes_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(folder / "run")
    assert main(["calibrate", run, "--threshold", "good=.6", "--abstain", ".7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fitted on 4 examples; measured on fifths of the data, each by the temperature of the others"
    assert lines[1].startswith("temperature  expected calibration error ")
    assert lines[-1].startswith("answers ")
    assert (folder / "run" / "plots" / "calibration.html").read_text(encoding="utf-8").count("<svg") == 1
    assert main(["calibrate", run, "--data", str(folder / "dev.csv"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["examples"] == 40
    assert values["coverage"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "{folder}/train.csv"], "train.csv is a training file of {folder}/run, on which every model is too"),
        (["--data", "{folder}/one.csv"], "one.csv: expected examples of at least two classes of the model, got 'good'"),
        (["--threshold", "good=1.2"], "threshold good: expected a probability, from 0 to 1, got 1.2"),
        (
            ["--threshold", "god=.2"],
            "threshold: expected labels of the data, got 'god' (did you mean 'good'?); known: bad, good",
        ),
        (["--threshold", "good"], "--threshold: expected a label and a probability, such as urgent=.8, got 'good'"),
        (["--abstain", "1.5"], "abstain: expected a probability, from 0 to 1, got 1.5"),
    ],
)
def test_what_is_refused(folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.csv").write_text("text,label\nso fine,good\nfine,good\n", encoding="utf-8")
    filled = [argument.format(folder=folder) for argument in arguments]
    assert main(["calibrate", str(folder / "run"), *filled]) == 2
    assert message.format(folder=folder) in capsys.readouterr().err


@pytest.mark.parametrize("train", ["train.csv", "./train.csv", "*.csv", "**/*.csv", "[t]rain.csv"])
def test_only_training_files_are_refused_whatever_names_them(
    train: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "held").mkdir()
    shutil.move("dev.csv", "held/dev1.csv")
    sa.train(train, "./held/d*.csv", encoder="emb_s2t", out="second", **OPTIONS)
    shutil.move("train.csv", "moved.csv")
    with pytest.raises(ConfigError, match=r"calibrate: moved\.csv is a training file of second"):
        calibrate("second", "moved.csv")
    if "**" not in train:  # then it is one, too
        assert calibrate("second", "held/dev1.csv").examples == 40


def test_labels_that_training_never_saw_are_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [("so fine", "good"), ("so dull", "bad"), ("so odd", "odd")]
    assert calibrate(folder / "run", rows).examples == 2
    assert "1 of 3 examples have labels that the model lacks" in caplog.text


def test_only_classifiers_are_calibrated(tmp_path: Path) -> None:
    rows = [("dogs bark", "N V"), ("cats sleep", "N V")]
    (tmp_path / "tags.txt").write_text("dogs N\nbark V\n\ncats N\nsleep V\n", encoding="utf-8")
    sa.train(
        tmp_path / "tags.txt", tmp_path / "tags.txt", encoder="bilstm", task="tagging", out=tmp_path / "run", **OPTIONS
    )
    with pytest.raises(ConfigError, match="expected a model that answers with classes, got task 'tagging'"):
        calibrate(tmp_path / "run", rows)
