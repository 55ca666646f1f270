"""Metrics that are functions of sums over examples, many weighted samples at once; those of texts and of words.

BLEU is sacrebleu's: its counts for each sentence, its formula for each weighted sum of counts. A resample of the paired
bootstrap is thus scored as sacrebleu would score it.

Reference: Papineni et al. (2002), BLEU; Post (2018), A call for clarity in reporting BLEU scores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from structattn.data.span_tags import recognise_scheme
from structattn.errors import require

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


Texts = Shaped[np.ndarray, " example"]


def bleu_counts(gold: Texts, predicted: Texts) -> Counts:
    """The counts behind corpus BLEU, as sacrebleu counts them: tokenisation ``13a``, cased."""
    metric = _bleu()
    rows = []
    for text, answer in zip(gold.tolist(), predicted.tolist(), strict=True):
        # The score of a single sentence is not used, only its counts.
        counted = metric.sentence_score(answer, [text])
        rows.append([*counted.counts, *counted.totals, counted.sys_len, counted.ref_len])
    return np.asarray(rows, dtype=np.float64)


def bleu_score(totals: Float[np.ndarray, "sample count"]) -> Values:
    """Corpus BLEU from 0 to 100, as sacrebleu computes it: with exponential smoothing."""
    metric = _bleu()
    order = (totals.shape[1] - 2) // 2
    # sacrebleu expects whole counts, and the weights of resamples are whole numbers.
    scores = [
        metric.compute_bleu(
            row[:order], row[order : 2 * order], row[-2], row[-1], smooth_method="exp", max_ngram_order=order
        ).score
        for row in np.rint(totals).astype(np.int64).tolist()
    ]
    return np.asarray(scores, dtype=np.float64)


def _bleu() -> Any:
    return require("sacrebleu.metrics", "mt").BLEU(effective_order=True)


def word_counts(name: str, gold: Texts, predicted: Texts) -> Counts:
    """The number of words of each example that are answered correctly, and of all its words; spaces separate answers.

    Raises ``ValueError``, with the name of the metric, if an answer has another number of words than the gold one.
    """
    pairs = _by_word(name, gold, predicted)
    return np.asarray([(sum(map(eq, words, answers)), len(words)) for words, answers in pairs], dtype=float)


def span_counts(gold: Texts, predicted: Texts) -> Counts:
    """Twice the number of right spans of each example, and the number of gold and predicted ones, in any scheme.

    F1 is the quotient; right are start, end and label, as in CoNLL-2000 (Tjong Kim Sang and Buchholz 2000).
    """
    pairs = _by_word("span_f1", gold, predicted)
    try:
        scheme = recognise_scheme({tag for pair in pairs for tags in pair for tag in tags})
    except ValueError as error:
        raise ValueError(f"span_f1: {error}") from None
    counts = []
    for pair in pairs:
        gold_spans, answer_spans = (set(scheme.find_spans(tags)) for tags in pair)
        counts.append((2 * len(gold_spans & answer_spans), len(gold_spans) + len(answer_spans)))
    return np.asarray(counts, dtype=float)


def _by_word(name: str, gold: Texts, predicted: Texts) -> list[tuple[list[str], list[str]]]:
    pairs = [(text.split(), answer.split()) for text, answer in zip(gold.tolist(), predicted.tolist(), strict=True)]
    for row, (words, answers) in enumerate(pairs):
        if len(words) != len(answers):
            message = f"expected an answer for each of the {len(words)} words of example {row}, got {len(answers)}"
            raise ValueError(f"{name}: {message}")
    return pairs


def surprisal_counts(gold: Texts, predicted: Texts) -> Counts:
    """The surprisal of each example in thousandths of a bit, as two numbers below 65,536, and its number of words.

    An answer is the bits of each word, separated by spaces; a ``ValueError`` for another one.
    """
    try:
        bits = [np.asarray(answer.split(), dtype=float) for answer in predicted.tolist()]
    except ValueError as error:
        raise ValueError(f"word_perplexity: expected the bits of each word as an answer: {error}") from None
    return np.asarray([(*divmod(round(1000 * values.sum()), 65_536), len(values)) for values in bits], dtype=float)


def perplexity(totals: Float[np.ndarray, "sample count"]) -> Values:
    """Two to the power of the mean bits of a word."""
    values: np.ndarray = np.exp2(ratio(65_536 * totals[:, 0] + totals[:, 1], 1000 * totals[:, 2]))
    return values


BLEU = Counted(bleu_counts, bleu_score)
"""Papineni et al. (2002); ``bleu_counts`` and ``bleu_score``."""

PERPLEXITY = Counted(surprisal_counts, perplexity)
"""Word perplexity, from the bits of words."""

SPAN_F1 = Counted(span_counts, share)
"""F1 of the spans of all examples."""


def words_right(name: str) -> Counted:
    """The share of words that are answered correctly, for the metric of this name."""
    return Counted(partial(word_counts, name), share)
