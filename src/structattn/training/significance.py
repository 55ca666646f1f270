"""Significance of the difference between two systems: paired resampling, in numpy, for any metric.

Both tests keep the examples paired, so that the difficulty of an example cancels.

- Paired bootstrap (Koehn 2004; Berg-Kirkpatrick et al. 2012) over examples and seeds: draw examples with replacement,
  draw seeds of each system with replacement, and measure again. As every seed answers every example, the two draws are
  independent (Owen 2007, "The pigeonhole bootstrap"; Sellam et al. 2022, "The MultiBERTs", arXiv 2106.16163: the
  Multi-Bootstrap with unpaired seeds). The interval is for systems that are trained again and tested on new examples.
  With ``k`` seeds the bootstrap sees ``(k - 1) / k`` of the variance between seeds: with two or three seeds the
  interval is somewhat too narrow, and with one it concerns only the trained models at hand, as if only examples were
  drawn.
- Approximate randomisation (Noreen 1989; Yeh 2000): exchange the two systems' answers on a random half of the examples.
  All seeds are exchanged together, so it tests the trained models at hand.

Over several data sets both tests are stratified: each data set is resampled separately, and the mean of the differences
is tested, so that a large data set counts no more than a small one.

A resample is a row of example weights and a metric takes many rows at once (``structattn.tasks.metrics``), so nothing
here loops over resamples.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from structattn.tasks.metrics import Metric

# Weights in memory at a time: samples x examples.
_CELLS = 4_000_000
# Maximum size of the counts that are kept of one resampling, in bytes.
_KEPT = 32_000_000
# Examples drawn at a time.
_CACHED = 65_536


@dataclass(frozen=True)
class Significance:
    """The significance of a difference.

    Attributes:
        difference: second minus first, mean over seeds.
        low: lower end of the bootstrap's 95 % interval of the difference, over examples and seeds.
        high: its upper end.
        bootstrap_p: two-sided p-value of the same bootstrap.
        randomisation_p: two-sided p-value of approximate randomisation; ``None`` if it was not asked for, or the
            systems have different numbers of seeds, so that their answers cannot be exchanged one for one.
    """

    difference: float
    low: float
    high: float
    bootstrap_p: float
    randomisation_p: float | None


@dataclass(frozen=True)
class Answers:
    """The answers of two systems to the examples of one data set.

    Attributes:
        metric: what is compared.
        gold: the true answer of every example.
        first: the answers of one system, one array for each seed.
        second: the answers of the other system, one array for each seed.
    """

    metric: Metric
    gold: np.ndarray
    first: Sequence[np.ndarray]
    second: Sequence[np.ndarray]

    @functools.cached_property
    def means(self) -> tuple[float, float]:
        """The metric of the first and of the second system, mean over seeds."""
        first, second = (
            np.mean([self.metric.value(self.gold, answers) for answers in system])
            for system in (self.first, self.second)
        )
        return float(first), float(second)

    @property
    def difference(self) -> float:
        """Second minus first, mean over seeds."""
        first, second = self.means
        return second - first


def compare_answers(
    metric: Metric,
    gold: np.ndarray,
    *,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    samples: int = 10_000,
    seed: int = 0,
) -> Significance:
    """``compare_pooled`` on a single data set."""
    return compare_pooled([Answers(metric, gold, first, second)], samples=samples, seed=seed)


def compare_pooled(data_sets: Sequence[Answers], *, samples: int = 10_000, seed: int = 0) -> Significance:
    """Test the mean difference of two systems over one or several data sets, ``mean_d (second_d - first_d)``.

    Args:
        data_sets: the answers of both systems on each.
        samples: number of resamples of each test.
        seed: random seed of the resampling.

    Raises:
        ValueError: if there is no data set, a system has no answers to one, ``samples`` is below 1, or greater is
            better for the metric of one data set and worse for that of another.

    Example:
        >>> from structattn.tasks import metric
        >>> gold = np.array(["a", "b"] * 50)
        >>> better = Answers(metric("accuracy"), gold, first=[np.full(100, "a")], second=[gold])
        >>> equal = Answers(metric("accuracy"), gold, first=[gold], second=[gold])
        >>> compare_pooled([better, equal], samples=999).difference
        0.25
    """
    tested = bootstrap_pooled(data_sets, samples=samples, seed=seed)
    if any(len(data_set.first) != len(data_set.second) for data_set in data_sets):
        return tested
    swapped = np.mean(
        [_swap_answers(data_set, samples, [seed, number]) for number, data_set in enumerate(data_sets)], axis=0
    )
    return replace(tested, randomisation_p=_p_value(np.abs(swapped) >= _find_extreme(data_sets, tested.difference)))


def bootstrap_pooled(data_sets: Sequence[Answers], *, samples: int = 10_000, seed: int = 0) -> Significance:
    """The bootstrap of ``compare_pooled`` alone, in about half the time: ``randomisation_p`` is ``None``."""
    (tested,) = bootstrap_family([data_sets], samples=samples, seed=seed)
    return tested


def bootstrap_family(
    comparisons: Sequence[Sequence[Answers]], *, samples: int = 10_000, seed: int = 0
) -> list[Significance]:
    """The bootstrap of ``compare_pooled`` for several comparisons, with the examples drawn once for all of them.

    Args:
        comparisons: for each comparison, the answers of its two systems on every data set.
        samples: number of resamples.
        seed: random seed of the resampling.

    Returns:
        The significance of each comparison, without ``randomisation_p``.

    Raises:
        ValueError: as ``compare_pooled``.

    Example:
        >>> from structattn.tasks import metric
        >>> gold = np.array(["a", "b"] * 50)
        >>> systems = [np.full(100, "b"), gold]
        >>> base = [np.full(100, "a")]
        >>> family = [[Answers(metric("accuracy"), gold, first=base, second=[system])] for system in systems]
        >>> [result.difference for result in bootstrap_family(family, samples=999)]
        [0.0, 0.5]
    """
    for data_sets in comparisons:
        _check(data_sets, samples)
    # The drawn examples depend only on the place of a data set in its comparison and on its number of examples.
    together: dict[tuple[int, int], list[tuple[int, Answers]]] = {}
    for index, data_sets in enumerate(comparisons):
        for number, data_set in enumerate(data_sets):
            together.setdefault((number, len(data_set.gold)), []).append((index, data_set))
    differences = [[np.zeros(0)] * len(data_sets) for data_sets in comparisons]
    for (number, _), members in together.items():
        drawn = _draw_differences([data_set for _, data_set in members], samples, [seed, number])
        for (index, _), drawn_differences in zip(members, drawn, strict=True):
            differences[index][number] = drawn_differences
    return [
        _test_mean(data_sets, np.mean(drawn, axis=0)) for data_sets, drawn in zip(comparisons, differences, strict=True)
    ]


def _check(data_sets: Sequence[Answers], samples: int) -> None:
    for data_set in data_sets:
        if not data_set.first or not data_set.second or samples < 1:
            counts = f"{len(data_set.first)}, {len(data_set.second)}, {samples}"
            raise ValueError(f"expected answers of both systems and at least one sample, got {counts}")
    if len({data_set.metric.greater_is_better for data_set in data_sets}) != 1:
        names = ", ".join(data_set.metric.name for data_set in data_sets)
        expected = "data sets whose metrics are all better when greater, or all better when smaller"
        raise ValueError(f"expected {expected}, got {names}")


def _test_mean(data_sets: Sequence[Answers], drawn: Float[np.ndarray, " sample"]) -> Significance:
    """The significance of the mean difference over the data sets, from its values on drawn examples."""
    difference = float(np.mean([data_set.difference for data_set in data_sets]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    # Under the null hypothesis the bootstrap's differences would scatter around zero, not around the one observed.
    bootstrap_p = _p_value(np.abs(drawn - difference) >= _find_extreme(data_sets, difference))
    return Significance(difference, float(low), float(high), bootstrap_p, randomisation_p=None)


def _find_extreme(data_sets: Sequence[Answers], difference: float) -> float:
    """The difference from which a resample is as extreme as the data, with a margin for rounding of the scores."""
    return abs(difference) - 1e-12 * max(abs(mean) for data_set in data_sets for mean in data_set.means)


def _draw_differences(many: Sequence[Answers], samples: int, seed: Sequence[int]) -> list[Float[np.ndarray, " sample"]]:
    """Differences on drawn examples, which all these comparisons share, and on drawn seeds."""
    # Separate from the generator of the examples, so that the same examples are drawn for any number of seeds.
    generators = [_generator(seed, 2) for _ in many]
    measured = [data_set.metric.of_systems(data_set.gold, [*data_set.second, *data_set.first]) for data_set in many]
    blocks: list[list[np.ndarray]] = [[] for _ in many]
    for weights in _resample(len(many[0].gold), samples, tuple(seed)):
        for data_set, generator, values_of, block in zip(many, generators, measured, blocks, strict=True):
            values = values_of(weights)
            count = len(data_set.second)
            second, first = (_resampled_mean(system, generator) for system in (values[:count], values[count:]))
            block.append(second - first)
    return [np.concatenate(block) for block in blocks]


def _swap_answers(data_set: Answers, samples: int, seed: Sequence[int]) -> Float[np.ndarray, " sample"]:
    """Differences after exchanging the answers to a random half of the examples.

    The answers of both systems are concatenated; weights choose one of the two answers for every example.
    """
    both = [np.concatenate(pair) for pair in zip(data_set.first, data_set.second, strict=True)]
    values_of = data_set.metric.of_systems(np.concatenate([data_set.gold, data_set.gold]), both)
    blocks = []
    for swap in _draw_swaps(len(data_set.gold), samples, _generator(seed, 1)):
        stayed, taken = np.concatenate([1 - swap, swap], axis=1), np.concatenate([swap, 1 - swap], axis=1)
        blocks.append(np.mean(values_of(taken), axis=0) - np.mean(values_of(stayed), axis=0))
    return np.concatenate(blocks)


def _generator(seed: Sequence[int], purpose: int) -> np.random.Generator:
    """A stream of its own for each data set and purpose."""
    first, data_set = seed
    return np.random.default_rng([first, purpose, data_set])


def _resampled_mean(
    values: Sequence[Float[np.ndarray, " sample"]], generator: np.random.Generator
) -> Float[np.ndarray, " sample"]:
    """For each sample, the mean over as many seeds as there are, drawn with replacement."""
    by_seed = np.stack(values, axis=1)
    drawn = generator.integers(len(values), size=by_seed.shape)
    mean: np.ndarray = np.take_along_axis(by_seed, drawn, axis=1).mean(1)
    return mean


def _p_value(as_extreme: np.ndarray) -> float:
    """Share of resamples as extreme as the data; the data count as one resample, so that p is never zero."""
    return float((1 + as_extreme.sum()) / (1 + len(as_extreme)))


def _resample(examples: int, samples: int, seed: tuple[int, ...]) -> Iterator[Float[np.ndarray, "sample example"]]:
    """How often each example was drawn, the same for all systems with this number of examples."""
    if examples * samples > _KEPT:
        generator = _generator(seed, 0)
        return _in_blocks(lambda start, end: _draw(end - start, examples, generator, np.float64), examples, samples)
    counts = _draw_once(examples, samples, seed)
    return _in_blocks(lambda start, end: counts[start:end].astype(np.float64), examples, samples)


@functools.lru_cache(maxsize=4)
def _draw_once(examples: int, samples: int, seed: tuple[int, ...]) -> UInt8[np.ndarray, "sample example"]:
    """The counts, kept for the next comparisons; the probability of a count above 255 is below 1e-500."""
    drawn = _draw(samples, examples, _generator(seed, 0), np.uint8)
    drawn.flags.writeable = False
    return drawn


def _draw(
    rows: int, examples: int, generator: np.random.Generator, dtype: type[np.number]
) -> Shaped[np.ndarray, "row example"]:
    counts = np.empty((rows, examples), dtype)
    # A few rows at a time, so that intermediate results stay in the processor's cache.
    step = max(1, _CACHED // examples)
    offsets = examples * np.arange(step)[:, None]
    for start in range(0, rows, step):
        drawn = generator.integers(examples, size=(min(step, rows - start), examples))
        drawn += offsets[: len(drawn)]
        counts[start : start + step] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
    return counts


def _draw_swaps(
    examples: int, samples: int, generator: np.random.Generator
) -> Iterator[Float[np.ndarray, "sample example"]]:
    """One where an example's answers are exchanged, zero elsewhere."""

    def drawn(start: int, end: int) -> np.ndarray:
        return generator.integers(2, size=(end - start, examples)).astype(np.float64)

    return _in_blocks(drawn, examples, samples)


def _in_blocks(rows: Callable[[int, int], np.ndarray], examples: int, samples: int) -> Iterator[np.ndarray]:
    block = max(1, _CELLS // examples)
    for start in range(0, samples, block):
        yield rows(start, min(start + block, samples))
