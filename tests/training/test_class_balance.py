"""Rare classes: their share of held-out data, the weights of their losses, how often they are drawn, what is chosen."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import structattn as sa
from structattn.cli import main
from structattn.data import Example
from structattn.errors import ConfigError
from structattn.files.json_yaml import read_json, read_json_lines
from structattn.tasks.task_table import CLASSIFICATION
from structattn.training import DataConfig, OptimizationConfig, ParserConfig, RunConfig
from structattn.training.examples import _hold_out, _shuffle, _take_fold, _weigh, read_split
from structattn.training.plan import plan_run
from structattn.training.sampler import batch_sampler

COUNTS = {"praise": 470, "complaint": 220, "question": 80, "neutral": 30}
EXAMPLES = [Example("x", label, id=f"{label}{number}") for label, count in COUNTS.items() for number in range(count)]


def count(examples: list[Example]) -> Counter[str]:
    return Counter(str(example.label) for example in examples)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.33, 0.5, 0.9])
def test_held_out_data_have_their_share_of_every_class(share: float) -> None:
    train, dev = _hold_out(EXAMPLES, share, stratify=True)
    assert len(dev) == max(1, round(800 * share))
    assert sorted(example.id for example in train + dev) == sorted(example.id for example in EXAMPLES)
    for label, number in COUNTS.items():
        assert abs(count(dev)[label] - number * len(dev) / 800) < 1


def test_held_out_data_of_published_data_sets_stay_as_they_were_recorded() -> None:
    _, dev = _hold_out(EXAMPLES, 0.1, stratify=False)
    assert {example.id for example in dev} == {EXAMPLES[position].id for position in _shuffle(800)[:80]}


def test_folds_have_their_share_of_every_class() -> None:
    parts = [_take_fold(EXAMPLES, 7, fold, stratify=True)[1] for fold in range(1, 8)]
    assert sorted(example.id for part in parts for example in part) == sorted(example.id for example in EXAMPLES)
    for label, number in COUNTS.items():
        assert all(abs(count(part)[label] - number / 7) <= 1 for part in parts)


def test_balanced_weights_give_every_class_the_same_part_of_the_loss() -> None:
    weighed = _weigh(CLASSIFICATION, EXAMPLES, "balanced")
    totals = Counter[str]()
    for example in weighed:
        totals[str(example.label)] += example.weight
    assert list(totals.values()) == pytest.approx([200.0] * 4)
    assert _weigh(CLASSIFICATION, EXAMPLES, None) is EXAMPLES
    by_hand = _weigh(CLASSIFICATION, [Example("x", "a", weight=0.5), Example("x", "b")], {"a": 4.0})
    assert [example.weight for example in by_hand] == [2.0, 1.0]
    with pytest.raises(ConfigError, match=r"got 'netural' \(did you mean 'neutral'\?\)"):
        _weigh(CLASSIFICATION, EXAMPLES, {"netural": 2.0})


def test_balanced_draws_are_of_all_classes_alike_and_repeat() -> None:
    classes = np.array([0] * 90 + [1] * 10)
    probabilities = 1 / (2 * np.array([90, 10])[classes])
    sampler = batch_sampler([3] * 100, OptimizationConfig(batch_size=8), seed=1, probabilities=probabilities)
    drawn = []
    for epoch in range(50):
        sampler.set_epoch(epoch)
        rows = [row for batch in sampler for row in batch]
        assert len(rows) == 100
        assert rows == [row for batch in sampler for row in batch]
        drawn += rows
    assert abs(np.mean(classes[drawn]) - 0.5) < 4 * 0.5 / np.sqrt(5000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weights": {"a": 0.0}}, "data.class_weights: expected numbers above 0, got 0.0"),
        ({"class_weights": "balanced", "sampling": "balanced"}, "data.sampling: expected none beside"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DataConfig(train="x", **options)  # type: ignore[arg-type]


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "reviews.csv"
    words = {"good": "fine", "bad": "dull", "odd": "so"}
    labels = ["good"] * 20 + ["bad"] * 12 + ["odd"] * 8
    rows = [f"{words[label]} film {number},{label}" for number, label in enumerate(labels)]
    file.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return file


def test_what_does_not_fit_the_task_is_refused_before_anything_is_read(reviews: Path) -> None:
    data = DataConfig(str(reviews), class_weights="balanced")
    for task, message in (("tagging", "data.class_weights: task 'tagging' has no classes"),):
        with pytest.raises(ConfigError, match=message):
            plan_run(RunConfig(task, "bilstm", data))
    optimization = OptimizationConfig(metric="pearson")
    with pytest.raises(ConfigError, match="metric 'pearson' does not compare labels"):
        plan_run(RunConfig("classification", "bilstm", DataConfig(str(reviews)), optimization=optimization))
    with pytest.raises(ConfigError, match=r"optimization\.metric: expected none"):
        ParserConfig("x.conllu", "y.conllu", "out", optimization=optimization)
    tokens = OptimizationConfig(batch_tokens=100)
    with pytest.raises(ConfigError, match=r"data\.sampling: expected optimization\.batch_size"):
        plan_run(
            RunConfig("classification", "bilstm", DataConfig(str(reviews), sampling="balanced"), optimization=tokens)
        )


def test_only_the_tasks_of_ones_own_files_hold_out_by_class(reviews: Path) -> None:
    for task, stratify, expected in (
        ("classification", None, True),
        ("classification", "never", False),
        ("trec", None, False),
        ("trec", "always", True),
    ):
        plan = plan_run(RunConfig(task, "bilstm", DataConfig(str(reviews), holdout=0.25, stratify=stratify)))
        assert plan.stratify is expected
        if expected:
            assert count(list(read_split(plan).dev)) == {"good": 5, "bad": 3, "odd": 2}


@pytest.mark.integration
def test_the_chosen_metric_chooses_stops_and_is_recorded(reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["train", "--task", "classification", "--encoder", "emb_s2t", "--options.dim", "8", "--data.train"]
    arguments += [str(reviews), "--optimization.epochs", "3", "--optimization.metric", "macro_f1", "--out", str(out)]
    assert main([*arguments, "--data.class_weights", "{odd: 3}"]) == 0
    history = list(read_json_lines(out / "metrics.jsonl"))
    best = [row for row in history if row["is_best"]][-1]
    assert best["metrics"]["macro_f1"] == max(row["metrics"]["macro_f1"] for row in history)
    assert read_json(out / "result.json")["main_metric"] == "macro_f1"
    assert sa.load(out).task.main_metric.name == "macro_f1"
    assert "chosen on dev by macro\\_f1" in (out / "best" / "README.md").read_text(encoding="utf-8")


@pytest.mark.integration
def test_the_lines_on_the_data_say_how_dev_was_made(
    reviews: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "structattn.training")
    sa.train(reviews, encoder="emb_s2t", sampling="balanced", optimization={"epochs": 1}, out=tmp_path / "run")
    assert "dev: 4 examples (csv, held out by class)" in caplog.text
    assert "dev has only 2 of good, 1 of bad, 1 of odd: --folds 5" in caplog.text
