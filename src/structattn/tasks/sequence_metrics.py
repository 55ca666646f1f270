"""Metrics of texts, and of trees written as texts, in the form of ``metrics.py``: one value for each row of weights.

BLEU is sacrebleu's: its counts for each sentence, its formula for each weighted sum of counts. A resample of the paired
bootstrap is thus scored as sacrebleu would score it.

Reference: Papineni et al. (2002), BLEU; Post (2018), A call for clarity in reporting BLEU scores; Kim et al. (2017),
section 4.1 (the longest correct prefix).
"""

import numpy as np
from jaxtyping import Float, Shaped

from structattn.data.formulas import depth_of
from structattn.syntax.errors import require

Texts = Shaped[np.ndarray, " example"]
Weights = Float[np.ndarray, "sample example"]
Values = Float[np.ndarray, " sample"]


def bleu_values(gold: Texts, predicted: Texts, weights: Weights) -> Values:
    """Corpus BLEU from 0 to 100, as sacrebleu has it: tokenisation ``13a``, cased, exponential smoothing.

    Raises:
        MissingExtra: if the extra ``mt`` is not installed.
    """
    metric = require("sacrebleu.metrics", "mt").BLEU(effective_order=True)
    rows = []
    for text, answer in zip(gold.tolist(), predicted.tolist(), strict=True):
        # The score of a single sentence is not used, only its counts.
        one = metric.sentence_score(answer, [text])
        rows.append([*one.counts, *one.totals, one.sys_len, one.ref_len])
    # sacrebleu counts in whole numbers, which the weights of resamples are.
    totals = np.rint(weights @ np.asarray(rows, dtype=np.float64)).astype(np.int64)
    order = (totals.shape[1] - 2) // 2
    scores = [
        metric.compute_bleu(
            row[:order], row[order : 2 * order], row[-2], row[-1], smooth_method="exp", max_ngram_order=order
        ).score
        for row in totals.tolist()
    ]
    return np.asarray(scores, dtype=np.float64)


def prefix_values(gold: Texts, predicted: Texts, weights: Weights) -> Values:
    """Mean share of a text that is right before the first mistake: Kim et al. (2017), section 4.1; words by spaces."""
    shares = [correct_prefix(text, answer) for text, answer in zip(gold.tolist(), predicted.tolist(), strict=True)]
    total = weights.sum(1)
    mean: np.ndarray = np.divide(weights @ np.asarray(shares), total, out=np.zeros(len(weights)), where=total > 0)
    return mean


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


def attachment_values(gold: Texts, predicted: Texts, weights: Weights) -> Values:
    """Share of words that have their right head, of trees written as heads with spaces between.

    Raises:
        ValueError: if a predicted tree has another number of words than the right one.
    """
    right, words = np.zeros(len(gold)), np.zeros(len(gold))
    for row, (tree, answer) in enumerate(zip(gold.tolist(), predicted.tolist(), strict=True)):
        heads, guesses = tree.split(), answer.split()
        if len(heads) != len(guesses):
            raise ValueError(f"attachment: expected {len(heads)} heads for tree {row}, got {len(guesses)}")
        right[row] = sum(head == guess for head, guess in zip(heads, guesses, strict=True))
        words[row] = len(heads)
    total = weights @ words
    share: np.ndarray = np.divide(weights @ right, total, out=np.zeros(len(weights)), where=total > 0)
    return share


def has_depth(depth: int, gold: Texts) -> Shaped[np.ndarray, " example"]:
    """Which formulas have this depth.

    Example:
        >>> has_depth(2, np.array(["1 + 2", "( 1 + 2 ) * 3"])).tolist()
        [False, True]
    """
    return np.asarray([depth_of(text) == depth for text in gold.tolist()], dtype=np.bool_)
