"""Metrics, in numpy: accuracy, macro F1, Matthews, Pearson, Spearman, mean squared error, and those of texts.

Macro F1 is the mean over labels, those that are gold or predicted, of ``2 tp / (2 tp + fp + fn)``; micro F1 is that of
their sums. Of examples with several labels, accuracy is the share with exactly the right ones. Matthews correlation
is Gorodkin's generalisation (2004) for more than two labels. Spearman is the correlation of ranks; equal values share
their mean rank. Correlations are zero if one side is constant.

Each metric is written once, over weighted examples. With weights of one it is the metric; with the counts of a resample
it is the metric of that resample, which is how ``training.significance`` runs ten thousand of them at once.

A label that never occurred in training needs no special case: the model cannot predict it, so its examples count as
wrong in accuracy and add a class with an F1 of zero to macro F1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import eq

import numpy as np
from jaxtyping import Float, Shaped

from structattn.data.example import split_labels
from structattn.tables import Table
from structattn.tasks.counted_metrics import BLEU, PERPLEXITY, SPAN_F1, Counted, Counts, Sums, ratio, words_right

Weights = Float[np.ndarray, "sample example"]
Values = Float[np.ndarray, " sample"]
Labels = Sequence[str] | Shaped[np.ndarray, " example"]
Scores = Sequence[float | int] | Shaped[np.ndarray, " example"]

# Rounding alone makes numbers up to about one deviate by less; ranks, which are not rounded, deviate by more.
_TINY = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Metric:
    """A named metric.

    Attributes:
        name: its key in every table of results.
        is_numeric: whether it compares numbers; otherwise it compares labels.
        greater_is_better: whether a larger value is a better one.
        function: ``(gold, predicted, weights) -> values``, one value for each row of weights; most are ``Sums``.
        applies_to: which examples it is computed on, by their gold answers; all if ``None``.
        of_one_class: whether it counts classes of which an example has exactly one.

    Example:
        >>> metric("accuracy").value(["a", "b"], ["a", "a"])
        0.5
    """

    name: str
    is_numeric: bool
    greater_is_better: bool
    function: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    applies_to: Callable[[np.ndarray], np.ndarray] | None = None
    of_one_class: bool = False

    @property
    def from_counts(self) -> "Metric":
        """The same metric, computed from the counts of each example in place of its predicted answer.

        Raises:
            TypeError: if it is not ``Counted``.

        Example:
            >>> import numpy as np
            >>> f1 = metric("span_f1")
            >>> gold, predicted = np.array(["B-NP O", "O"]), np.array(["B-NP O", "B-NP"])
            >>> f1.value(gold, predicted) == f1.from_counts.value(np.zeros(2), f1.counts(gold, predicted))
            True
        """
        if not isinstance(self.function, Counted):
            raise TypeError(f"{self.name} is not computed from counts")
        return replace(self, is_numeric=True, function=Sums(lambda gold, counts: counts, self.function.score))

    def counts(self, gold: Labels, predicted: Labels) -> Counts | None:
        """Whole numbers for each example, to compute the metric from without the answers, see ``from_counts``.

        Returns:
            ``None`` if the metric is no function of such counts.

        Example:
            >>> metric("span_f1").counts(["B-NP O", "O"], ["B-NP O", "B-NP"]).tolist()
            [[2.0, 2.0], [0.0, 1.0]]
        """
        if not isinstance(self.function, Counted):
            return None
        return self.function.counts(np.asarray(gold, dtype=np.str_), np.asarray(predicted, dtype=np.str_))

    def applies_to_any(self, gold: Labels | Scores) -> bool:
        """Whether the metric is computed on any of the examples."""
        return self.applies_to is None or bool(self.applies_to(np.asarray(gold)).any())

    def value(self, gold: Labels | Scores, predicted: Labels | Scores | Counts) -> float:
        """The metric of one system.

        Raises:
            ValueError: if there are no examples, or not one answer per example.
        """
        return float(self.values(gold, predicted, weights=np.ones((1, len(gold))))[0])

    def values(self, gold: Labels | Scores, predicted: Labels | Scores | Counts, *, weights: Weights) -> Values:
        """The metric under each row of example weights.

        Raises:
            ValueError: if there are no examples, or not one answer per example.
        """
        (values,) = self.of_systems(gold, [predicted])(weights)
        return values

    def of_systems(
        self, gold: Labels | Scores, systems: Sequence[Labels | Scores | Counts]
    ) -> Callable[[Weights], Sequence[Values]]:
        """The metric of several systems on the same examples, as a function of the weights.

        Returns:
            ``weights -> [values of a system, ...]``, as ``values`` returns them. What does not depend on the weights is
            computed once, and ``Sums`` of all systems are one product of matrices.

        Raises:
            ValueError: if there are no examples, or not one answer per example.

        Example:
            >>> measured = metric("accuracy").of_systems(["a", "b"], [["a", "a"], ["a", "b"]])
            >>> [values.tolist() for values in measured(np.array([[1.0, 1.0], [0.0, 2.0]]))]
            [[0.5, 0.0], [1.0, 1.0]]
        """
        for predicted in systems:
            if len(gold) != len(predicted):
                raise ValueError(f"{self.name} expects one answer per example, got {len(predicted)} for {len(gold)}")
        if len(gold) == 0:
            raise ValueError(f"{self.name} expects at least one example, got none")
        kind = np.float64 if self.is_numeric else np.str_
        true, answers = np.asarray(gold, dtype=kind), [np.asarray(predicted, dtype=kind) for predicted in systems]
        concerned = None if self.applies_to is None else self.applies_to(true)
        if isinstance(self.function, Sums):
            return self.function.of_systems(true, answers, concerned)

        def measured(weights: Weights) -> list[Values]:
            counted_weights = weights if concerned is None else weights * concerned
            return [self.function(true, predicted, counted_weights) for predicted in answers]

        return measured


def metric(name: str) -> Metric:
    """The metric of that name, or ``module:name`` for one of your own.

    Raises:
        ConfigError: if there is none; the message lists the known names.
    """
    return METRICS.find(name) if ":" not in name else replace(METRICS.find(name), name=name)


def _squared_errors(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    errors: np.ndarray = (gold - predicted) ** 2
    return errors


def _macro_f1(totals: Float[np.ndarray, "sample count"]) -> Values:
    right, in_gold, in_predicted = _by_label(totals)
    either = in_gold + in_predicted
    # A resample may lack a label altogether; then it has no F1 and is left out of the mean.
    return ratio(ratio(2 * right, either).sum(1), (either > 0).sum(1))


def _matthews(totals: Float[np.ndarray, "sample count"]) -> Values:
    right, in_gold, in_predicted = _by_label(totals)
    total = in_gold.sum(1)
    covariance = total * right.sum(1) - (in_gold * in_predicted).sum(1)
    spread = (total**2 - (in_gold**2).sum(1)) * (total**2 - (in_predicted**2).sum(1))
    return ratio(covariance, np.sqrt(np.maximum(spread, 0.0)))


def _label_counts(gold: np.ndarray, predicted: np.ndarray) -> Counts:
    """For each label, whether it is both gold and predicted, gold, and predicted in each example."""
    labels, ids = np.unique(np.concatenate([gold, predicted]), return_inverse=True)
    is_gold, is_predicted = (side[:, None] == np.arange(len(labels)) for side in (ids[: len(gold)], ids[len(gold) :]))
    return np.concatenate([is_gold & is_predicted, is_gold, is_predicted], axis=1).astype(np.float64)


def _counts_of_several(gold: np.ndarray, predicted: np.ndarray) -> Counts:
    """As ``_label_counts``, for answers of any number of labels."""
    sides = [[set(split_labels(label)) for label in side.tolist()] for side in (gold, predicted)]
    labels = sorted(set().union(*sides[0], *sides[1]))
    is_gold, is_predicted = (
        np.array([[label in row for label in labels] for row in side], dtype=bool).reshape(len(side), len(labels))
        for side in sides
    )
    return np.concatenate([is_gold & is_predicted, is_gold, is_predicted], axis=1).astype(np.float64)


def _micro_f1(totals: Float[np.ndarray, "sample count"]) -> Values:
    right, in_gold, in_predicted = (part.sum(1) for part in _by_label(totals))
    return ratio(2 * right, in_gold + in_predicted)


def _by_label(totals: Float[np.ndarray, "sample count"]) -> Sequence[Float[np.ndarray, "sample label"]]:
    return np.split(totals, 3, axis=1)


def _pearson(gold: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    first, second = (series[None] - series.mean() for series in (_scaled(gold), _scaled(predicted)))
    return _correlation(first, second, weights)


def _spearman(gold: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return _correlation(_ranks(gold, weights), _ranks(predicted, weights), weights)


def _scaled(series: np.ndarray) -> np.ndarray:
    """Divided by a power of two, which rounds nothing, so that the largest number is about one."""
    _, exponent = np.frexp(np.abs(series).max())
    scaled: np.ndarray = np.ldexp(series, -exponent)
    return scaled


def _correlation(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted Pearson of each row, of ranks or numbers up to about one; the series may differ from row to row."""
    total = weights.sum(1, keepdims=True)
    first = first - ratio((weights * first).sum(1, keepdims=True), total)
    second = second - ratio((weights * second).sum(1, keepdims=True), total)
    spreads = (weights * first**2).sum(1), (weights * second**2).sum(1)
    # Rounding leaves a constant series a tiny spread; below it there is no correlation.
    is_known = np.minimum(*spreads) > _TINY**2 * total[:, 0]
    together = np.where(is_known, (weights * first * second).sum(1), 0.0)
    correlation: np.ndarray = np.clip(ratio(together, np.sqrt(spreads[0] * spreads[1])), -1.0, 1.0)
    return correlation


