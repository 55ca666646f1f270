"""Metrics against numbers made by hand, against slow twins, and against themselves under weights."""

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from structattn.errors import ConfigError
from structattn.tasks import METRICS, metric

LABELS = ["a", "b", "c"]
FORMULAS = ["1 + 2", "( 1 + 2 ) * 3", "1 + ( 2 * ( 3 + 4 ) )"]
TAGS = ["O", "B-NP", "B-VP"]
BITS = ["1.5", "2.25 0.5 1", "3"]


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ("aabb", "aabb", {"accuracy": 1.0, "macro_f1": 1.0, "matthews": 1.0}),
        ("aabb", "bbaa", {"accuracy": 0.0, "macro_f1": 0.0, "matthews": -1.0}),
        # a: tp 2 fp 1 fn 0 -> 4/5; b: tp 1 fp 0 fn 1 -> 2/3. Matthews: (2*1 - 1*0) / sqrt(3*2*2*1)
        ("aabb", "aaab", {"accuracy": 0.75, "macro_f1": (4 / 5 + 2 / 3) / 2, "matthews": 2 / math.sqrt(12)}),
        # c is predicted and never gold: its F1 of zero counts.
        ("aabb", "aacb", {"accuracy": 0.75, "macro_f1": (1 + 0 + 2 / 3) / 3}),
        # c is gold and was never seen in training: wrong, and an F1 of zero.
        ("aacb", "aabb", {"accuracy": 0.75, "macro_f1": (1 + 0 + 2 / 3) / 3}),
        # One side constant: no correlation.
        ("aabb", "aaaa", {"accuracy": 0.5, "macro_f1": 1 / 3, "matthews": 0.0}),
    ],
)
def test_label_metrics_by_hand(gold: str, predicted: str, expected: dict[str, float]) -> None:
    for name, value in expected.items():
        assert metric(name).value(list(gold), list(predicted)) == pytest.approx(value)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([1, 2, 3, 4], [2, 4, 6, 8], {"pearson": 1.0, "spearman": 1.0, "mean_squared_error": 30 / 4}),
        ([1, 2, 3, 4], [4, 3, 2, 1], {"pearson": -1.0, "spearman": -1.0, "mean_squared_error": 20 / 4}),
        ([1, 2, 3], [1, 10, 100], {"spearman": 1.0, "pearson": 99 / math.sqrt(2 * 5994)}),
        # Ties share their mean rank: ranks 1 2.5 2.5 4 against 1 2 3 4.
        ([1, 2, 2, 3], [1, 2, 3, 4], {"spearman": 4.5 / math.sqrt(4.5 * 5)}),
        # Constant answers have no correlation, and no warning either.
        ([1, 2, 3], [5, 5, 5], {"pearson": 0.0, "spearman": 0.0, "mean_squared_error": (16 + 9 + 4) / 3}),
        ([0.1, 0.1, 0.1], [1, 2, 3], {"pearson": 0.0, "spearman": 0.0}),
    ],
)
def test_score_metrics_by_hand(gold: list[float], predicted: list[float], expected: dict[str, float]) -> None:
    for name, value in expected.items():
        assert metric(name).value(gold, predicted) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-17, 1e-6, 1.0, 1e6, 1e300])
@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_correlations_have_no_unit(name: str, scale: float) -> None:
    gold, predicted = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 3.0, 2.0, 9.0])
    expected = metric(name).value(gold, predicted)
    assert metric(name).value(gold, predicted * scale) == pytest.approx(expected, rel=1e-12)
    assert metric(name).value(gold * scale, predicted) == pytest.approx(expected, rel=1e-12)
    assert metric(name).value(gold, predicted + 1e9) == pytest.approx(expected, rel=1e-6)
    assert metric(name).value(gold, np.full(4, 0.1 * scale)) == 0.0


@pytest.mark.parametrize("scale", [1e-17, 1.0, 1e6])
def test_a_series_that_is_constant_but_for_rounding_has_no_correlation(scale: float) -> None:
    assert metric("pearson").value([1.0, 2.0, 3.0], [scale * 0.3, scale * (0.1 + 0.2), scale * 0.3]) == 0.0


def test_macro_f1_and_matthews_against_slow_twins() -> None:
    generator = random.Random(0)
    for _ in range(50):
        gold = generator.choices(LABELS, k=generator.randint(1, 12))
        predicted = generator.choices(LABELS, k=len(gold))
        assert metric("macro_f1").value(gold, predicted) == pytest.approx(slow_macro_f1(gold, predicted))
        assert metric("matthews").value(gold, predicted) == pytest.approx(slow_matthews(gold, predicted))


