"""A model of any task with the configuration it was built from; ``checkpoint.py`` writes and reads it.

Reference: the interface of the tasks' models, ``tasks/model.py``.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import Example, SentenceBatch, Vocabulary
from structattn.encoders.build import build
from structattn.syntax.errors import ConfigError
from structattn.tasks import (
    AttachmentModel,
    Evaluation,
    FactModel,
    Prediction,
    SentenceModel,
    SequenceModel,
    Task,
    TaskBatch,
    TaskModel,
    build_fact_model,
    num_words,
)
from structattn.tasks.model import Item


class TrainedModel(nn.Module):
    """A model of any task with its configuration, so that it can be saved and built again.

    Args:
        model: the model itself.
        config: what ``build_model`` takes, as plain values.

    Example:
        >>> from structattn.tasks import SENTIMENT
        >>> vocabulary = Vocabulary(["dull", "fine"])
        >>> model = build_model("emb_s2t", SENTIMENT, vocabulary=vocabulary, options={"dim": 4})
        >>> import tempfile, structattn as sa
        >>> folder = tempfile.mkdtemp() + "/model"
        >>> model.save_pretrained(folder)
        >>> sa.load(folder).predict(["fine"]) == model.predict(["fine"])
        True
    """

    def __init__(self, model: TaskModel, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.config = dict(config)

    @property
    def module(self) -> nn.Module:
        """The model as a module, whose parameters are saved."""
        return self.get_submodule("model")

    @property
    def encoder(self) -> nn.Module:
        """The encoder."""
        encoder: nn.Module = self.model.encoder
        return encoder

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes; none for texts."""
        return self.model.labels

    @property
    def task(self) -> Task:
        """The task of the model."""
        return self.model.task

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the model."""
        return vocabulary_of(self.model)

    def forward(self, batch: Any) -> Float[Tensor, "batch *label"]:
        """Scores of what ``collate`` made, see ``SentenceModel.forward``."""
        logits: Tensor = self.model(batch)
        return logits

    def size_of(self, example: Example) -> int:
        """How long an example is: the words of its sentences; for texts the longer one of both sides, in tokens."""
        return self.model.size_of(example) if isinstance(self.model, SequenceModel) else num_words(example)

    def set_epoch(self, epoch: int) -> None:
        """Notify the model of a new epoch, counted from 0, if it has such a schedule."""
        if isinstance(self.model, FactModel):
            self.model.set_epoch(epoch)

    def collate(self, examples: Sequence[Item]) -> Any:
        """Examples as tensors, see ``SentenceModel.collate``."""
        return self.model.collate(examples)

    def loss(self, batch: Any) -> Float[Tensor, ""]:
        """What training minimises, see ``SentenceModel.loss``."""
        return self.model.loss(batch)

    def predict(
        self, examples: Sequence[Item] | TaskBatch | SentenceBatch, *, batch_size: int = 64
    ) -> list[Prediction]:
        """Predictions, see ``SentenceModel.predict``."""
        return self.model.predict(examples, batch_size=batch_size)

    def evaluate(self, examples: Sequence[Example], *, batch_size: int = 64) -> Evaluation:
        """Predictions and metrics, see ``SentenceModel.evaluate``."""
        return self.model.evaluate(examples, batch_size=batch_size)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model folder; see ``save``."""
        from structattn.training.checkpoint import save

        save(self, folder)


def build_model(
    encoder: str,
    task: Task,
    *,
    vocabulary: Vocabulary,
    labels: tuple[str, ...] | None = None,
    options: Mapping[str, Any] | None = None,
    classifier: Mapping[str, Any] | None = None,
) -> TrainedModel:
    """A fresh model from names and options.

    Args:
        encoder: name of an encoder.
        task: the task.
        vocabulary: its words; frozen ones get untrained vectors.
        labels: the classes, where the task takes them from its training data.
        options: keyword arguments of the encoder's builder.
        classifier: further keyword arguments of ``SentenceModel``, such as ``dropout`` and ``nodes``.

    Raises:
        ConfigError: for an unknown encoder or option.
    """
    frozen = {"num_frozen": vocabulary.num_frozen} if vocabulary.num_frozen else {}
    given = {**(options or {}), **frozen}
    built = build(encoder, vocab_size=len(vocabulary), **given)
    model = SentenceModel(built, task, labels, vocabulary=vocabulary, **(classifier or {}))
    config = {
        "encoder": encoder,
        "encoder_options": given,
        "vocab_size": len(vocabulary),
        "task": task.to_dict(),
        "labels": list(model.labels),
        "classifier": dict(classifier or {}),
    }
    return TrainedModel(model, config)


def new_fact_model(
    name: str, task: Task, labels: tuple[str, ...], *, vocabulary: Vocabulary, options: Mapping[str, Any]
) -> TrainedModel:
    """A fresh model that selects facts.

    Raises:
        ConfigError: for an unknown name or option.
    """
    config = {
        "encoder": name,
        "encoder_options": dict(options),
        "vocab_size": len(vocabulary),
        "task": task.to_dict(),
        "labels": list(labels),
    }
    return TrainedModel(build_fact_model(name, task, labels, vocabulary=vocabulary, **options), config)


def new_attachment_model(
    encoder: str, task: Task, *, vocabulary: Vocabulary, options: Mapping[str, Any]
) -> TrainedModel:
    """A fresh model that predicts trees.

    Raises:
        ConfigError: for an unknown encoder or option, or an encoder without latent trees.
    """
    frozen = {"num_frozen": vocabulary.num_frozen} if vocabulary.num_frozen else {}
    config = {
        "encoder": encoder,
        "encoder_options": {**options, **frozen},
        "vocab_size": len(vocabulary),
        "task": task.to_dict(),
    }
    return TrainedModel(build_attachment_model(config, vocabulary), config)


def build_attachment_model(config: Mapping[str, Any], vocabulary: Vocabulary) -> AttachmentModel:
    """The model that such a ``config.json`` describes, with fresh parameters.

    Raises:
        ConfigError: for an unknown encoder, task or option.
        KeyError: if something is missing.
    """
    encoder = build(config["encoder"], vocab_size=config["vocab_size"], **config["encoder_options"])
    return AttachmentModel(encoder, Task.from_dict(config["task"]), vocabulary=vocabulary)


def build_from_config(config: Mapping[str, Any], vocabulary: Vocabulary | None) -> SentenceModel:
    """The model that a ``config.json`` describes, with fresh parameters.

    Raises:
        ConfigError: for an unknown encoder, task or option.
        KeyError: if something is missing.
    """
    encoder = build(config["encoder"], vocab_size=config["vocab_size"], **config["encoder_options"])
    task = Task.from_dict(config["task"])
    return SentenceModel(encoder, task, config["labels"], vocabulary=vocabulary, **config["classifier"])


def vocabulary_of(model: TaskModel) -> Vocabulary:
    """The vocabulary of a model.

    Raises:
        ConfigError: if it was built without.
    """
    if model.vocabulary is None:
        raise ConfigError("this model has no vocabulary, so it cannot be saved: pass vocabulary=")
    return model.vocabulary