def _ranks(series: np.ndarray, weights: np.ndarray) -> Float[np.ndarray, "sample example"]:
    """Mean ranks of a series in which example ``i`` occurs ``weights[:, i]`` times."""
    distinct, groups = np.unique(series, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(len(distinct)))
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    last = np.cumsum(sizes, axis=1)
    ranks: np.ndarray = (last - (sizes - 1) / 2)[:, groups]
    return ranks


#: From the name of a metric to the metric.
METRICS: Table[Metric] = Table(
    "metrics",
    "metric",
    hint=", or module:name for your own",
    accepts=lambda value: isinstance(value, Metric),
    expected="a Metric",
    rows={
        metric.name: metric
        for metric in (
            Metric("accuracy", is_numeric=False, greater_is_better=True, function=Sums.mean(eq)),
            *(
                Metric(name, False, greater_is_better=True, function=Sums(_label_counts, score), of_one_class=True)
                for name, score in (("macro_f1", _macro_f1), ("matthews", _matthews))
            ),
            *(
                Metric(name, False, greater_is_better=True, function=Sums(_counts_of_several, score))
                for name, score in (("micro_f1", _micro_f1), ("labels_macro_f1", _macro_f1))
            ),
            Metric("pearson", is_numeric=True, greater_is_better=True, function=_pearson),
            Metric("spearman", is_numeric=True, greater_is_better=True, function=_spearman),
            Metric(
                "mean_squared_error",
                is_numeric=True,
                greater_is_better=False,
                function=Sums.mean(_squared_errors),
            ),
            Metric("bleu", is_numeric=False, greater_is_better=True, function=BLEU),
            Metric("attachment", is_numeric=False, greater_is_better=True, function=words_right("attachment")),
            Metric("tag_accuracy", is_numeric=False, greater_is_better=True, function=words_right("tag_accuracy")),
            Metric("span_f1", is_numeric=False, greater_is_better=True, function=SPAN_F1),
            Metric("word_perplexity", is_numeric=False, greater_is_better=False, function=PERPLEXITY),
        )
    },
)
