"""Predictions and evaluations, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prediction:
    """A model's prediction for one example.

    Attributes:
        id: the example's id, or its position if it has none.
        label: the most probable label; ``None`` for regression.
        score: the predicted score; ``None`` for classification.
        probabilities: probability of every class; for regression the classes are the whole scores. Texts have none.
        text: the generated text; ``None`` for labels and scores.
        log_probability: the log-probability of the text, length-normalised as in its search.
        details: plain values that are written beside the answer by their names, such as what it rests on.
    """

    id: str
    label: str | None
    score: float | None
    probabilities: Mapping[str, float]
    text: str | None = None
    log_probability: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answer(self) -> str | float:
        """The label, the score or the text, whichever the task predicts."""
        if self.text is not None:
            return self.text
        return self.label if self.label is not None else float(self.score or 0.0)


@dataclass(frozen=True)
class Evaluation:
    """Predictions and their metrics.

    Attributes:
        metrics: value of each metric of the task. ``unseen_labels`` is present if some gold labels are not classes
            of the model: the number of such examples or, for a tagger, words. They count as wrong.
        predictions: one for each example, in order.
        gold: the true answers, in the same order.
    """

    metrics: Mapping[str, float]
    predictions: tuple[Prediction, ...]
    gold: tuple[str | float, ...]
