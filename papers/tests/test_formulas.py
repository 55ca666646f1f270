"""Formulas: both notations have one value, no formula is in two parts, and what a run on them measures."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from structattn.tasks import metric
from structattn.training import DataConfig, OptimizationConfig, RunConfig, compare, load, run
from structattn.training.examples import read_split
from structattn.training.plan import plan_run
from structattn_papers.formulas import depth_of, formula_split, formulas
from structattn_papers.prefixes import correct_prefix


def value_of_prefix(words: list[str]) -> int:
    """What a formula in prefix notation comes to, with a stack."""
    stack: list[list[Any]] = [[]]
    for word in words:
        if word == "(":
            stack.append([])
        elif word == ")":
            operator, *operands = stack.pop()
            stack[-1].append(sum(operands) if operator == "+" else math.prod(operands))
        else:
            stack[-1].append(word if word in "+*" else int(word))
    return int(stack[0][0])


def test_both_notations_have_the_same_value() -> None:
    examples = formulas(7, [1, 2, 3, 4])
    for _ in range(200):
        example = next(examples)
        words = list(example.sentences[0].words)
        assert value_of_prefix(words) == eval(str(example.label))
        assert depth_of(str(example.label)) == int(example.sentences[0].metadata["depth"])
        deepest = max(np.cumsum([(word == "(") - (word == ")") for word in words]))
        assert deepest == int(example.sentences[0].metadata["depth"])


def test_formulas_are_decided_by_their_seed_and_never_repeat() -> None:
    first, again, other = (formulas(seed, [2]) for seed in (1, 1, 2))
    drawn = [next(first) for _ in range(300)]
    assert drawn == [next(again) for _ in range(300)]
    assert drawn != [next(other) for _ in range(300)]
    assert len({example.sentences[0].words for example in drawn}) == 300


def test_no_formula_is_in_two_parts_and_depths_are_equally_frequent() -> None:
    train, dev, test = formula_split(90, num_dev=30, num_test=50, seed=3)
    words = [{example.sentences[0].words for example in part} for part in (train, dev, test)]
    assert [len(part) for part in words] == [90, 30, 70]
    assert not words[0] & words[1]
    assert not words[0] & words[2]
    assert not words[1] & words[2]
    depths = [int(example.sentences[0].metadata["depth"]) for example in test]
    assert depths == [2, 3, 4, 5, 6] * 10 + [7, 8] * 10
    # A part does not depend on the size of the others.
    assert formula_split(9, num_dev=30, num_test=50, seed=3)[2] == test


@pytest.mark.parametrize("depths", [[], [0], [2, -1]])
def test_formulas_without_depth_are_refused(depths: list[int]) -> None:
    with pytest.raises(ValueError, match="depths of at least 1"):
        formulas(0, depths)


def test_correct_prefix_by_hand_and_by_depth() -> None:
    assert correct_prefix("a b c d", "a b x d") == 0.5
    assert correct_prefix("a b", "") == 0.0
    assert correct_prefix("", "") == 1.0
    gold = ["1 + 2", "( 1 + 2 ) * 3", "( 1 + 2 ) * 4"]
    answers = ["1 + 3", "( 1 + 2 ) * 3", "( 1 + 9 ) * 4"]
    assert metric("correct_prefix").value(gold, answers) == pytest.approx((2 / 3 + 1 + 3 / 7) / 3)
    assert metric("correct_prefix_depth2").value(gold, answers) == pytest.approx((1 + 3 / 7) / 2)
    assert not metric("correct_prefix_depth3").applies_to_any(gold)


def test_a_run_on_formulas_is_measured_by_depth(tmp_path: Path) -> None:
    config = RunConfig(
        "transduction",
        "structured",
        DataConfig(generated=90),
        options={"attention": "simple", "dim": 8},
        optimization=OptimizationConfig(epochs=2, learning_rate=1e-2),
        device="cpu",
    )
    result = run(replace(config, out=str(tmp_path / "run")))
    assert {"correct_prefix", "accuracy", "correct_prefix_depth4"} <= result.metrics.keys()
    assert "correct_prefix_depth6" not in result.metrics
    assert "correct_prefix_depth6" in result.test
    examples = read_split(plan_run(config)).dev
    assert load(result.folder).evaluate(examples).metrics == pytest.approx(dict(result.metrics))
    comparison = compare(result.folder, result.folder, metric="correct_prefix", split="test", samples=50)
    assert comparison.differences[0].significance.difference == 0.0
