"""Comparing runs: mean and deviation, the two tests of significance, the examples that flipped."""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import structattn as sa
from small_models import sentence_model
from structattn.cli import main
from structattn.data import Vocabulary
from structattn.errors import ConfigError, ParseError
from structattn.files.json_yaml import read_json, read_json_lines, write_json, write_json_lines
from structattn.inspection import comparison_table, flips_page
from structattn.tasks import METRICS, get_task, metric
from structattn.training import (
    DataConfig,
    RunConfig,
    RunFolder,
    Significance,
    compare,
    significance,
)
from structattn.training.comparison import Comparison, Difference, Group
from structattn.training.run_config import save_config
from structattn.training.significance import compare_answers

pytestmark = pytest.mark.integration

Answer = str | float


def write_run(
    path: Path, gold: Sequence[Answer], predicted: Sequence[Answer], *, encoder: str = "disan", split: str = "dev"
) -> Path:
    folder = RunFolder(path)
    path.mkdir(parents=True)
    numeric = not isinstance(gold[0], str)
    save_config(RunConfig("sick" if numeric else "trec", encoder, DataConfig("x")), folder.config)
    rows: list[dict[str, Any]] = [
        {"id": f"e{index}", "gold": one, "predicted": other, "scores": {}, "texts": [f"text <{index}>"]}
        for index, (one, other) in enumerate(zip(gold, predicted, strict=True))
    ]
    write_json_lines(folder.predictions(split), rows)
    main_metric = "pearson" if numeric else "accuracy"
    write_json(folder.result, {"main_metric": main_metric, "metrics": {main_metric: 0.5}})
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
    assert difference.flips[0].texts == ("text <3>",)
    assert compare(plain, tree, samples=200) == result
    assert compare(plain, tree, samples=200, seed=1) != result


