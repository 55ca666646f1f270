"""``MultilabelModel``: any number of labels for an example, each with a probability of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from structattn.data import Example
from structattn.data.example import join_labels
from structattn.errors import ConfigError
from structattn.tasks.answering import Prediction
from structattn.tasks.calibration import Calibration
from structattn.tasks.sentence_model import SentenceModel
from structattn.tasks.task_batch import TaskBatch


class MultilabelModel(SentenceModel):
    """``sigmoid(classifier(combine(encoder(a), encoder(b))))``: labels that do not exclude each other.

    The loss is the binary cross-entropy, the mean over labels. The answer are the labels whose probability is at least
    their threshold, 0.5 unless ``structattn calibrate`` was given another; there may be none.

    Example:
        >>> from structattn.data import Vocabulary
        >>> from structattn.encoders import build
        >>> from structattn.tasks import get_task
        >>> vocabulary = Vocabulary(["dull", "film", "long"])
        >>> encoder = build("emb_s2t", vocab_size=len(vocabulary), dim=8)
        >>> model = MultilabelModel(encoder, get_task("multilabel"), ["boring", "lengthy"], vocabulary=vocabulary)
        >>> bool(model.loss([Example("A long film", "lengthy"), Example("Long and dull", "boring|lengthy")]) > 0)
        True
        >>> sorted(model.predict(["A film"])[0].probabilities)
        ['boring', 'lengthy']
    """

    kind: ClassVar[str] = "multilabel"
    fewest_labels: ClassVar[int] = 1

    def write_files(self, folder: Path) -> dict[str, Any]:
        """As ``SentenceModel.write_files``; the classes of transformers predict one label."""
        config = super().write_files(folder)
        del config["architectures"]
        return {**config, "problem_type": "multi_label_classification"}

    def loss_of(self, scores: Float[Tensor, "batch label"], batch: TaskBatch) -> Float[Tensor, ""]:
        """Weighted mean over examples of the mean binary cross-entropy of the labels.

        Raises:
            ConfigError: if no example of the batch is labelled.
        """
        if batch.num_labelled == 0:
            raise ConfigError(f"no example of this batch of {len(batch)} is labelled")
        share = self.classifier_config.label_smoothing
        target = (1 - share) * batch.target.to(scores.dtype) + share / 2
        losses = F.binary_cross_entropy_with_logits(scores, target, reduction="none").mean(-1)
        weight = batch.weight.to(scores.dtype)
        return (losses * weight).sum() / weight.sum()

    def probabilities(self, logits: Float[Tensor, "*batch label"]) -> Float[Tensor, "*batch label"]:
        """The probability of each label, at the temperature of the model."""
        return (logits if self.calibration is None else logits / self.calibration.temperature).sigmoid()

    def _answers(self, batch: TaskBatch) -> list[Prediction]:
        probabilities = self.probabilities(self(batch.to(self.device)).double())
        calibration = self.calibration or Calibration()
        rows = [dict(zip(self.labels, row, strict=True)) for row in probabilities.tolist()]
        answers = [calibration.select(row) for row in rows]
        return [
            Prediction(name, join_labels(labels), None, row, details={"labels": labels})
            for name, labels, row in zip(batch.ids, answers, rows, strict=True)
        ]

    def _target(self, examples: Sequence[Example]) -> Float[Tensor, "batch label"]:
        classes = [set() if example.label is None else self.task.classes_in(example.label) for example in examples]
        return torch.tensor([[float(label in row) for label in self.labels] for row in classes])

    def _is_known(self, examples: Sequence[Example], target: Float[Tensor, "batch label"]) -> Bool[Tensor, " batch"]:
        return torch.tensor([example.label is not None for example in examples])
