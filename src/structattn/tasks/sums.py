"""Metrics that are functions of sums over examples, measured on many weighted samples at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Shaped

Answers = Shaped[np.ndarray, " example"]
Weights = Float[np.ndarray, "sample example"]
Values = Float[np.ndarray, " sample"]
Counts = Float[np.ndarray, "example count"]


@dataclass(frozen=True)
class Sums:
    """A metric of sums over examples, ``score(weights @ counts)``.

    Attributes:
        counts: the terms that each example adds to the sums: ``(gold, predicted) -> (example, count)``.
        score: from weighted sums to the values of the metric.

    Example:
        >>> gold, predicted = np.array([1.0, 2.0]), np.array([1.0, 4.0])
        >>> largest = Sums(lambda gold, predicted: abs(gold - predicted)[:, None], lambda totals: totals[:, 0])
        >>> largest(gold, predicted, np.array([[1.0, 1.0], [0.0, 2.0]])).tolist()
        [2.0, 4.0]
    """

    counts: Callable[[np.ndarray, np.ndarray], Counts]
    score: Callable[[Float[np.ndarray, "sample count"]], Values]

    def __call__(self, gold: np.ndarray, predicted: np.ndarray, weights: Weights) -> Values:
        """The metric under each row of weights."""
        return self.score(weights @ self.counts(gold, predicted))

    @classmethod
    def mean(cls, values: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> "Sums":
        """The metric that is the mean over examples of a value that each of them has.

        Args:
            values: the value of each example: ``(gold, predicted) -> (example,)``.

        Example:
            >>> distance = Sums.mean(lambda gold, predicted: abs(gold - predicted))
            >>> distance(np.array([1.0, 2.0]), np.array([1.0, 4.0]), np.array([[1.0, 1.0], [0.0, 2.0]])).tolist()
            [1.0, 2.0]
        """
        return cls(partial(_terms_of_mean, values), share)

    def of_systems(
        self, gold: np.ndarray, systems: Sequence[np.ndarray], concerned: Bool[np.ndarray, " example"] | None = None
    ) -> Callable[[Weights], list[Values]]:
        """``weights -> [values of a system, ...]``: the counts of all systems are concatenated for one product.

        Args:
            gold: the true answers.
            systems: the answers of each system.
            concerned: which examples count; all if ``None``.

        Example:
            >>> gold, answers = np.array(["B-NP O", "O"]), [np.array(["B-NP O", "B-NP"]), np.array(["O O", "O"])]
            >>> right = Counted(lambda gold, given: (gold == given).astype(float)[:, None], lambda totals: totals[:, 0])
            >>> [values.tolist() for values in right.of_systems(gold, answers)(np.array([[1.0, 3.0]]))]
            [[1.0], [3.0]]
        """
        parts = [self.counts(gold, answers) for answers in systems]
        ends = np.cumsum([part.shape[1] for part in parts])[:-1]
        counts = np.concatenate(parts, axis=1)
        if concerned is not None:
            counts = counts * concerned[:, None]
        return lambda weights: [self.score(totals) for totals in np.split(weights @ counts, ends, axis=1)]


def _terms_of_mean(
    values: Callable[[np.ndarray, np.ndarray], np.ndarray], gold: np.ndarray, predicted: np.ndarray
) -> Counts:
    return np.stack([values(gold, predicted), np.ones(len(gold))], axis=1)


class Counted(Sums):
    """Sums of whole numbers, which records of runs keep for each example."""


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Quotient; zero where there is nothing to divide by."""
    above, below = np.broadcast_arrays(np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64))
    quotient: np.ndarray = np.divide(above, below, out=np.zeros(above.shape), where=below > 0)
    return quotient


def share(totals: Float[np.ndarray, "sample count"]) -> Values:
    """The first sum divided by the second; zero where there is nothing to divide by."""
    return ratio(totals[:, 0], totals[:, 1])
