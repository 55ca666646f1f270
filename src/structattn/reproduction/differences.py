"""Differences between rows, from which examples the records of each say were answered correctly."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from structattn.reproduction.intervals import seed_difference
from structattn.reproduction.records import Recorded
from structattn.tasks import metric
from structattn.training import Answers, Significance, bootstrap_pooled, holm

_SAMPLES = 2_000


def difference(found: Recorded, other: Recorded) -> Significance | None:
    """The accuracy of one row less that of another, by the paired bootstrap over examples and seeds.

    Returns:
        ``None`` where they were not measured on the same examples, or a record does not keep which were right.
    """
    return pooled_difference([(found, other)])


def pooled_difference(pairs: Sequence[tuple[Recorded, Recorded]]) -> Significance | None:
    """The mean of such differences over several data sets, by the stratified bootstrap of ``bootstrap_pooled``.

    Args:
        pairs: for each data set the row, and the one that it is compared with.

    Returns:
        ``None`` where there are none, or the two rows of a pair cannot be compared.
    """
    data_sets = [_answers(found, other) for found, other in pairs]
    known = [one for one in data_sets if one is not None]
    return bootstrap_pooled(known, samples=_SAMPLES) if known and len(known) == len(data_sets) else None


def difference_lines(
    rows: Mapping[str, Mapping[str, Recorded | None]], titles: Mapping[str, str], against: str, *, pooled: bool
) -> list[str]:
    """What stands below a table: a line for each row of it, and one for the mean over the rows.

    Args:
        rows: for each row of the table the records of each column.
        titles: the title of each column.
        against: the column that the others are compared with.
        pooled: whether there is a line for the mean; rows must have no example in common.

    Returns:
        A heading and a list of lines; nothing where no two columns can be compared.
    """
    others = {key: title for key, title in titles.items() if key != against}
    pairs: dict[str, list[tuple[Recorded, Recorded]]] = {key: [] for key in others}
    lines = []
    for name, found in rows.items():
        base, texts = found[against], []
        for key, title in others.items():
            one = found[key]
            result = None if one is None or base is None else difference(one, base)
            if one is not None and base is not None and result is not None:
                pairs[key].append((one, base))
                texts.append(f"{title} {_in_points(result)}")
        lines += [f"- {name}: {', '.join(texts)}"] if texts else []
    head = f"Above {titles[against]}, 95 % interval of the paired bootstrap over examples and seeds:"
    last = _pooled_line(others, pairs) if pooled else ()
    return [head, "\n".join([*lines, *last])] if lines else []


def seed_difference_lines(
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    titles: Mapping[str, str],
    against: str,
    *,
    digits: Mapping[str, int],
) -> list[str]:
    """The same for metrics whose records do not say what each example is worth, over seeds alone.

    Args:
        rows: for each row of the table the values of each column, one for each seed.
        titles: the title of each column.
        against: the column that the others are compared with.
        digits: for each row of the table how many are printed after the point.

    Returns:
        A heading and a list of lines; nothing where no two columns have two seeds.
    """
    lines = []
    for name, values in rows.items():
        found = {key: seed_difference(values[against], values[key]) for key in titles if key != against}
        texts = [
            "{0} {2:+.{1}f} ({3:.{1}f} to {4:.{1}f})".format(titles[key], digits[name], *one)
            for key, one in found.items()
            if one is not None
        ]
        lines += [f"- {name}: {', '.join(texts)}"] if texts else []
    head = f"Above {titles[against]}, 95 % interval over seeds (Welch's t):"
    return [head, "\n".join(lines)] if lines else []


def _pooled_line(titles: Mapping[str, str], pairs: Mapping[str, Sequence[tuple[Recorded, Recorded]]]) -> Iterator[str]:
    tests = {key: pooled_difference(some) for key, some in pairs.items() if len(some) > 1}
    known = {key: one for key, one in tests.items() if one is not None}
    adjusted = holm([one.bootstrap_p for one in known.values()])
    texts = [
        f"{titles[key]} {_in_points(one)}, p = {p:.3f}, {len(pairs[key])} data sets"
        for (key, one), p in zip(known.items(), adjusted, strict=True)
    ]
    if texts:
        yield f"- mean over data sets, with p of the stratified bootstrap after Holm: {'; '.join(texts)}"


def _in_points(one: Significance) -> str:
    return f"{100 * one.difference:+.1f} ({100 * one.low:.1f} to {100 * one.high:.1f})"


def _answers(found: Recorded, other: Recorded) -> Answers | None:
    answers = [[record.is_right for record in one.records] for one in (other, found)]
    orders = {record.order for one in (found, other) for record in one.records}
    if len(orders) != 1 or any(right is None for one in answers for right in one):
        return None
    first, second = ([np.where(right, "1", "0") for right in one if right is not None] for one in answers)
    return Answers(metric("accuracy"), np.full(len(first[0]), "1"), first=first, second=second)
