"""Significance of the difference between two systems: paired resampling, in numpy, for any metric.

Both tests keep the examples paired, so that the difficulty of an example cancels.

- Paired bootstrap (Koehn 2004; Berg-Kirkpatrick et al. 2012) over examples and seeds: draw examples with replacement,
  draw seeds of each system with replacement, and measure again. As every seed answers every example, the two draws are
  independent (Owen 2007, "The pigeonhole bootstrap"; Sellam et al. 2022, "The MultiBERTs", arXiv 2106.16163: the
  Multi-Bootstrap with unpaired seeds). The interval is that of systems trained again and tested on new examples. From
  ``k`` seeds the bootstrap sees ``(k - 1) / k`` of the variance between seeds: with two or three the interval is
  somewhat narrow, and with one it concerns the trained models at hand, as for examples alone.
- Approximate randomisation (Noreen 1989; Yeh 2000): exchange the two systems' answers on a random half of the examples.
  All seeds are exchanged together, so it tests the trained models at hand.

A resample is a row of example weights and a metric takes many rows at once (``structattn.tasks.metrics``), so nothing
here loops over resamples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from structattn.tasks.metrics import Metric

# Weights held at a time: samples x examples.
_CELLS = 4_000_000


@dataclass(frozen=True)
class Significance:
    """The significance of a difference.

    Attributes:
        difference: second minus first, mean over seeds.
        low: lower end of the bootstrap's 95 % interval of the difference, over examples and seeds.
        high: its upper end.
        bootstrap_p: two-sided p-value of the same bootstrap.
        randomisation_p: two-sided p-value of approximate randomisation; ``None`` if the systems have different
            numbers of seeds, whose answers cannot be exchanged one for one.
    """

    difference: float
    low: float
    high: float
    bootstrap_p: float
    randomisation_p: float | None


def compare_answers(
    metric: Metric,
    gold: np.ndarray,
    *,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    samples: int = 10_000,
    seed: int = 0,
) -> Significance:
    """Test the difference of two systems on the same examples.

    Args:
        metric: what is compared.
        gold: the true answer of every example.
        first: the answers of one system, one array for each seed.
        second: likewise for the other system.
        samples: number of resamples of each test.
        seed: of the resampling.

    Raises:
        ValueError: if a system has no answers, or ``samples`` is below 1.

    Example:
        >>> from structattn.tasks import metric
        >>> gold = np.array(["a", "b"] * 50)
        >>> always_a, right = np.array(["a"] * 100), gold
        >>> result = compare_answers(metric("accuracy"), gold, first=[always_a], second=[right], samples=999)
        >>> result.difference, result.bootstrap_p, result.randomisation_p
        (0.5, 0.001, 0.001)
    """
    if not first or not second or samples < 1:
        raise ValueError(
            f"expected answers of both systems and at least one sample, got {len(first)}, {len(second)}, {samples}"
        )
    whole = np.ones((1, len(gold)))
    difference = float(_mean(metric, gold, second, whole)[0] - _mean(metric, gold, first, whole)[0])
    # Rounding must not decide whether a resample is as extreme as the data.
    extreme = abs(difference) - 1e-12 * (1 + abs(difference))

    # Apart from the generator of the examples, so that the same examples are drawn for any number of seeds.
    seeds = np.random.default_rng([seed, 2])
    drawn = np.concatenate(
        [
            _resampled_mean(metric, gold, second, weights, seeds) - _resampled_mean(metric, gold, first, weights, seeds)
            for weights in _resamples(len(gold), samples, np.random.default_rng([seed, 0]))
        ]
    )
    low, high = np.quantile(drawn, [0.025, 0.975])
    # Under the null hypothesis the bootstrap's differences would scatter around zero, not around the one observed.
    bootstrap_p = _p_value(np.abs(drawn - difference) >= extreme)

    randomisation_p = None
    if len(first) == len(second):
        swapped = np.concatenate(
            [
                _swapped_difference(metric, gold, first, second, swap)
                for swap in _swaps(len(gold), samples, np.random.default_rng([seed, 1]))
            ]
        )
        randomisation_p = _p_value(np.abs(swapped) >= extreme)
    return Significance(difference, float(low), float(high), bootstrap_p, randomisation_p)


def _mean(metric: Metric, gold: np.ndarray, answers: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    means: np.ndarray = np.mean([metric.values(gold, answer, weights=weights) for answer in answers], axis=0)
    return means


def _resampled_mean(
    metric: Metric,
    gold: np.ndarray,
    answers: Sequence[np.ndarray],
    weights: Float[np.ndarray, "sample example"],
    generator: np.random.Generator,
) -> Float[np.ndarray, " sample"]:
    """The mean over as many seeds as there are, drawn with replacement for each row of weights."""
    values = np.stack([metric.values(gold, answer, weights=weights) for answer in answers], axis=1)
    drawn = generator.integers(len(answers), size=values.shape)
    mean: np.ndarray = np.take_along_axis(values, drawn, axis=1).mean(1)
    return mean


def _swapped_difference(
    metric: Metric,
    gold: np.ndarray,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    swap: Float[np.ndarray, "sample example"],
) -> np.ndarray:
    """Both systems' answers stand behind each other; weights choose one answer of the two for every example."""
    twice = np.concatenate([gold, gold])
    both = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    kept, taken = np.concatenate([1 - swap, swap], axis=1), np.concatenate([swap, 1 - swap], axis=1)
    difference: np.ndarray = _mean(metric, twice, both, taken) - _mean(metric, twice, both, kept)
    return difference


def _p_value(as_extreme: np.ndarray) -> float:
    """Share of resamples as extreme as the data; the data count as one, so that p is never zero."""
    return float((1 + as_extreme.sum()) / (1 + len(as_extreme)))


def _resamples(
    examples: int, samples: int, generator: np.random.Generator
) -> Iterator[Float[np.ndarray, "sample example"]]:
    """How often each example was drawn."""

    def draw(rows: int) -> np.ndarray:
        chosen = generator.integers(examples, size=(rows, examples)) + examples * np.arange(rows)[:, None]
        counts = np.bincount(chosen.ravel(), minlength=rows * examples)
        return counts.reshape(rows, examples).astype(np.float64)

    return _in_blocks(draw, examples, samples)


def _swaps(
    examples: int, samples: int, generator: np.random.Generator
) -> Iterator[Float[np.ndarray, "sample example"]]:
    """One where an example's answers are exchanged, zero elsewhere."""
    return _in_blocks(lambda rows: generator.integers(2, size=(rows, examples)).astype(np.float64), examples, samples)


def _in_blocks(draw: Callable[[int], np.ndarray], examples: int, samples: int) -> Iterator[np.ndarray]:
    block = max(1, _CELLS // examples)
    for start in range(0, samples, block):
        yield draw(min(block, samples - start))