def test_parts_of_the_examples_are_measured_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "dev.csv"
    lines = ["text,label,shop", "one two,a,x", "one,a,x", f"{'word ' * 12},b,y", "one,b,x"]
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    first, second = (write_run(tmp_path / name, list("aabb"), list(answers)) for name, answers in
                     (("disan", "abbb"), ("ms_san", "aaaa")))  # fmt: skip
    for folder in (first, second):
        save_config(RunConfig("classification", folder.name, DataConfig(str(data), str(data))), folder / "config.yaml")
    rows = list(read_json_lines(first / "predictions" / "dev.jsonl"))
    rows[2]["texts"] = ["word " * 12]
    write_json_lines(first / "predictions" / "dev.jsonl", rows)

    def parts(by: str) -> dict[str, tuple[int, tuple[float, ...]]]:
        compared = compare(first, second, by=by, samples=10).parts
        return {part.value: (part.num_examples, part.means) for part in compared}

    assert parts("class") == {"a": (2, (0.5, 1.0)), "b": (2, (1.0, 0.0))}
    assert parts("length") == {"0–9 words": (3, (2 / 3, 2 / 3)), "10–19 words": (1, (1.0, 0.0))}
    assert parts("shop") == {"x": (3, (2 / 3, 2 / 3)), "y": (1, (1.0, 0.0))}
    assert main(["compare", str(first), str(second), "--by", "shop", "--examples", "0"]) == 0
    assert "part  examples   disan  ms_san\nx            3  0.6667  0.6667\n" in capsys.readouterr().out
    with pytest.raises(ParseError, match="expected a column 'sho'"):
        parts("sho")
    scores = [write_run(tmp_path / name, [1.0, 2.0], [1.0, 1.0]) for name in ("three", "four")]
    with pytest.raises(ConfigError, match="by: expected length or a column"):
        compare(*scores, by="class")
    kept = [write_run(tmp_path / name, ["a", "b"], ["a", "b"], split="late") for name in ("five", "six")]
    with pytest.raises(ConfigError, match="give the file as data"):
        compare(*kept, by="shop", split="late")


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
    runs = [trained(tmp_path / f"seed{seed}", seed) for seed in (1, 2)]
    data = tmp_path / "new.txt"
    data.write_text("a who\nb where\nb what\na where who\n", encoding="utf-8")
    result = compare(*runs, data=str(data), samples=100)
    assert (result.split, result.num_examples) == (str(data), 4)
    examples = list(get_task("trec").read(str(data)))
    assert [group.values[0] for group in result.groups] == [
        sa.load(run).evaluate(examples).metrics["accuracy"] for run in runs
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


def trained(path: Path, seed: int) -> Path:
    """A finished run with a model of two words."""
    torch.manual_seed(seed)
    run = write_run(path, list("ab"), list("ab"))
    task, options = get_task("trec"), {"dim": 4}
    model = sentence_model("emb_s2t", task, vocabulary=Vocabulary(["who", "where"]), labels="ab", options=options)
    model.save_pretrained(RunFolder(run).best)
    return run


def test_predictions_of_an_evaluation_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [trained(tmp_path / f"runs/seed{seed}", seed) for seed in (1, 2)]
    data = tmp_path / "new.txt"
    data.write_text("a who\nb where\nb what\na where who\n", encoding="utf-8")
    expected = [sa.evaluate(run, data).metrics["accuracy"] for run in runs]
    assert not RunFolder(runs[0]).predictions("test").exists()
    sa.evaluate(runs[0], data, split="test")
    assert main(["eval", str(runs[1]), "--data", str(data), "--split", "test"]) == 0
    assert f"predictions: {RunFolder(runs[1]).predictions('test')}" in capsys.readouterr().err
    (group,) = compare(tmp_path / "runs", split="test").groups
    assert list(group.values) == expected
    result = read_json(RunFolder(runs[0]).result)
    assert result["test"]["accuracy"] == expected[0]
    assert result["main_metric"] == "accuracy"
    assert compare(runs[0]).split == "dev"
    rows = list(read_json_lines(RunFolder(runs[0]).predictions("test")))
    assert [row["texts"] for row in rows] == [["who"], ["where"], ["what"], ["where who"]]
    sa.evaluate(runs[0], data, split="test")  # the same examples again
    sa.evaluate(runs[0], data, split="other-domain")
    assert compare(runs[0], split="other-domain").groups[0].values == group.values[:1]
    assert read_json(RunFolder(runs[0]).result) == result
    data.write_text("a who\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="contains predictions on other examples; choose another name for these"):
        sa.evaluate(runs[0], data, split="test")
    assert list(read_json_lines(RunFolder(runs[0]).predictions("test"))) == rows


def test_what_keeps_no_predictions_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path / "run", 1)
    rows = [("who", "a"), ("where", "b")]
    for name in ("dev", "a/b", "", ".."):
        with pytest.raises(ConfigError, match="split: expected test or another name"):
            sa.evaluate(run, rows, split=name)
    with pytest.raises(ConfigError, match=r"best is not a run folder \(no config.yaml\)"):
        sa.evaluate(RunFolder(run).best, rows, split="test")
    with pytest.raises(ConfigError, match="expected its path, got a model"):
        sa.evaluate(sa.load(run), rows, split="test")
    RunFolder(run).result.unlink()
    with pytest.raises(ConfigError, match="this run is not finished; resume it"):
        sa.evaluate(run, rows, split="test")
    data = tmp_path / "new.txt"
    data.write_text("a who\nb where\n", encoding="utf-8")
    assert main(["eval", str(run), "--data", str(data)]) == 0
    assert f"{run}: this run is not finished; its best model so far is used" in capsys.readouterr().err


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
    with pytest.raises(ConfigError, match="is not a run folder and contains none"):
        compare(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="at least one run folder"):
        compare()
    RunFolder(base).result.unlink()
    with pytest.raises(ConfigError, match="this run is not finished"):
        compare(base)


# On paper and on a page.


def results(*means: float, name: str = "accuracy", p: float = 0.004) -> Comparison:
    """Systems a, b_c, ... of two seeds each, whose differences from the first have this p-value."""
    groups = [
        Group(letter, (), (mean - 0.01, mean + 0.01), mean, 0.0141)
        for letter, mean in zip(("a", "b_c", "d"), means, strict=False)
    ]
    differences = [
        Difference("a", group.name, Significance(group.mean - means[0], -0.002, 0.05, p, None), ())
        for group in groups[1:]
    ]
    return Comparison(name, "dev", 500, tuple(groups), tuple(differences))


def test_a_table_in_markdown() -> None:
    assert comparison_table(results(0.875, 0.9), "markdown").splitlines() == [
        "| system | seeds | accuracy (%) | difference | 95 % interval | p |",
        "|:---|---:|---:|---:|---:|---:|",
        "| a | 2 | 87.5 ± 1.4 |  |  |  |",
        r"| b\_c | 2 | **90.0** ± 1.4\*\* | +2.5 | −0.2 to +5.0 | .004 |",
        "",
        "500 examples (dev); mean ± standard deviation over seeds, the best in bold. Differences from a with 95 % "
        r"interval and p-value of a paired bootstrap over examples and seeds; \* p < .05, \*\* p < .01.",
    ]


def test_a_table_in_latex() -> None:
    assert comparison_table(results(0.875, 0.85, 0.9, p=0.01), "latex").splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\begin{tabular}{lrrrrr}",
        r"\toprule",
        r"system & seeds & accuracy (\%) & difference & 95 \% interval & $p$ \\",
        r"\midrule",
        r"a & 2 & 87.5 $\pm$ 1.4 &  &  &  \\",
        r"b\_c & 2 & 85.0 $\pm$ 1.4$^{*}$ & $-$2.5 & $-$0.2 to $+$5.0 & $.01$ \\",
        r"d & 2 & \textbf{90.0} $\pm$ 1.4$^{*}$ & $+$2.5 & $-$0.2 to $+$5.0 & $.01$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\caption{500 examples (dev); mean $\pm$ standard deviation over seeds, the best in bold. Differences from a "
        r"with 95 \% interval and p-value of a paired bootstrap over examples and seeds; $^{*}$ $p < .05$, "
        r"$^{**}$ $p < .01$, not corrected for multiple comparisons.}",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (0.05, r"**90.0** ± 1.4 | +2.5 | −0.2 to +5.0 | .05 |"),
        (0.0499, r"**90.0** ± 1.4\* | +2.5 | −0.2 to +5.0 | .05 |"),
        (0.0099, r"**90.0** ± 1.4\*\* | +2.5 | −0.2 to +5.0 | .01 |"),
        (0.0009, r"**90.0** ± 1.4\*\* | +2.5 | −0.2 to +5.0 | < .001 |"),
        (1.0, r"**90.0** ± 1.4 | +2.5 | −0.2 to +5.0 | 1.00 |"),
    ],
)
def test_marks_of_significance(p: float, shown: str) -> None:
    assert comparison_table(results(0.875, 0.9, p=p), "markdown").splitlines()[3].endswith(shown)


