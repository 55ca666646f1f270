"""Probabilities that mean something: a temperature, thresholds, and how well probabilities agree with what is right.

References: Guo et al. (2017), On calibration of modern neural networks (temperature, expected calibration error); Brier
(1950), Verification of forecasts expressed in terms of probability; Naeini et al. (2015), Obtaining well calibrated
probabilities using Bayesian binning, for the error of a bin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from structattn.options.checking import check

Probabilities = Float[np.ndarray, "example label"]
BINS = 10
_LEAST, _MOST, _STEPS = 0.05, 20.0, 60


@dataclass(frozen=True)
class Calibration:
    """What turns the scores of a classifier into probabilities, and these into answers.

    Attributes:
        temperature: the logits are divided by it; above 1 it makes a model less sure. The best label stays.
        thresholds: for some labels, the probability from which on they are answered; below it, the most probable label
            that may be answered is.
        abstain: answers of a lower probability are marked as ``abstained``.
        separate: whether the labels do not exclude each other: each is answered from its threshold on, 0.5 by default.

    Raises:
        ConfigError: for a temperature that is not above 0, a probability outside of 0 to 1, or ``abstain`` where labels
            are separate.
    """

    temperature: float = 1.0
    thresholds: Mapping[str, float] = field(default_factory=dict)
    abstain: float = 0.0
    separate: bool = False

    def __post_init__(self) -> None:
        check(self.temperature > 0, "temperature", "a number above 0", self.temperature)
        check(0 <= self.abstain <= 1, "abstain", "a probability, from 0 to 1", self.abstain)
        only = "none where a text may have several labels, as having none is an answer; give thresholds"
        check(not (self.separate and self.abstain), "abstain", only, self.abstain)
        for label, value in self.thresholds.items():
            check(0 <= value <= 1, f"threshold {label}", "a probability, from 0 to 1", value)

    def select(self, probabilities: Mapping[str, float]) -> list[str]:
        """The labels that are answered, where they are separate."""
        return [label for label, value in probabilities.items() if value >= self.thresholds.get(label, 0.5)]

    def list_decisions(
        self, probabilities: Probabilities, gold: Bool[np.ndarray, "example label"]
    ) -> tuple[Float[np.ndarray, "decision alternative"], Int[np.ndarray, " decision"]]:
        """The alternatives of each decision with their probabilities, and the place of the right one.

        There is one decision for each example among the labels; for separate labels, one for each example and label.
        """
        if not self.separate:
            return probabilities, gold.argmax(1)
        return np.stack([1 - probabilities.ravel(), probabilities.ravel()], axis=1), gold.ravel().astype(int)

    def decide(self, probabilities: Probabilities, labels: Sequence[str]) -> tuple[list[int], list[bool]]:
        """The place of the answer to each of the decisions, and whether the model abstains from it."""
        if self.separate:
            thresholds = np.resize([self.thresholds.get(label, 0.5) for label in labels], len(probabilities))
            return (probabilities[:, 1] >= thresholds).astype(int).tolist(), [False] * len(probabilities)
        allowed = probabilities >= np.array([self.thresholds.get(label, 0.0) for label in labels])
        answers = (probabilities + allowed).argmax(1)
        rows = np.arange(len(answers))
        abstained = ~allowed[rows, answers] | (probabilities[rows, answers] < self.abstain)
        return answers.tolist(), abstained.tolist()


@dataclass(frozen=True)
class Reliability:
    """How well probabilities agree with what is right.

    Attributes:
        expected_calibration_error: the mean distance, weighted by size, of mean confidence and accuracy over ten bins
            of equal width.
        brier: the mean over examples of the squared distance of the probabilities from 1 for the gold label and 0 for
            the others; 0 to 2.
        negative_log_likelihood: the mean of ``-log p(gold)``, in nats.
        bins: of those that are not empty, the mean confidence, the accuracy and the number of examples.
    """

    expected_calibration_error: float
    brier: float
    negative_log_likelihood: float
    bins: Sequence[tuple[float, float, int]]


def measure_reliability(probabilities: Probabilities, gold: Int[np.ndarray, " example"]) -> Reliability:
    """The reliability of probabilities, given the place of the gold label of each example.

    Example:
        >>> measured = measure_reliability(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
        >>> measured.expected_calibration_error, measured.brier, measured.bins
        (0.25, 0.625, [(0.75, 0.5, 2)])
    """
    rows = np.arange(len(gold))
    confidence, right = probabilities.max(1), probabilities.argmax(1) == gold
    number = np.minimum((confidence * BINS).astype(int), BINS - 1)
    parts = [number == each for each in range(BINS) if (number == each).any()]
    bins = [(float(confidence[part].mean()), float(right[part].mean()), int(part.sum())) for part in parts]
    error = sum(abs(mean - accuracy) * count for mean, accuracy, count in bins) / len(gold)
    squares = ((probabilities - (np.arange(probabilities.shape[1]) == gold[:, None])) ** 2).sum(1)
    likelihood = np.log(np.maximum(probabilities[rows, gold], np.finfo(float).tiny))
    return Reliability(error, float(squares.mean()), -float(likelihood.mean()), bins)


def temper(probabilities: Probabilities, temperature: float) -> Probabilities:
    """Probabilities whose logits are divided by a temperature."""
    logits = np.log(np.maximum(probabilities, np.finfo(float).tiny)) / temperature
    powers = np.exp(logits - logits.max(1, keepdims=True))
    tempered: Probabilities = powers / powers.sum(1, keepdims=True)
    return tempered


def fit_temperature(probabilities: Probabilities, gold: Int[np.ndarray, " example"]) -> float:
    """The temperature, from 0.05 to 20, with the least negative log-likelihood, which is convex in its inverse."""
    low, high = 1 / _MOST, 1 / _LEAST
    for _ in range(_STEPS):
        thirds = low + (high - low) / 3, high - (high - low) / 3
        losses = [measure_reliability(temper(probabilities, 1 / each), gold).negative_log_likelihood for each in thirds]
        low, high = (low, thirds[1]) if losses[0] <= losses[1] else (thirds[0], high)
    return 2 / (low + high)
