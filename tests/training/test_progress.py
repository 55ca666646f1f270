"""What a run says while it goes on, when it is interrupted, when it fails, and when the disk is full."""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import structattn as sa
from structattn.cli import main
from structattn.errors import ConfigError, MissingExtra
from structattn.files.json_yaml import read_json_lines, read_yaml, write_json
from structattn.files.progress import Lines
from structattn.files.replacing import replace_folder, replace_text
from structattn.training import RunFolder, loop
from structattn.training.history import open_curves

ROWS = [("a fine film", "good"), ("a dull film", "bad"), ("fine indeed", "good"), ("dull indeed", "bad")] * 5
OPTIONS: dict[str, Any] = {"encoder": "emb_s2t", "options": {"dim": 4}, "device": "cpu", "task": "classification"}


class Clock:
    """A clock that goes on by so many seconds each time it is read."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 100.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def test_the_command_line_says_each_warning_once_and_names_it_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that is built on trial, to see which trees it reads, warns of nothing."""
    data = tmp_path / "a.txt"
    data.write_text("(3 (2 It) (4 works))\n(1 (2 It) (0 drags))\n" * 4, encoding="utf-8")
    words = ["--task", "sst5", "--encoder", "tree_transformer", "--options.dim", "4", "--options.num_heads", "1"]
    words += ["--options.mask", "none", "--data.train", str(data), "--data.dev", str(data), "--device", "cpu"]
    assert main(["train", *words, "--optimization.epochs", "1", "--out", str(tmp_path / "run")]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "all phrases of a sentence" in line]
    assert [line.partition(":")[0] for line in lines] == ["warning"]


def test_a_log_file_has_a_line_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines(120, done=20, unit="step", logger=logging.getLogger("structattn"), clock=Clock(2.5))
    with caplog.at_level(logging.INFO, logger="structattn"):
        for _ in range(9):
            lines.update()
    assert [record.getMessage() for record in caplog.records] == [
        "step 24 of 120 (20 %), 0:00:10 so far, at most about 0:04:00 left",
        "step 28 of 120 (23 %), 0:00:20 so far, at most about 0:03:50 left",
    ]


def test_the_last_lines_name_the_best_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="structattn"):
        result = sa.train(ROWS, out=str(tmp_path / "run"), optimization={"epochs": 2}, **OPTIONS)
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("best: ")]
    assert len(said) == 1
    assert f"in epoch {result.best['epoch']:g} of 2" in said[0]


def interrupt(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Ctrl-C at the end of a method of the training loop."""
    method = getattr(loop._Loop, name)

    def interrupted(self: Any, *given: Any) -> None:
        method(self, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop._Loop, name, interrupted)


def arguments(tmp_path: Path) -> list[str]:
    data = tmp_path / "reviews.csv"
    data.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS), encoding="utf-8")
    chosen = ["--task", "classification", "--encoder", "emb_s2t", "--options.dim", "4", "--device", "cpu"]
    return ["train", *chosen, "--data.train", str(data), "--optimization.epochs", "2"]


@pytest.mark.parametrize(("chosen", "place", "seed"), [([], "run", "1"), (["--seeds", "2..3"], "run/seed2", "2")])
def test_an_interrupt_says_how_to_go_on(
    chosen: list[str],
    place: str,
    seed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words, folder = arguments(tmp_path), str(tmp_path / place)
    with monkeypatch.context() as patch:
        interrupt(patch, "_save")
        assert main([*words, *chosen, "--out", str(tmp_path / "run")]) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    how = ["--seed", seed, "--out", folder, "--resume"]
    assert said == f"structattn: interrupted; {folder} keeps the run so far; resume it with {' '.join(how)}"
    assert main([*words, *how]) == 0
    assert RunFolder(folder).is_finished
    assert "best epoch" in capsys.readouterr().out


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_run_that_ends_before_its_first_evaluation_leaves_no_folder(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(loop._Loop, "_take_step", fail)
    code = main([*arguments(tmp_path), "--out", str(tmp_path / "runs" / "first" / "seed1")])
    assert code == (130 if error is KeyboardInterrupt else 2)  # what is raised here is not the package's
    assert "resume" not in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.csv"]


def fill(path: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("a")


def save_on_a_full_disk(target: Path) -> None:
    with replace_folder(target) as temporary:
        write_json(temporary / "config.json", {})
        fill("/dev/full")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"), replace_text("/dev/full") as stream:
        stream.write("a")
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'model'}'"):
        save_on_a_full_disk(tmp_path / "model")
    assert not list(tmp_path.iterdir())


# Experiment trackers.


def test_tensorboard_gets_what_the_run_folder_has(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    result = sa.train(ROWS, ROWS, out=tmp_path / "run", report_to="tensorboard", optimization={"epochs": 3}, **OPTIONS)
    (file,) = (tmp_path / "run" / "tensorboard").glob("events.*")
    found = events.EventAccumulator(str(file)).Reload()
    rows = list(read_json_lines(RunFolder(result.folder).metrics))
    assert len(rows) == 3
    expected = {f"dev/{name}": ("metrics", name) for name in result.metrics}
    expected |= {f"train/{name}": ("training", name) for name in ("loss", "learning_rate", "grad_norm")}
    assert set(found.Tags()["scalars"]) == set(expected)
    for tag, (part, name) in expected.items():
        points = [(point.step, point.value) for point in found.Scalars(tag)]
        assert points == [(row["step"], pytest.approx(row[part][name], rel=1e-6)) for row in rows]
    (settings,) = (tmp_path / "run" / "tensorboard").glob("*/hparams.yml")
    said = read_yaml(settings)
    assert (said["encoder"], said["options.dim"], said["optimization.epochs"]) == ("emb_s2t", 4, 3)


def test_without_a_tracker_nothing_is_written_for_one(tmp_path: Path) -> None:
    result = sa.train(ROWS, ROWS, out=tmp_path / "run", optimization={"epochs": 1}, **OPTIONS)
    assert not {"tensorboard", "wandb"} & {path.name for path in result.folder.iterdir()}


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_tracker_names_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"{name} is not installed; run: pip install 'structattn\[{name}\]'"):
        sa.train(ROWS, ROWS, out=tmp_path / "run", report_to=name, **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"report_to: expected .*tensorboard.*wandb.* got .*wandbb"):
        sa.train(ROWS, ROWS, out=tmp_path / "run", report_to="wandbb", **OPTIONS)


@pytest.mark.parametrize("project", [None, "mine"])
def test_wandb_keeps_the_names_of_its_own_settings(
    project: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("WANDB_PROJECT", "WANDB_NAME"):
        monkeypatch.delenv(variable, raising=False)
        if project is not None:
            monkeypatch.setenv(variable, project)
    begun: list[Any] = []
    configuration = SimpleNamespace(logging_dir=None)
    accelerator = SimpleNamespace(
        log_with=["wandb"], project_configuration=configuration, init_trackers=lambda *a: begun.extend(a), trackers=[]
    )
    open_curves(accelerator, RunFolder(tmp_path))
    assert begun[0] == (project or "structattn")
    assert begun[2]["wandb"] == {"dir": str(tmp_path), "name": project or str(tmp_path)}
