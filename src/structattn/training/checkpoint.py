"""A trained model as a folder: ``config.json``, ``vocabulary.json``, ``model.safetensors``. Nothing is ever unpickled.

The folder is a Hugging Face model folder (see ``hugging_face.py``), but reading and writing it needs no transformers.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

import structattn
from structattn.data import Example, SentenceBatch, Vocabulary
from structattn.data.tensors import load_tensors, save_tensors
from structattn.encoders.build import build
from structattn.syntax.errors import ConfigError, ParseError
from structattn.syntax.folders import read_json, replaced_folder
from structattn.tasks import (
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
from structattn.training import sequences

CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "model.safetensors"
MODEL_TYPE, TEXT_MODEL_TYPE, FACT_MODEL_TYPE = "structattn", "structattn_text", "structattn_facts"
_KEYS = {
    MODEL_TYPE: ("encoder", "encoder_options", "vocabulary_size", "task", "labels", "classifier"),
    TEXT_MODEL_TYPE: sequences.KEYS,
    FACT_MODEL_TYPE: ("encoder", "encoder_options", "vocabulary_size", "task", "labels"),
}
# Raised when an older folder can no longer be read as it is.
FORMAT_VERSION = 1


class TrainedModel(nn.Module):
    """A model of any task that remembers how it was built, so that it can be saved and built again.

    Args:
        model: the model itself.
        config: what ``build_model`` takes, as plain values.

    Example:
        >>> from structattn.tasks import SENTIMENT
        >>> vocabulary = Vocabulary(["dull", "fine"])
        >>> model = build_model("emb_s2t", SENTIMENT, vocabulary=vocabulary, options={"dim": 4})
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "model"
        >>> model.save_pretrained(folder)
        >>> load(folder).predict(["fine"]) == model.predict(["fine"])
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
        """What the model was trained for."""
        return self.model.task

    @property
    def vocabulary(self) -> Vocabulary:
        """The words the model knows."""
        return _vocabulary(self.model)

    def forward(self, batch: Any) -> Float[Tensor, "batch *label"]:
        """Scores of what ``collate`` made, see ``SentenceModel.forward``."""
        logits: Tensor = self.model(batch)
        return logits

    def size_of(self, example: Example) -> int:
        """How long an example is: the words of its sentences; for texts the longer one of both sides, in pieces."""
        return self.model.size_of(example) if isinstance(self.model, SequenceModel) else num_words(example)

    def set_epoch(self, epoch: int) -> None:
        """Tell the model which epoch begins, counted from 0, if that matters to it."""
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
        """Answers, see ``SentenceModel.predict``."""
        return self.model.predict(examples, batch_size=batch_size)

    def evaluate(self, examples: Sequence[Example], *, batch_size: int = 64) -> Evaluation:
        """Answers and how good they are, see ``SentenceModel.evaluate``."""
        return self.model.evaluate(examples, batch_size=batch_size)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model folder; see ``save``."""
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
        task: what is asked of it.
        vocabulary: its words; frozen ones get untrained vectors.
        labels: the classes, where the task takes them from its training data.
        options: keyword arguments of the encoder's builder.
        classifier: further keyword arguments of ``SentenceModel``, such as ``dropout`` and ``nodes``.

    Raises:
        ConfigError: for an unknown encoder or option.
    """
    frozen = {"num_frozen": vocabulary.num_frozen} if vocabulary.num_frozen else {}
    given = {**(options or {}), **frozen}
    built = build(encoder, vocabulary_size=len(vocabulary), **given)
    model = SentenceModel(built, task, labels, vocabulary=vocabulary, **(classifier or {}))
    config = {
        "encoder": encoder,
        "encoder_options": given,
        "vocabulary_size": len(vocabulary),
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
        "vocabulary_size": len(vocabulary),
        "task": task.to_dict(),
        "labels": list(labels),
    }
    return TrainedModel(build_fact_model(name, task, labels, vocabulary=vocabulary, **options), config)


def build_from_config(config: Mapping[str, Any], vocabulary: Vocabulary | None) -> SentenceModel:
    """The model that a ``config.json`` describes, with fresh parameters.

    Raises:
        ConfigError: for an unknown encoder, task or option.
        KeyError: if something is missing.
    """
    encoder = build(config["encoder"], vocabulary_size=config["vocabulary_size"], **config["encoder_options"])
    task = Task.from_dict(config["task"])
    return SentenceModel(encoder, task, config["labels"], vocabulary=vocabulary, **config["classifier"])


def save(model: TrainedModel, folder: str | os.PathLike[str]) -> None:
    """Write a model folder; whoever reads it sees the old one or the whole new one.

    Args:
        model: what to save.
        folder: where; an existing folder is replaced.
    """
    with replaced_folder(Path(folder)) as temporary:
        write_into(model, folder=temporary)


