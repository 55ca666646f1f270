"""Comparing runs: mean and deviation, the two tests of significance, the examples that flipped."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from small_models import sentence_model
from structattn.cli import main
from structattn.data import Vocabulary
from structattn.syntax import ConfigError, ParseError
from structattn.syntax.folders import write_json, write_json_lines
from structattn.tasks import METRICS, get_task, metric
from structattn.training import DataConfig, RunConfig, RunFolder, compare, compare_answers, save_config

Answer = str | float


def write_run(
    path: Path, gold: Sequence[Answer], predicted: Sequence[Answer], *, encoder: str = "disan", split: str = "dev"
) -> Path:
    folder = RunFolder(path)
    path.mkdir(parents=True)
    numeric = not isinstance(gold[0], str)
    save_config(RunConfig("sick" if numeric else "trec", encoder, DataConfig("x")), folder.config)
    rows: list[dict[str, Any]] = [
        {"id": f"e{index}", "gold": one, "predicted": other, "scores": {}}
        for index, (one, other) in enumerate(zip(gold, predicted, strict=True))
    ]
    write_json_lines(folder.predictions(split), rows)
    write_json(folder.result, {"main_metric": "pearson" if numeric else "accuracy"})
    return path


def test_compare_by_hand(tmp_path: Path) -> None:
    gold = list("aabb")
    plain = [write_run(tmp_path / f"plain/seed{seed}", gold, answers) for seed, answers in enumerate(["aaaa", "aaba"])]
    tree = [
        write_run(tmp_path / f"tree/seed{seed}", gold, answers, encoder="ms_san")
        for seed, answers in enumerate(["aabb", "babb"])
    ]
    result = compare(tmp_path / "plain", tmp_path / "tree", samples=200)
    assert (result.metric, result.split, result.num_examples) == ("accuracy", "dev", 4)
    first, second = result.groups
    assert (first.name, first.values, first.mean) == ("disan (plain)", (0.5, 0.75), 0.625)
    assert first.deviation == pytest.approx(math.sqrt(2) / 8)
    assert (second.name, second.values) == ("ms_san (tree)", (1.0, 0.75))
    assert first.folders == tuple(plain)
    (difference,) = result.differences
    assert difference.significance.difference == pytest.approx(0.25)
    assert [(flip.id, flip.won) for flip in difference.flips] == [("e3", True), ("e0", False), ("e2", True)]
    assert difference.flips[0].first == ("a", "a")
    assert difference.flips[0].second == ("b", "b")
    assert compare(plain, tree, samples=200) == result
    assert compare(plain, tree, samples=200, seed=1) != result


def test_single_runs_have_no_deviation(tmp_path: Path) -> None:
    one = write_run(tmp_path / "disan", list("ab"), list("ab"))
    (group,) = compare(one).groups
    assert (group.name, group.mean, group.deviation) == ("disan", 1.0, None)
    assert compare(one).differences == ()


def test_on_test_the_development_data_choose_among_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, (dev, test) in enumerate([(0.5, 0.9), (0.75, 0.6), (0.7, 0.2)]):
        run = write_run(tmp_path / f"runs/seed{seed}", list("ab"), list("ab"), split="test")
        figures = {"accuracy": test, "fact_accuracy": test / 2, **({"unseen_labels": 1.0} if seed else {})}
        write_json(RunFolder(run).result, {"main_metric": "accuracy", "metrics": {"accuracy": dev}, "test": figures})
    (group,) = compare(tmp_path / "runs").groups
    assert group.chosen == {
        "best of 3 on dev": {"accuracy": 0.6, "fact_accuracy": 0.3},
        "mean of best 2 on dev": {"accuracy": pytest.approx(0.4), "fact_accuracy": pytest.approx(0.2)},
    }
    assert main(["compare", str(tmp_path / "runs")]) == 0
    *_, header, best, half = capsys.readouterr().out.splitlines()
    assert header.split() == ["system", "seeds", "accuracy", "fact_accuracy"]
    assert best.split()[-2:] == ["0.6000", "0.3000"]
    assert half.split()[-2:] == ["0.4000", "0.2000"]
    assert compare(tmp_path / "runs" / "seed0").groups[0].chosen == {}


def test_best_models_answer_other_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = get_task("trec")
    runs, models = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        run = write_run(tmp_path / f"seed{seed}", list("ab"), list("ab"))
        options = {"dim": 4}
        model = sentence_model("emb_s2t", task, vocabulary=Vocabulary(["who", "where"]), labels="ab", options=options)
        model.save_pretrained(RunFolder(run).best)
        runs.append(run)
        models.append(model.eval())
    data = tmp_path / "new.txt"
    data.write_text("a who\nb where\nb what\na where who\n", encoding="utf-8")
    result = compare(*runs, data=str(data), samples=100)
    assert (result.split, result.num_examples) == (str(data), 4)
    examples = list(task.read(str(data)))
    assert [group.values[0] for group in result.groups] == [
        model.evaluate(examples).metrics["accuracy"] for model in models
    ]
    assert main(["compare", *map(str, runs), "--data", str(data)]) == 0
    assert f"accuracy on {data}, 4 examples" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="a split of the runs' own predictions, or other data, not both"):
        compare(*runs, data=str(data), split="dev")
    with pytest.raises(ParseError, match="No such file"):
        compare(*runs, data=str(tmp_path / "nowhere.txt"))


def test_scores_compare_too(tmp_path: Path) -> None:
    gold = [1.0, 2.0, 3.0, 4.0, 5.0]
    first = write_run(tmp_path / "first", gold, [2.0, 1.0, 3.0, 4.0, 5.0])
    second = write_run(tmp_path / "second", gold, gold)
    result = compare(first, second, samples=100)
    assert result.metric == "pearson"
    assert result.differences[0].significance.difference == pytest.approx(0.1)
    assert [flip.id for flip in result.differences[0].flips] == ["e0", "e1"]
    assert compare(first, second, metric="mean_squared_error", samples=100).groups[0].mean == pytest.approx(0.4)


def test_test_predictions_serve_where_there_are_no_dev_ones(tmp_path: Path) -> None:
    folds = write_run(tmp_path / "folds", list("ab"), list("aa"), split="test")
    assert compare(folds).split == "test"
    with pytest.raises(ConfigError, match="no predictions on 'dev'; it has test"):
        compare(folds, split="dev")


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    base = write_run(tmp_path / "base", list("aab"), list("aab"))
    shorter = write_run(tmp_path / "shorter", list("aa"), list("aa"))
    other = write_run(tmp_path / "other", list("abb"), list("abb"))
    with pytest.raises(ConfigError, match=r"has 3 examples and .* has 2: runs are compared on the same examples only"):
        compare(base, shorter)
    with pytest.raises(ConfigError, match=r"has example 'e1' \('a'\) where .* has 'e1' \('b'\)"):
        compare(base, other)
    with pytest.raises(ConfigError, match="'pearson' compares numbers, which these predictions are not"):
        compare(base, metric="pearson")
    with pytest.raises(ConfigError, match="unknown metric 'f1'"):
        compare(base, metric="f1")
    with pytest.raises(ConfigError, match="is not a run folder and holds none"):
        compare(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="at least one run folder"):
        compare()
    RunFolder(base).result.unlink()
    with pytest.raises(ConfigError, match="this run is not finished"):
        compare(base)


# Significance.


def coins(generator: np.random.Generator, gold: np.ndarray, share: float) -> np.ndarray:
    """Answers of which this share is right."""
    wrong = np.where(gold == "a", "b", "a")
    return np.where(generator.random(len(gold)) < share, gold, wrong)


def test_equal_systems_do_not_differ() -> None:
    gold = np.array(["a", "b"] * 100)
    answers = coins(np.random.default_rng(0), gold, 0.7)
    result = compare_answers(metric("accuracy"), gold, first=[answers], second=[answers], samples=200)
    assert (result.difference, result.low, result.high) == (0, 0, 0)
    assert (result.bootstrap_p, result.randomisation_p) == (1, 1)


def test_p_values_are_uniform_under_the_null_hypothesis() -> None:
    """Two coins of the same bias: about one in ten comparisons falls below 0.1, for both tests."""
    generator = np.random.default_rng(0)
    gold = np.array(["a", "b"] * 75)
    found = [
        compare_answers(
            metric("accuracy"),
            gold,
            first=[coins(generator, gold, 0.7)],
            second=[coins(generator, gold, 0.7)],
            samples=200,
        )
        for _ in range(200)
    ]
    for p_values in ([one.bootstrap_p for one in found], [one.randomisation_p or 0 for one in found]):
        assert 0.03 < np.mean(np.array(p_values) < 0.1) < 0.18
    covered = np.mean([one.low <= 0 <= one.high for one in found])
    assert covered > 0.9


def test_randomisation_against_every_exchange() -> None:
    """For eight examples all 256 exchanges can be tried."""
    gold, first, second = (np.array(list(text)) for text in ("aaaaaaaa", "abbbbbaa", "aaaaabba"))
    changes = (second == gold).astype(int) - (first == gold).astype(int)
    totals = [abs(sum(changes * (1 - 2 * (np.arange(8) >> 0) * 0))) for _ in range(1)]
    observed = totals[0]
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    exact = np.mean(np.abs(signs @ changes) >= observed)
    result = compare_answers(metric("accuracy"), gold, first=[first], second=[second], samples=20_000)
    assert result.randomisation_p == pytest.approx(exact, abs=0.02)


def test_bootstrap_interval_against_the_normal_approximation() -> None:
    generator = np.random.default_rng(1)
    gold = np.array(["a", "b"] * 500)
    first, second = coins(generator, gold, 0.6), coins(generator, gold, 0.7)
    result = compare_answers(metric("accuracy"), gold, first=[first], second=[second], samples=4000)
    changes = (second == gold).astype(float) - (first == gold).astype(float)
    error = 1.96 * changes.std() / math.sqrt(len(gold))
    assert result.low == pytest.approx(changes.mean() - error, abs=0.1 * error)
    assert result.high == pytest.approx(changes.mean() + error, abs=0.1 * error)
    assert result.bootstrap_p < 0.01


@pytest.mark.parametrize("name", [name for name, one in METRICS.items() if one.concerns is None and name != "bleu"])
def test_every_metric_tells_a_better_system(name: str) -> None:
    found = metric(name)
    generator = np.random.default_rng(2)
    if found.is_numeric:
        gold = generator.normal(size=200)
        noise = generator.normal(size=(4, 200))
        first, second = [gold + 3 * row for row in noise[:2]], [gold + 0.5 * row for row in noise[2:]]
    else:
        gold = generator.choice(["a", "b"], 200)
        first, second = ([coins(generator, gold, share) for _ in range(2)] for share in (0.6, 0.9))
    result = compare_answers(found, gold, first=first, second=second, samples=300)
    assert (result.difference > 0) == found.greater_is_better
    assert result.bootstrap_p < 0.02
    assert result.randomisation_p is not None
    assert result.randomisation_p < 0.02
    assert result.low <= result.difference <= result.high


def test_unequal_numbers_of_seeds_have_no_randomisation_test() -> None:
    gold = np.array(["a", "b"] * 20)
    result = compare_answers(metric("accuracy"), gold, first=[gold], second=[gold, gold], samples=10)
    assert result.randomisation_p is None


def test_seeds_decide_the_resamples() -> None:
    gold = np.array(["a", "b"] * 50)
    answers = [coins(np.random.default_rng(seed), gold, 0.7) for seed in (0, 1)]
    results = [
        compare_answers(metric("accuracy"), gold, first=answers[:1], second=answers[1:], samples=50, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert results[0] == results[1] != results[2]


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample, got 0, 1, 10"):
        compare_answers(metric("accuracy"), np.array(["a"]), first=[], second=[np.array(["a"])], samples=10)


def test_comparisons_are_plain_values(tmp_path: Path) -> None:
    import dataclasses

    one = write_run(tmp_path / "one", list("ab"), list("ab"))
    other = write_run(tmp_path / "other", list("ab"), list("aa"))
    text = json.dumps(dataclasses.asdict(compare(one, other, samples=10)), default=str)
    assert json.loads(text)["differences"][0]["flips"][0]["id"] == "e1"