@pytest.mark.parametrize(
    ("name", "means", "scores"),
    [
        ("mean_squared_error", (0.3512, 0.3), ["0.351 ± 0.014", r"**0.300** ± 0.014\*\*"]),
        ("bleu", (24.13, 24.07), ["**24.1** ± 0.0", r"**24.1** ± 0.0\*\*"]),
        ("matthews", (-0.031, -0.04), ["**−3.1** ± 1.4", r"−4.0 ± 1.4\*\*"]),
    ],
)
def test_scales_of_metrics(name: str, means: tuple[float, ...], scores: list[str]) -> None:
    lines = comparison_table(results(*means, name=name), "markdown").splitlines()
    assert [line.split(" | ")[2] for line in lines[2:4]] == scores
    assert ("(%)" in lines[0]) == (name == "matthews")


def test_a_table_of_a_single_system() -> None:
    found = comparison_table(results(0.875), "markdown").splitlines()
    assert found[0] == "| system | seeds | accuracy (%) |"
    assert found[2] == "| a | 2 | **87.5** ± 1.4 |"
    assert found[-1] == "500 examples (dev); mean ± standard deviation over seeds, the best in bold."


def test_names_cannot_break_a_table() -> None:
    signs = r"\_{}&%$#~^<>|*"
    one = Comparison("accuracy", "dev", 1, (Group(signs, (), (1.0,), 1.0, None),), ())
    named = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater", "|": "bar"}
    escaped = "".join(rf"\text{named[sign]}{{}}" if sign in named else sign for sign in signs)
    for sign in "&%$#_":
        escaped = escaped.replace(sign, f"\\{sign}")
    escaped = escaped.replace(r"\_{}", r"\_\{\}", 1)
    assert escaped in comparison_table(one, "latex")
    assert r"\\\_{}\&%\$\#\~^\<\>\|\*" in comparison_table(one, "markdown")
    with pytest.raises(ConfigError, match=r"unknown layout 'latx' \(did you mean 'latex'\?\); known: markdown, latex"):
        comparison_table(one, "latx")


