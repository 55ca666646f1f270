"""Intervals of recorded metrics, from the spread over seeds, and for accuracies also over examples."""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

from structattn_papers.reproduction.records import ANSWERED, Recorded

# Student's t at 97.5 %, for 1 to 10 degrees of freedom; more than eleven seeds are treated as eleven.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def interval(found: Recorded, name: str, scale: int | float) -> tuple[float, float] | None:
    """The 95 % interval of a row's mean.

    For an accuracy, or exact match, over ``n`` examples and ``k`` seeds, with ``s`` the standard deviation over seeds,
    it is ``mean ± 1.96 sqrt(mean (1 - mean) / n + s^2 / k)``, limited to 0 and 1. For another metric it is Student's
    ``mean ± t_{k-1} s / sqrt(k)``.

    Returns:
        ``None`` for a single run of another metric than accuracy.
    """
    values = found.values(name)
    examples = found.records[0].examples if name in ANSWERED else None
    half = half_width(values, examples)
    if half is None:
        return None
    low, high = mean(values) - half, mean(values) + half
    return (max(low, 0.0) * scale, min(high, 1.0) * scale) if examples else (low * scale, high * scale)


def half_width(values: Sequence[float], examples: int | None, *, count: int | None = None) -> float | None:
    """Half the width of ``interval``, over ``examples`` if they are given, for ``count`` seeds in place of those known.

    Example:
        >>> round(half_width([0.5, 0.5], 400), 3), round(half_width([0.4, 0.6], None, count=4), 3)
        (0.049, 0.225)
    """
    count = len(values) if count is None else count
    middle, variance = mean(values), stdev(values) ** 2 / count if len(values) > 1 else 0.0
    if examples:
        return 1.96 * sqrt(max(middle * (1 - middle), 0.0) / examples + variance)
    return _student(count - 1) * sqrt(variance) if len(values) > 1 else None


def seed_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of a mean over seeds; ``None`` for a single one."""
    half = half_width(values, None)
    return None if half is None else (mean(values) - half, mean(values) + half)


def seed_means(rows: Sequence[Recorded | None], name: str) -> list[float]:
    """For each seed that all rows have, the mean of a metric over them; nothing if a row has no record."""
    known = [
        {record.seed: float(record.metrics[name]) for record in row.records if name in record.metrics}
        for row in rows
        if row is not None
    ]
    if not known or len(known) < len(rows):
        return []
    seeds = sorted(set(known[0]).intersection(*known[1:]))
    return [mean(values[seed] for values in known) for seed in seeds]


def seed_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float] | None:
    """The mean of the second minus that of the first, and the ends of its 95 % interval over seeds, by Welch (1947).

    ``t_v sqrt(a + b)`` to both sides, where ``a`` and ``b`` are the variances of the two means, and
    ``v = (a + b)^2 / (a^2 / (k - 1) + b^2 / (l - 1))``, rounded down, for ``k`` and ``l`` seeds.

    Returns:
        ``None`` if one of the two has a single seed.

    Example:
        >>> [round(value, 1) for value in seed_difference([1.0, 3.0], [4.0, 8.0])]
        [4.0, -24.4, 32.4]
    """
    if min(len(first), len(second)) < 2:
        return None
    difference = mean(second) - mean(first)
    one, other = (stdev(values) ** 2 / len(values) for values in (first, second))
    if one + other == 0:
        return difference, difference, difference
    freedom = (one + other) ** 2 / (one**2 / (len(first) - 1) + other**2 / (len(second) - 1))
    half = _student(int(freedom + 1e-9)) * sqrt(one + other)
    return difference, difference - half, difference + half


def _student(freedom: int) -> float:
    return _STUDENT[min(max(freedom, 1), len(_STUDENT)) - 1]