def test_spearman_is_pearson_of_slow_ranks() -> None:
    generator = random.Random(1)
    for _ in range(50):
        size = generator.randint(2, 10)
        gold, predicted = ([float(generator.randint(0, 4)) for _ in range(size)] for _ in range(2))
        by_ranks = metric("pearson").value(slow_ranks(gold), slow_ranks(predicted))
        assert metric("spearman").value(gold, predicted) == pytest.approx(by_ranks, abs=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_weights_are_repetitions(name: str) -> None:
    """A metric under integer weights is the metric of the examples written out so often."""
    found = metric(name)
    generator = np.random.default_rng(0)
    gold, predicted = (
        (
            generator.normal(size=20).round(1)
            if found.is_numeric
            else generator.choice(BITS if name == "word_perplexity" else LABELS, 20)
        )
        for _ in range(2)
    )
    counts = generator.integers(0, 4, size=(30, 20)).astype(float)
    values = found.values(gold, predicted, weights=counts)
    for value, count in zip(values, counts.astype(int), strict=True):
        written_out = found.value(np.repeat(gold, count).tolist(), np.repeat(predicted, count).tolist())
        assert value == pytest.approx(written_out, abs=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_systems_are_measured_together_as_each_alone(name: str) -> None:
    """Systems that give different labels, of which there are then different numbers of counts."""
    found = metric(name)
    generator = np.random.default_rng(1)
    known = TAGS if name in ("attachment", "span_f1", "tag_accuracy") else FORMULAS
    known = BITS if name == "word_perplexity" else known
    gold, *systems = (
        generator.normal(size=20).round(1) if found.is_numeric else generator.choice(some, 20)
        for some in (known, known[:2], known, known[1:])
    )
    weights = generator.integers(0, 4, size=(30, 20)).astype(float)
    together = found.of_systems(gold, systems)(weights)
    for values, predicted in zip(together, systems, strict=True):
        alone = [found.value(np.repeat(gold, count), np.repeat(predicted, count)) for count in weights.astype(int)]
        np.testing.assert_allclose(values, alone, rtol=0, atol=1e-9)
    assert len({tuple(values.tolist()) for values in together}) == (3 if found.applies_to_any(gold) else 1)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_refuse_what_cannot_be_measured(name: str) -> None:
    value = [1.0] if metric(name).is_numeric else ["a"]
    with pytest.raises(ValueError, match="one answer per example, got 2 for 1"):
        metric(name).value(value, value * 2)
    with pytest.raises(ValueError, match="at least one example, got none"):
        metric(name).value([], [])


def test_surprisal_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="word_perplexity: expected the bits of each word as an answer"):
        metric("word_perplexity").value(["a b"], ["1.5 b"])


def test_unknown_metric_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'f1'; known: accuracy, attachment, bleu"):
        metric("f1")


def slow_macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    values = []
    for label in set(gold) | set(predicted):
        right = sum(g == p == label for g, p in zip(gold, predicted, strict=True))
        values.append(2 * right / (list(gold).count(label) + list(predicted).count(label)))
    return sum(values) / len(values)


def slow_matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Gorodkin's covariance of indicator matrices, entry by entry."""

    def covariance(first: Sequence[str], second: Sequence[str]) -> float:
        total = 0.0
        for label in LABELS:
            one = [float(item == label) for item in first]
            other = [float(item == label) for item in second]
            means = sum(one) / len(one), sum(other) / len(other)
            total += sum((a - means[0]) * (b - means[1]) for a, b in zip(one, other, strict=True))
        return total

    spread = covariance(gold, gold) * covariance(predicted, predicted)
    return covariance(gold, predicted) / math.sqrt(spread) if spread > 0 else 0.0


def slow_ranks(series: Sequence[float]) -> list[float]:
    return [
        1 + sum(other < value for other in series) + (sum(other == value for other in series) - 1) / 2
        for value in series
    ]


def test_slow_ranks_are_right() -> None:
    for permutation in itertools.permutations([1.0, 2.0, 3.0]):
        assert slow_ranks(permutation) == list(permutation)
    assert slow_ranks([5.0, 5.0, 1.0]) == [2.5, 2.5, 1.0]