def test_a_page_of_flips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = list("aabb")
    for seed, answers in enumerate(["aaaa", "aaba"]):
        write_run(tmp_path / f"plain/seed{seed}", gold, answers)
    for seed, answers in enumerate(["aabb", "babb"]):
        write_run(tmp_path / f"tree/seed{seed}", gold, answers, encoder="ms_san")
    file = tmp_path / "flips.html"
    assert main(["compare", str(tmp_path / "plain"), str(tmp_path / "tree"), "--flips", str(file)]) == 0
    html = file.read_text(encoding="utf-8")
    assert "ms_san (tree) against disan (plain)" in html
    assert "Better on 2 of 4 examples, worse on 1; the largest changes first." in html
    rows = re.findall("<tr>(.*?)</tr>", html.partition("better (2)")[2])
    cells = [re.findall("<bdi>(.*?)</bdi>", row) for row in rows]
    assert cells[1:3] == [
        ["e3", "text &lt;3&gt;", "b", "a ×2", "b ×2"],
        ["e2", "text &lt;2&gt;", "b", "a, b", "b ×2"],
    ]
    assert cells[4] == ["e0", "text &lt;0&gt;", "a", "a ×2", "a, b"]
    assert "http" not in html
    printed = capsys.readouterr().out.splitlines()
    header, first = printed[printed.index("") + 1 :][3:][-4], printed[-3]
    assert header.split() == ["example", "gold", "disan", "(plain)", "ms_san", "(tree)", "is", "text"]
    assert first.split() == ["e3", "b", "a", "×2", "b", "×2", "better", "text", "<3>"]


def test_each_flip_has_the_command_that_opens_it_with_two_runs_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = list("aabb")
    for name, answers in (("plain/seed0", "aabb"), ("plain/seed1", "aaaa"), ("a tree/seed0", "aabb")):
        RunFolder(write_run(tmp_path / name, gold, answers)).best.mkdir()
    file = tmp_path / "flips.html"
    assert main(["compare", str(tmp_path / "plain"), str(tmp_path / "a tree"), "--flips", str(file)]) == 0
    runs = f"'{tmp_path}/a tree/seed0' {tmp_path}/plain/seed1"
    commands = [f"structattn explore {runs} --split dev --example {name}" for name in ("e2", "e3")]
    assert f"to open one: {commands[0]}" in capsys.readouterr().out
    html = unescape(file.read_text(encoding="utf-8"))
    assert all(command in html for command in commands)


