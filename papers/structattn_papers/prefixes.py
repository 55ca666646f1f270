"""The metric of tree transduction: how much of a text comes before the first mistake.

Reference: Kim et al. (2017), Structured attention networks, section 4.1.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Shaped

from structattn.tasks import Metric
from structattn.tasks.counted_metrics import Counts, Sums, share
from structattn_papers.formulas import TESTED_ON, depth_of

Texts = Shaped[np.ndarray, " example"]


def prefix_shares(gold: Texts, predicted: Texts) -> Counts:
    """The share of each text before the first mistake, and 1 (Kim et al. 2017, section 4.1); spaces separate words."""
    shares = [correct_prefix(text, answer) for text, answer in zip(gold.tolist(), predicted.tolist(), strict=True)]
    return np.stack([shares, np.ones(len(shares))], axis=1)


def correct_prefix(gold: str, predicted: str) -> float:
    """Length of the longest correct prefix, divided by the length of the text.

    Example:
        >>> correct_prefix("1 + 2 * 3", "1 + 3 * 3"), correct_prefix("1 + 2", "1 + 2 + 3")
        (0.4, 1.0)
    """
    wanted, given = gold.split(), predicted.split()
    right = 0
    while right < min(len(wanted), len(given)) and wanted[right] == given[right]:
        right += 1
    return right / len(wanted) if wanted else float(not given)


def has_depth(depth: int, gold: Texts) -> Shaped[np.ndarray, " example"]:
    """Which formulas have this depth.

    Example:
        >>> has_depth(2, np.array(["1 + 2", "( 1 + 2 ) * 3"])).tolist()
        [False, True]
    """
    return np.asarray([depth_of(text) == depth for text in gold.tolist()], dtype=np.bool_)


CORRECT_PREFIX = Metric("correct_prefix", is_numeric=False, greater_is_better=True, function=Sums(prefix_shares, share))
DEPTH_2, DEPTH_3, DEPTH_4, DEPTH_5, DEPTH_6, DEPTH_7, DEPTH_8 = (
    replace(CORRECT_PREFIX, name=f"correct_prefix_depth{depth}", applies_to=partial(has_depth, depth))
    for depth in TESTED_ON
)
