"""Temperatures, thresholds and the figures of reliability, by hand and against loops."""

import math

import numpy as np
import pytest
import torch

from small_models import sentence_model
from structattn.data import Vocabulary
from structattn.errors import ConfigError
from structattn.tasks import SENTIMENT
from structattn.tasks.calibration import Calibration, fit_temperature, measure_reliability, temper


def draw(seed: int, number: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of three classes, and gold labels that are drawn from them."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(number, 3)) * 2
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    gold = np.array([generator.choice(3, p=row) for row in probabilities])
    return probabilities, gold


@pytest.mark.parametrize("seed", range(3))
def test_reliability_is_what_loops_give(seed: int) -> None:
    probabilities, gold = draw(seed, 60)
    measured = measure_reliability(probabilities, gold)
    brier = likelihood = 0.0
    bins: dict[int, list[tuple[float, bool]]] = {}
    for row, label in zip(probabilities.tolist(), gold.tolist(), strict=True):
        brier += sum((value - (place == label)) ** 2 for place, value in enumerate(row))
        likelihood -= math.log(row[label])
        bins.setdefault(min(int(max(row) * 10), 9), []).append((max(row), row.index(max(row)) == label))
    error = sum(abs(sum(c for c, _ in part) - sum(right for _, right in part)) for part in bins.values())
    assert measured.brier == pytest.approx(brier / 60)
    assert measured.negative_log_likelihood == pytest.approx(likelihood / 60)
    assert measured.expected_calibration_error == pytest.approx(error / 60)
    assert sum(count for _, _, count in measured.bins) == 60


def test_certain_probabilities_are_in_the_last_bin_and_finite() -> None:
    measured = measure_reliability(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 1]))
    assert measured.bins == [(1.0, 0.5, 2)]
    assert math.isfinite(measured.negative_log_likelihood)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_of_distorted_probabilities_is_found(temperature: float) -> None:
    probabilities, gold = draw(0, 20_000)
    distorted = temper(probabilities, 1 / temperature)
    assert fit_temperature(distorted, gold) == pytest.approx(temperature, rel=0.05)
    fitted = fit_temperature(distorted, gold)
    losses = [
        measure_reliability(temper(distorted, fitted * factor), gold).negative_log_likelihood
        for factor in (0.97, 1, 1.03)
    ]
    assert losses[1] == min(losses)


def test_a_temperature_keeps_the_order_of_labels() -> None:
    probabilities, _ = draw(1)
    for temperature in (0.2, 1.0, 5.0):
        tempered = temper(probabilities, temperature)
        assert (tempered.argsort(1) == probabilities.argsort(1)).all()
        assert tempered.sum(1) == pytest.approx(np.ones(len(tempered)))
    assert temper(probabilities, 1.0) == pytest.approx(probabilities)


def test_thresholds_choose_the_next_label_and_abstain() -> None:
    probabilities = np.array([[0.7, 0.3], [0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    assert Calibration().decide(probabilities, ["a", "b"]) == ([0, 0, 1, 0], [False] * 4)
    assert Calibration(thresholds={"a": 0.8}).decide(probabilities, ["a", "b"]) == ([1, 0, 1, 1], [False] * 4)
    assert Calibration(abstain=0.7).decide(probabilities, ["a", "b"]) == ([0, 0, 1, 0], [False, False, False, True])
    both = Calibration(thresholds={"a": 0.8, "b": 0.6}).decide(probabilities, ["a", "b"])
    assert both == ([0, 0, 1, 0], [True, False, False, True])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature: expected a number above 0"),
        ({"thresholds": {"good": 1.2}}, "threshold good: expected a probability, from 0 to 1, got 1.2"),
        ({"abstain": -0.1}, "abstain: expected a probability"),
    ],
)
def test_what_is_no_probability(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Calibration(**options)  # type: ignore[arg-type]


def test_a_model_answers_at_its_temperature() -> None:
    torch.manual_seed(0)
    model = sentence_model("emb_s2t", SENTIMENT, vocabulary=Vocabulary(["so", "fine"]), options={"dim": 4}).eval()
    (before,) = model.predict(["so fine"])
    model.calibration = Calibration(temperature=0.1, abstain=1.0)
    (after,) = model.predict(["so fine"])
    expected = temper(np.array([list(before.probabilities.values())]), 0.1)
    assert list(after.probabilities.values()) == pytest.approx(expected[0])
    assert (before.details, after.details, after.label) == ({}, {"abstained": True}, before.label)