def test_a_page_of_flips_needs_two_systems(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one", list("ab"), list("ab"))
    with pytest.raises(ConfigError, match="expected at least two systems to compare, got one"):
        flips_page(compare(run))
    same = flips_page(compare(run, run, samples=10))
    assert "Better on 0 of 2 examples, worse on 0" in same


# Significance.


def coins(generator: np.random.Generator, gold: np.ndarray, share: float) -> np.ndarray:
    """Answers of which this share is right."""
    one, other = np.unique(gold)
    wrong = np.where(gold == one, other, one)
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


def test_the_p_value_and_the_interval_hold_when_seeds_vary() -> None:
    """Systems whose training draws an accuracy around .7: neither is better, though a pair of runs may well differ."""
    generator = np.random.default_rng(0)
    gold = np.array(["a", "b"] * 50)

    def system() -> list[np.ndarray]:
        return [coins(generator, gold, share) for share in generator.normal(0.7, 0.1, size=5)]

    accuracy = metric("accuracy")
    found = [compare_answers(accuracy, gold, first=system(), second=system(), samples=200) for _ in range(150)]
    covered = np.mean([one.low <= 0 <= one.high for one in found])
    assert 0.9 < covered < 0.98, "examples alone cover it in half of the comparisons"
    below = np.mean([one.bootstrap_p < 0.1 for one in found])
    assert 0.05 < below < 0.16, "examples alone find a difference in half of the comparisons"


def test_the_bootstrap_draws_seeds_and_examples_by_themselves() -> None:
    """Against every draw of three examples, of two seeds, and of three seeds."""
    gold = np.array(list("aaa"))
    first = [np.array(list(answers)) for answers in ("bab", "bba")]
    second = [np.array(list(answers)) for answers in ("baa", "bab", "baa")]
    right = [np.array([answers == gold for answers in system]) for system in (first, second)]
    every = [np.array(list(itertools.product(range(number), repeat=number))) for number in (3, 2, 3)]
    changes = np.array(
        [
            right[1][seeds][:, examples].mean() - right[0][others][:, examples].mean()
            for examples, others, seeds in itertools.product(*every)
        ]
    )
    result = compare_answers(metric("accuracy"), gold, first=first, second=second, samples=20_000)
    assert result.difference == pytest.approx(2 / 9)
    assert [result.low, result.high] == pytest.approx(np.quantile(changes, [0.025, 0.975]).tolist())
    assert [result.low, result.high] == pytest.approx([-2 / 9, 2 / 3])
    assert result.bootstrap_p == pytest.approx(np.mean(np.abs(changes - 2 / 9) >= 2 / 9 - 1e-9), abs=0.02)


def test_seeds_alone_by_hand() -> None:
    """One seed is always wrong, the others are always right: whichever examples are drawn, the seeds decide."""
    gold = np.array(["a"] * 7)
    wrong, right = np.array(["b"] * 7), gold
    result = compare_answers(metric("accuracy"), gold, first=[wrong, right], second=[right], samples=20_000)
    # Two draws of two seeds: the difference is 1, 1/2 or 0, with probability 1/4, 1/2 and 1/4.
    assert (result.difference, result.low, result.high) == (0.5, 0, 1)
    assert result.bootstrap_p == pytest.approx(1 / 2, abs=0.02)


@pytest.mark.parametrize("name", ["accuracy", "macro_f1"])
def test_seeds_that_agree_count_as_one(name: str) -> None:
    generator = np.random.default_rng(5)
    gold = np.array(["a", "b"] * 30)
    first, second = coins(generator, gold, 0.6), coins(generator, gold, 0.8)
    single = compare_answers(metric(name), gold, first=[first], second=[second], samples=200)
    many = compare_answers(metric(name), gold, first=[first] * 3, second=[second] * 2, samples=200)
    for value in ("difference", "low", "high", "bootstrap_p"):
        assert getattr(many, value) == pytest.approx(getattr(single, value), abs=1e-12)


@pytest.mark.parametrize(
    ("seeds", "name", "expected"),
    [
        (1, "accuracy", (0.10833333, -0.00833333, 0.229375, 0.08982036, 0.15169661)),
        (1, "macro_f1", (0.10003778, -0.01440409, 0.22726937, 0.0998004, 0.13772455)),
        (3, "accuracy", (0.16944444, 0.006875, 0.33333333, 0.0499002, 0.00199601)),
        (3, "macro_f1", (0.17109228, 0.00866686, 0.34354248, 0.0499002, 0.00199601)),
    ],
)
def test_the_same_seed_gives_the_same_figures(seeds: int, name: str, expected: tuple[float, ...]) -> None:
    """Those of one seed are what examples alone gave before seeds were drawn too."""
    generator = np.random.default_rng(4)
    gold = np.array(["a", "b", "b"] * 40)
    first = [coins(generator, gold, share) for share in (0.6, 0.7, 0.75)][:seeds]
    second = [coins(generator, gold, share) for share in (0.7, 0.75, 0.9)][:seeds]
    result = compare_answers(metric(name), gold, first=first, second=second, samples=500, seed=3)
    assert dataclasses.astuple(result) == pytest.approx(expected, abs=1e-8)


def test_randomisation_against_every_exchange() -> None:
    """For eight examples all 256 exchanges can be tried."""
    gold, first, second = (np.array(list(text)) for text in ("aaaaaaaa", "abbbbbaa", "aaaaabba"))
    changes = (second == gold).astype(int) - (first == gold).astype(int)
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    exact = np.mean(np.abs(signs @ changes) >= abs(changes.sum()))
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


@pytest.mark.parametrize("name", [name for name, one in METRICS.items() if one.applies_to is None and name != "bleu"])
def test_every_metric_tells_a_better_system(name: str) -> None:
    found = metric(name)
    generator = np.random.default_rng(2)
    if found.is_numeric:
        gold = generator.normal(size=200)
        noise = generator.normal(size=(4, 200))
        first, second = [gold + 3 * row for row in noise[:2]], [gold + 0.5 * row for row in noise[2:]]
    else:
        gold = generator.choice(["B-a", "B-b"], 200)
        first, second = ([coins(generator, gold, share) for _ in range(2)] for share in (0.6, 0.9))
        if name == "word_perplexity":  # whose answers are the bits of words
            first, second = ([np.where(each == gold, "1", "2") for each in system] for system in (first, second))
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


@pytest.mark.parametrize(
    ("first", "second", "samples", "got"), [(0, 1, 10, "0, 1, 10"), (1, 0, 10, "1, 0, 10"), (1, 1, 0, "1, 1, 0")]
)
def test_nothing_to_compare_is_refused(first: int, second: int, samples: int, got: str) -> None:
    gold = np.array(["a"])
    with pytest.raises(ValueError, match=f"at least one sample, got {got}"):
        compare_answers(metric("accuracy"), gold, first=[gold] * first, second=[gold] * second, samples=samples)


@pytest.mark.parametrize("cells", [1, 7, 24, 25, 1000])
@pytest.mark.parametrize("samples", [1, 2, 11])
def test_resamples_are_drawn_in_blocks_that_fit_into_memory(
    cells: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extreme difference is never reached by chance: its p-value counts the resamples."""
    monkeypatch.setattr(significance, "_CELLS", cells)
    swaps = list(significance._draw_swaps(5, samples, np.random.default_rng(0)))
    kept = list(significance._resample(5, samples, (0, 0)))
    monkeypatch.setattr(significance, "_KEPT", 0)
    streamed = list(significance._resample(5, samples, (0, 0)))
    assert np.array_equal(np.concatenate(kept), np.concatenate(streamed))
    for blocks in (kept, streamed, swaps):
        assert [block.shape[1] for block in blocks] == [5] * len(blocks)
        assert sum(len(block) for block in blocks) == samples
        rows = max(1, cells // 5)
        assert all(len(block) == rows for block in blocks[:-1])
        assert len(blocks[-1]) <= rows
    gold = np.array(["a", "b"] * 30)
    wrong = np.array(["b", "a"] * 30)
    result = compare_answers(metric("accuracy"), gold, first=[wrong], second=[gold], samples=samples)
    assert result.bootstrap_p == result.randomisation_p == 1 / (samples + 1)


def test_four_million_cells_are_held_at_a_time_and_ten_thousand_samples_are_drawn() -> None:
    gold = np.array(["a", "b"] * 500)
    wrong = np.array(["b", "a"] * 500)
    result = compare_answers(metric("accuracy"), gold, first=[wrong], second=[gold])
    assert result.bootstrap_p == 1 / 10_001
    assert max(len(block) for block in significance._draw_swaps(1000, 10_000, np.random.default_rng(0))) == 4_000


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1e6])
def test_p_values_of_errors_have_no_unit(scale: float) -> None:
    generator = np.random.default_rng(0)
    gold, noise, less = (generator.normal(size=6) for _ in range(3))
    compared = [
        compare_answers(
            metric("mean_squared_error"),
            gold * size,
            first=[(gold + noise) * size],
            second=[(gold + 0.1 * less) * size],
            samples=999,
        )
        for size in (1.0, scale)
    ]
    one, other = ((found.bootstrap_p, found.randomisation_p) for found in compared)
    assert one == other
    assert max(one) < 0.1


def test_the_data_count_among_the_resamples_as_extreme_as_they() -> None:
    assert [significance._p_value(np.array(drawn)) for drawn in ([True, False, False], [True, True, False])] == [
        2 / 4, 3 / 4,
    ]  # fmt: skip
    assert significance._p_value(np.zeros(9, dtype=bool)) == 1 / 10


def test_comparisons_are_plain_values(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", list("ab"), list("ab"))
    other = write_run(tmp_path / "other", list("ab"), list("aa"))
    text = json.dumps(dataclasses.asdict(compare(one, other, samples=10)), default=str)
    assert json.loads(text)["differences"][0]["flips"][0]["id"] == "e1"
