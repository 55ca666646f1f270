"""Sweeps: the same seed and trials give the same study, however often it stops; the best configuration is one."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import structattn as sa
from structattn.errors import ConfigError
from structattn.training import DataConfig, OptimizationConfig, RunConfig, RunResult, load_config, sweep
from structattn.training.run_config import save_config
from structattn.training.study import rank_options, read_space

pytestmark = pytest.mark.integration

SPACE: dict[str, Any] = {
    "optimization.learning_rate": {"low": 0.0003, "high": 0.03, "log": True},
    "options.dim": {"low": 2, "high": 8, "step": 2},
    "classifier.activation": ["elu", "relu", None],
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    """A run whose result is a function of what was chosen; trial 3 fails as long as there is a file ``broken``."""
    (tmp_path / "train.txt").write_text("a x y\nb z\n" * 10, encoding="utf-8")

    def run(one: RunConfig, *, resume: bool = False) -> RunResult:
        assert one.out is not None
        if (tmp_path / "broken").exists() and one.out.endswith("trial003"):
            raise KeyboardInterrupt
        rate = one.optimization.learning_rate
        value = 1 - abs(rate - 0.003) + one.options["dim"] / 100 + (one.classifier.activation == "elu")
        return RunResult(Path(one.out), {"accuracy": value, "macro_f1": 0.0}, seconds=1.0)

    monkeypatch.setattr(sa.training, "run", run)
    data = DataConfig(str(tmp_path / "train.txt"))
    return RunConfig("trec", "emb_s2t", data, optimization=OptimizationConfig(epochs=1), out=str(tmp_path / "study"))


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_an_interrupted_study_becomes_the_same_as_one_that_was_not(
    config: RunConfig, sampler: Any, tmp_path: Path
) -> None:
    whole = list(sweep(config, SPACE, trials=14, sampler=sampler))
    assert [trial.number for trial in whole] == list(range(14))
    study = tmp_path / "study" / "study.json"
    first = study.read_text(encoding="utf-8")
    study.unlink()
    (tmp_path / "broken").touch()
    with pytest.raises(KeyboardInterrupt):
        list(sweep(config, SPACE, trials=14, sampler=sampler))
    assert len(json.loads(study.read_text(encoding="utf-8"))["trials"]) == 3
    (tmp_path / "broken").unlink()
    rest = [*sweep(config, SPACE, trials=13, sampler=sampler), *sweep(config, SPACE, trials=14, sampler=sampler)]
    assert rest == whole[3:]
    assert study.read_text(encoding="utf-8") == first
    assert list(sweep(config, SPACE, trials=14, sampler=sampler)) == []


def test_an_interrupt_says_how_to_resume_the_study(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str, str]]
) -> None:
    space, options = tmp_path / "space.yaml", tmp_path / "config.yaml"
    space.write_text(yaml.safe_dump({"options.dim": [2, 4]}))
    save_config(config, options)

    def interrupted(*_: object, **__: object) -> None:
        error = KeyboardInterrupt()
        error.add_note("resume trial000 with --resume")
        raise error

    monkeypatch.setattr(sa.training, "run", interrupted)
    code, _, err = call("sweep", space, "--config", options, "--out", str(config.out))
    assert code == 130
    assert err == f"structattn: interrupted; {config.out} keeps the study so far; the same command resumes it\n"


def test_values_lie_in_the_space_and_the_best_is_written(config: RunConfig, tmp_path: Path) -> None:
    found = list(sweep(config, SPACE, trials=10))
    for trial in found:
        assert 0.0003 <= trial.values["optimization.learning_rate"] <= 0.03
        assert trial.values["options.dim"] in (2, 4, 6, 8)
        assert trial.values["classifier.activation"] in ("elu", "relu", None)
    best = max(found, key=lambda trial: trial.metric)
    assert [trial for trial in found if trial.is_best][-1] == best
    written = load_config(tmp_path / "study" / "best.yaml")
    assert written.optimization.learning_rate == best.values["optimization.learning_rate"]
    assert (written.options["dim"], written.out) == (best.values["options.dim"], None)


def test_a_trial_without_a_metric_is_no_best_one(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = iter([math.nan, 0.5, math.nan, 0.7])

    def run(one: RunConfig, *, resume: bool = False) -> RunResult:
        return RunResult(Path(str(one.out)), {"accuracy": next(metrics), "macro_f1": 0.0}, seconds=1.0)

    monkeypatch.setattr(sa.training, "run", run)
    assert [trial.is_best for trial in sweep(config, SPACE, trials=3)] == [False, True, False]
    assert [trial.is_best for trial in sweep(config, SPACE, trials=4)] == [True]


def test_a_study_that_was_killed_before_its_best_was_written_writes_it(config: RunConfig, tmp_path: Path) -> None:
    list(sweep(config, SPACE, trials=4))
    best = tmp_path / "study" / "best.yaml"
    written = best.read_bytes()
    best.unlink()
    assert list(sweep(config, SPACE, trials=4)) == []
    assert best.read_bytes() == written


def test_messages_of_optuna_are_left_as_they_were(config: RunConfig) -> None:
    optuna = pytest.importorskip("optuna")
    before = optuna.logging.get_verbosity()
    list(sweep(config, SPACE, trials=1))
    assert optuna.logging.get_verbosity() == before


def test_a_study_of_something_else_is_not_continued(config: RunConfig) -> None:
    list(sweep(config, SPACE, trials=1))
    with pytest.raises(ConfigError, match="a study with another sampler; choose another folder"):
        list(sweep(config, SPACE, trials=2, sampler="random"))
    with pytest.raises(ConfigError, match="a study with another space"):
        list(sweep(config, {"options.dim": [2, 4]}, trials=2))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"optimization.rate": [1.0]}, "unknown option 'optimization.rate'"),
        ({"optimisation.epochs": [1]}, "unknown option 'optimisation.epochs' (did you mean 'optimization'?)"),
        ({"options.dims": [1, 2]}, "dims"),
        ({"optimization.epochs": []}, "optimization.epochs: expected a list of values, or a range"),
        ({"optimization.epochs": {"low": 3, "high": 1}}, "optimization.epochs: expected a list of values, or a range"),
        ({"optimization.epochs": {"low": 0, "high": 1, "log": True}}, "expected a list of values, or a range"),
        ({"optimization.epochs": {"min": 1, "max": 3}}, "expected a list of values, or a range"),
        ({"optimization.epochs": 3}, "expected a list of values, or a range"),
        ({}, "expected at least one option to search"),
    ],
    ids=str,
)
def test_faults_in_a_space(config: RunConfig, tmp_path: Path, space: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        list(sweep(config, space))
    assert message in str(caught.value)
    assert not (tmp_path / "study").exists()


def test_the_command(config: RunConfig, tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(yaml.safe_dump(SPACE), encoding="utf-8")
    words = [
        "--task",
        "trec",
        "--encoder",
        "emb_s2t",
        "--data.train",
        tmp_path / "train.txt",
        "--out",
        tmp_path / "study",
    ]
    code, out, _ = call("sweep", file, *words, "--trials", "2")
    assert code == 0
    assert out.splitlines()[0].startswith("trial 0: 1.")
    assert "*  classifier.activation " in out.splitlines()[0]
    assert out.splitlines()[-1].startswith(f"best: {tmp_path / 'study' / 'best.yaml'}")
    file.write_text("options.dim: 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"space.yaml: options.dim: expected a list"):
        read_space(file)
    assert call("sweep", file, *words, "--trials", "2")[0] == 2


def test_what_mattered_is_the_option_that_the_metric_follows(
    config: RunConfig, tmp_path: Path, call: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(one: RunConfig, *, resume: bool = False) -> RunResult:
        assert one.out is not None
        return RunResult(Path(one.out), {"accuracy": one.options["dim"] / 10, "macro_f1": 0.0}, seconds=1.0)

    monkeypatch.setattr(sa.training, "run", run)
    list(sweep(config, SPACE, trials=9, sampler="random"))
    assert rank_options(str(config.out)) == []
    list(sweep(config, SPACE, trials=30, sampler="random"))
    (name, share, best), *others = rank_options(str(config.out))
    assert (name, best) == ("options.dim", 8)
    assert share > 0.5
    assert share + sum(other for _, other, _ in others) == pytest.approx(1)
    space, options = tmp_path / "space.yaml", tmp_path / "config.yaml"
    space.write_text(yaml.safe_dump(SPACE, sort_keys=False), encoding="utf-8")
    save_config(config, options)
    code, out, _ = call("sweep", str(space), "--config", str(options), "--trials", "31", "--sampler", "random")
    assert code == 0
    assert "option                      importance  best value" in out