def write_into(trained: TrainedModel, *, folder: Path) -> None:
    """Write the files of a model folder into an existing folder."""
    model, config = trained.model, trained.config
    versions = {"structattn_version": structattn.__version__, "format_version": FORMAT_VERSION}
    if isinstance(model, SequenceModel):
        content = {"model_type": TEXT_MODEL_TYPE, **versions, **config}
        files = sequences.sequence_files(model)
    elif isinstance(model, FactModel):
        content = {"model_type": FACT_MODEL_TYPE, **versions, **config}
        files = {VOCABULARY: model.vocabulary.to_json()}
    else:
        labels = list(model.labels)
        if options := config.get("encoder_options"):
            config = {**config, "encoder_options": _with_folders(model.encoder, options, folder)}
        content = {
            "model_type": MODEL_TYPE,
            "architectures": ["StructAttnForSequenceClassification"],
            **versions,
            **config,
            "id2label": dict(enumerate(labels)),
            "label2id": {label: index for index, label in enumerate(labels)},
        }
        files = {VOCABULARY: _vocabulary(model).to_json()}
    files[CONFIG] = json.dumps(content, ensure_ascii=False, indent=2)
    for name, text in files.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    save_tensors({f"model.{name}": tensor for name, tensor in trained.module.state_dict().items()}, folder / WEIGHTS)


def load(folder: str | os.PathLike[str]) -> TrainedModel:
    """Read a model folder, or the best model of a run folder. The model is in evaluation mode, on the CPU.

    Raises:
        ParseError: if a file is missing, truncated or damaged; the message names it.
        ConfigError: if the folder was written by a newer version, holds another kind of model, or several runs.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file() and (path / "best" / CONFIG).is_file():
        path = path / "best"
    elif several := sorted(child.name for child in path.glob("*/") if (child / "best" / CONFIG).is_file()):
        raise ConfigError(f"{path} holds several runs; choose one of them: {', '.join(several)}")
    config = read_json(path / CONFIG)
    check_config(config, path / CONFIG)
    kind = config["model_type"]
    vocabulary = read_vocabulary(path, size=config.get("vocabulary_size"))
    try:
        config = {name: config[name] for name in _KEYS[kind]}
        model: TaskModel
        if kind == TEXT_MODEL_TYPE:
            model = sequences.build_sequence_model(config, lambda name: _text(path / name))
        elif kind == FACT_MODEL_TYPE:
            model = build_fact_model(
                config["encoder"],
                Task.from_dict(config["task"]),
                config["labels"],
                vocabulary=vocabulary,
                **config["encoder_options"],
            )
        else:
            options = {name: _place(value, path) for name, value in config["encoder_options"].items()}
            config = {**config, "encoder_options": options}
            model = build_from_config(config, vocabulary)
    except ParseError:
        raise
    except KeyError as error:
        raise ParseError(f"expected the key {error}, it is missing", file=path / CONFIG) from None
    except ConfigError as error:
        raise ConfigError(f"{path / CONFIG}: {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ParseError(f"expected a model that can be built: {error}", file=path / CONFIG) from error
    trained = TrainedModel(model, config)
    load_tensors(trained.module, path / WEIGHTS, prefix="model.")
    return trained.eval()


def _with_folders(encoder: nn.Module, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Save what the encoder read from folders, such as a body's tokenizer, beside it; the options name the copies."""
    given = dict(options)
    for part in encoder.modules():
        option = getattr(part, "folder_option", None)
        if option in given:
            part.save_skeleton(folder / option)  # type: ignore[operator]
            given[option] = option
    return given


def _place(value: Any, folder: Path) -> Any:
    """An option that names a folder within the model's folder, as a path."""
    return str(folder / value) if isinstance(value, str) and value and (folder / value).is_dir() else value


def check_config(config: Mapping[str, Any], file: Path) -> None:
    """Refuse what this version cannot read.

    Raises:
        ConfigError: if the file was written by a newer version, or describes another kind of model.
    """
    if config.get("model_type") not in _KEYS:
        raise ConfigError(f"{file}: expected a model of type {MODEL_TYPE!r}, got {config.get('model_type')!r}")
    version = config.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ConfigError(
            f"{file}: has format version {version}, this structattn {structattn.__version__} reads up to "
            f"{FORMAT_VERSION}"
        )


def read_vocabulary(folder: Path, *, size: int | None) -> Vocabulary:
    """The vocabulary of a model folder.

    Args:
        folder: the model folder.
        size: how many ids the model was built for, as its ``config.json`` says.

    Raises:
        ParseError: if the file is missing or damaged, or another model's; the message names it.
    """
    file = folder / VOCABULARY
    try:
        found = Vocabulary.from_json(_text(file))
    except ParseError:
        raise
    except ValueError as error:
        raise ParseError(str(error), file=file) from None
    if size is not None and len(found) != size:
        raise ParseError(f"expected the {size} ids that {CONFIG} speaks of, got {len(found)}", file=file)
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ParseError(f"cannot read this file: {error.strerror}", file=file) from None


def _vocabulary(model: TaskModel) -> Vocabulary:
    if model.vocabulary is None:
        raise ConfigError("this model has no vocabulary, so it cannot be saved: pass vocabulary=")
    return model.vocabulary
