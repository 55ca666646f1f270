"""Differences between rows, from which examples the records of each say were answered correctly."""

import numpy as np

from structattn.reproduction.records import Recorded
from structattn.tasks import metric
from structattn.training import Significance, compare_answers

_SAMPLES = 2_000


def difference(found: Recorded, other: Recorded) -> Significance | None:
    """The accuracy of one row less that of another, by the paired bootstrap over examples and seeds.

    Returns:
        ``None`` where they were not measured on the same examples, or a record does not keep which were right.
    """
    answers = [[record.is_right for record in one.records] for one in (other, found)]
    orders = {record.order for one in (found, other) for record in one.records}
    if len(orders) != 1 or any(right is None for one in answers for right in one):
        return None
    first, second = ([np.where(right, "1", "0") for right in one if right is not None] for one in answers)
    gold = np.full(len(first[0]), "1")
    return compare_answers(metric("accuracy"), gold, first=first, second=second, samples=_SAMPLES)
