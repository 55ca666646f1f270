"""What a model says about examples, and how good that is. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """What a model says about one example.

    Attributes:
        id: the example's id, or its position if it has none.
        label: the most probable label; ``None`` for regression.
        score: the predicted score; ``None`` for classification.
        probabilities: probability of every class; for regression the classes are the whole scores. Texts have none.
        text: the text that was written; ``None`` for labels and scores.
        facts: the facts that the answer rests on, counted from 0 in the story; ``None`` where there is no story.
        log_probability: the logarithm of the probability of the text, divided as its search was asked to.
    """

    id: str
    label: str | None
    score: float | None
    probabilities: Mapping[str, float]
    text: str | None = None
    log_probability: float | None = None
    facts: tuple[int, ...] | None = None

    @property
    def answer(self) -> str | float:
        """The label, the score or the text, whichever the task asks for."""
        if self.text is not None:
            return self.text
        return self.label if self.label is not None else float(self.score or 0.0)


@dataclass(frozen=True)
class Evaluation:
    """Predictions and how good they are.

    Attributes:
        metrics: value of each metric of the task. ``unseen_labels`` is there when some gold labels are none of the
            model's classes: how many examples that concerns. They count as wrong.
        predictions: one for each example, in order.
        gold: the true answers, in the same order.
    """

    metrics: Mapping[str, float]
    predictions: tuple[Prediction, ...]
    gold: tuple[str | float, ...]
