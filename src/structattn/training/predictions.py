"""The predictions of a run on disk, example by example; ``compare`` reads them."""

from collections.abc import Sequence
from pathlib import Path

from structattn.data import Example
from structattn.syntax.folders import write_json_lines
from structattn.tasks import Evaluation


def write_predictions(path: Path, examples: Sequence[Example], evaluation: Evaluation) -> None:
    """One line per example: id, gold, predicted, the probability of each class as scores, and the facts, if any."""
    write_json_lines(
        path,
        (
            {
                "id": prediction.id,
                "gold": gold,
                "predicted": prediction.answer,
                "scores": dict(prediction.probabilities),
                **({} if prediction.facts is None else {"facts": list(prediction.facts)}),
            }
            for prediction, gold in zip(evaluation.predictions, evaluation.gold, strict=True)
        ),
    )
