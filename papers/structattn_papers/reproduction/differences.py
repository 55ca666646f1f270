"""Differences between rows, from the answers to every example in their records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from structattn.tasks import metric
from structattn.tasks.metrics import Metric
from structattn.training import Answers, Significance, bootstrap_family, holm
from structattn_papers.reproduction.intervals import seed_difference
from structattn_papers.reproduction.records import ANSWERED, Record, Recorded, unpacked

_SAMPLES = 2_000
# More for the pooled test, of which the page also prints p, to three digits.
_POOLED_SAMPLES = 10_000
_NUMERIC = ("pearson", "spearman")

# The row, the row that it is compared with, and the metric, as for ``difference``.
_Pair = tuple[Recorded, Recorded, str]


def can_be_resampled(records: Iterable[Recorded | None], name: str) -> bool:
    """Whether a metric can be measured again on drawn examples: every record must keep the answer to each."""
    known = [record for one in records if one is not None for record in one.records]
    return bool(known) and all(_answers_of(record, name) is not None for record in known)


def difference(found: Recorded, other: Recorded, name: str = "accuracy") -> Significance | None:
    """The metric of one row minus that of another, tested by the paired bootstrap over examples and seeds.

    Args:
        found: the row.
        other: the row that it is compared with.
        name: ``accuracy``, ``exact_match``, ``pearson``, ``spearman``, or a metric whose counts the records keep.

    Returns:
        ``None`` if they were not measured on the same examples, or a record does not keep the answers.
    """
    return mean_difference([(found, other)], name)


def mean_difference(pairs: Sequence[tuple[Recorded, Recorded]], name: str) -> Significance | None:
    """The mean of ``difference`` over pairs of rows that have no example in common."""
    return _differences({name: [(found, other, name) for found, other in pairs]}, _SAMPLES).get(name)


def difference_lines(
    rows: Mapping[str, Mapping[str, Recorded | None]],
    titles: Mapping[str, str],
    against: str,
    *,
    metrics: Mapping[str, str],
    scales: Mapping[str, int | float],
    pooled: bool,
) -> list[str]:
    """The text below a table: a line for each of its rows, and one for the mean over the rows.

    Args:
        rows: for each row of the table the records of each column.
        titles: the title of each column.
        against: the column that the others are compared with.
        metrics: the metric of each row, as for ``difference``.
        scales: the factor by which the metric of each row is multiplied.
        pooled: whether there is a line for the mean; the rows must then have no example in common.

    Returns:
        A heading and a list of lines; nothing if no two columns can be compared.
    """
    others = {key: title for key, title in titles.items() if key != against}
    pairs: dict[str, list[_Pair]] = {key: [] for key in others}
    lines = []
    for name, found in rows.items():
        base = found[against]
        own: dict[str, list[_Pair]] = {
            key: [(one, base, metrics[name])] for key in others if (one := found[key]) is not None and base is not None
        }
        tests = _differences(own, _SAMPLES)
        for key in tests:
            pairs[key] += own[key]
        texts = [_scaled(others[key], one, scales[name]) for key, one in tests.items()]
        lines += [f"- {name}: {'; '.join(texts)}"] if texts else []
    head = _head(titles[against], "paired bootstrap over examples and seeds")
    last = _pooled_line(others, pairs) if pooled else ()
    return [head, "\n".join([*lines, *last])] if lines else []


def seed_difference_lines(
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    titles: Mapping[str, str],
    against: str,
    *,
    digits: Mapping[str, int],
) -> list[str]:
    """The same over seeds alone, for metrics without a value for each example in the records.

    Args:
        rows: for each row of the table the values of each column, one for each seed.
        titles: the title of each column.
        against: the column that the others are compared with.
        digits: number of decimal places for each row of the table.

    Returns:
        A heading and a list of lines; nothing if no two columns have two seeds.
    """
    lines = []
    for name, values in rows.items():
        found = {key: seed_difference(values[against], values[key]) for key in titles if key != against}
        texts = [_said(titles[key], *one, digits[name]) for key, one in found.items() if one is not None]
        lines += [f"- {name}: {'; '.join(texts)}"] if texts else []
    head = _head(titles[against], "Welch's t over seeds")
    return [head, "\n".join(lines)] if lines else []


def _head(title: str, test: str) -> str:
    return f"Differences from *{title}* with 95 % intervals ({test}), bold where the interval excludes zero:"


def _differences(pairs: Mapping[str, Sequence[_Pair]], samples: int) -> dict[str, Significance]:
    """For each name the mean difference over its data sets, if the two rows of all its pairs can be compared."""
    data_sets = {key: [_answers(*pair) for pair in some] for key, some in pairs.items()}
    known = {key: [one for one in some if one is not None] for key, some in data_sets.items() if None not in some}
    return dict(zip(known, bootstrap_family(list(known.values()), samples=samples), strict=True))


def _pooled_line(titles: Mapping[str, str], pairs: Mapping[str, Sequence[_Pair]]) -> Iterator[str]:
    known = _differences({key: some for key, some in pairs.items() if len(some) > 1}, _POOLED_SAMPLES)
    adjusted = holm([one.bootstrap_p for one in known.values()])
    texts = [
        f"{_scaled(titles[key], one, 100)}, {_p(p)}, {len(pairs[key])} data sets"
        for (key, one), p in zip(known.items(), adjusted, strict=True)
    ]
    if texts:
        yield f"- mean over data sets, with p of the stratified bootstrap after Holm: {'; '.join(texts)}"


def _p(value: float) -> str:
    # A few thousand resamples cannot show a probability of zero.
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _scaled(title: str, one: Significance, scale: int | float) -> str:
    return _said(title, scale * one.difference, scale * one.low, scale * one.high, 1)


def _said(title: str, difference: float, low: float, high: float, digits: int) -> str:
    """A difference with its interval, bold where this excludes zero."""
    text = f"{title} {difference:+.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
    return f"**{text}**" if low > 0 or high < 0 else text


def _answers(found: Recorded, other: Recorded, name: str) -> Answers | None:
    orders = {record.order for one in (found, other) for record in one.records}
    if len(orders) != 1 or not can_be_resampled([found, other], name):
        return None
    first, second = ([_answers_of(record, name) for record in one.records] for one in (other, found))
    known = [one for one in (*first, *second) if one is not None]
    predicted = [one[2] for one in known]
    return Answers(*known[0][:2], first=predicted[: len(first)], second=predicted[len(first) :])


def _answers_of(record: Record, name: str) -> tuple[Metric, np.ndarray, np.ndarray] | None:
    """A metric, the true answers and the predicted ones; ``None`` if the record does not keep what the metric needs."""
    if name in ANSWERED and record.is_right is not None:
        return metric("accuracy"), np.full(len(record.is_right), "1"), np.where(record.is_right, "1", "0")
    if name in _NUMERIC and record.gold is not None and record.predicted is not None:
        return metric(name), np.asarray(record.gold, dtype=float), np.asarray(record.predicted, dtype=float)
    if record.examples is not None and record.counts is not None and name in record.counts:
        return metric(name).from_counts, np.zeros(record.examples), unpacked(record.counts[name], record.examples)
    return None
