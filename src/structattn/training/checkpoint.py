"""A trained model as a folder: ``config.json``, ``vocabulary.json``, ``model.safetensors``. Nothing is ever unpickled.

The folder is a Hugging Face model folder (see ``hugging_face.py``), but reading and writing it needs no transformers.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

import structattn
from structattn.data import Vocabulary
from structattn.data.tensors import build_and_load, save_tensors
from structattn.encoders.build import check_trusted
from structattn.syntax.errors import ConfigError, ParseError, shown
from structattn.syntax.files import read_text
from structattn.syntax.folders import check_counts, described_by, read_json, replaced_folder
from structattn.tasks import (
    AttachmentModel,
    FactModel,
    SequenceModel,
    Task,
    TaskModel,
    build_fact_model,
)
from structattn.training import sequences
from structattn.training.trained_model import (
    TrainedModel,
    build_attachment_model,
    build_from_config,
    vocabulary_of,
)

CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "model.safetensors"
MODEL_TYPE, TEXT_MODEL_TYPE = "structattn", "structattn_text"
FACT_MODEL_TYPE, TREE_MODEL_TYPE = "structattn_facts", "structattn_trees"
_KEYS = {
    MODEL_TYPE: ("encoder", "encoder_options", "vocab_size", "task", "labels", "classifier"),
    TEXT_MODEL_TYPE: sequences.KEYS,
    FACT_MODEL_TYPE: ("encoder", "encoder_options", "vocab_size", "task", "labels"),
    TREE_MODEL_TYPE: ("encoder", "encoder_options", "vocab_size", "task"),
}
# Incremented when an older folder can no longer be read as it is.
FORMAT_VERSION = 1


def save(model: TrainedModel, folder: str | os.PathLike[str]) -> None:
    """Write a model folder atomically.

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
    elif isinstance(model, FactModel | AttachmentModel):
        kind = FACT_MODEL_TYPE if isinstance(model, FactModel) else TREE_MODEL_TYPE
        content = {"model_type": kind, **versions, **config}
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
        files = {VOCABULARY: vocabulary_of(model).to_json()}
    files[CONFIG] = json.dumps(content, ensure_ascii=False, indent=2)
    for name, text in files.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    save_tensors({f"model.{name}": tensor for name, tensor in trained.module.state_dict().items()}, folder / WEIGHTS)


def load(folder: str | os.PathLike[str], *, trust_code: bool | str = False) -> TrainedModel:
    """Read a model folder, or the best model of a run folder. The model is in evaluation mode, on the CPU.

    Args:
        folder: of the model or of the run.
        trust_code: whether an encoder that the folder names as ``module:function`` may be imported and run; a string
            allows that one only.

    Raises:
        ParseError: if a file is missing, truncated or damaged; the message names it.
        ConfigError: if the folder was written by a newer version, holds another kind of model or several runs, or
            names code that is not trusted.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file() and (path / "best" / CONFIG).is_file():
        path = path / "best"
    elif several := sorted(child.name for child in path.glob("*/") if (child / "best" / CONFIG).is_file()):
        raise ConfigError(f"{path} holds several runs; choose one of them: {', '.join(several)}")
    config = read_json(path / CONFIG)
    check_config(config, path / CONFIG, trust_code=trust_code)
    kind = config["model_type"]
    vocabulary = read_vocabulary(path, size=config.get("vocab_size"))
    with described_by(path / CONFIG):
        later = [name for name in sequences.LATER_KEYS if kind == TEXT_MODEL_TYPE and name in config]
        config = {name: config[name] for name in (*_KEYS[kind], *later)}
        if kind == MODEL_TYPE:
            config = {**config, "encoder_options": with_places(config["encoder_options"], path)}
        return build_and_load(lambda: _build(kind, config, vocabulary, path), path / WEIGHTS).eval()


def _build(kind: str, config: Mapping[str, Any], vocabulary: Vocabulary, folder: Path) -> TrainedModel:
    """The model that a ``config.json`` describes, with fresh parameters."""
    model: TaskModel
    if kind == TEXT_MODEL_TYPE:
        model = sequences.build_sequence_model(config, lambda name: read_text(folder / name))
    elif kind == FACT_MODEL_TYPE:
        model = build_fact_model(
            config["encoder"],
            Task.from_dict(config["task"]),
            config["labels"],
            vocabulary=vocabulary,
            **config["encoder_options"],
        )
    elif kind == TREE_MODEL_TYPE:
        model = build_attachment_model(config, vocabulary)
    else:
        model = build_from_config(config, vocabulary)
    return TrainedModel(model, config)


def _with_folders(encoder: nn.Module, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Save what the encoder read from folders (a tokenizer, say) beside it; the options name the copies."""
    given = dict(options)
    for part in encoder.modules():
        option = getattr(part, "folder_option", None)
        if option in given:
            part.save_skeleton(folder / option)  # type: ignore[operator]
            given[option] = option
    return given


def with_places(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Options whose value is a folder beside ``config.json`` as paths, the others as they are.

    Such a folder has the name of its option, as ``write_into`` gives it.
    """
    return {
        name: str(folder / name) if value == name and (folder / name).is_dir() else value
        for name, value in options.items()
    }


def check_config(config: Mapping[str, Any], file: Path, *, trust_code: bool | str) -> None:
    """Refuse what this version cannot read, and code that is not trusted; nothing is imported before.

    Raises:
        ConfigError: if the file was written by a newer version, describes another kind of model or an endless one, or
            names code that is not trusted.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ConfigError(f"{file}: expected a model of type {MODEL_TYPE!r}, got {shown(kind)}")
    version = config.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ConfigError(
            f"{file}: has format version {shown(version)}, this structattn {structattn.__version__} reads up to "
            f"{FORMAT_VERSION}"
        )
    check_trusted(config.get("encoder"), source=file, trust_code=trust_code)
    check_counts(config, file)


def read_vocabulary(folder: Path, *, size: object) -> Vocabulary:
    """The vocabulary of a model folder.

    Args:
        folder: the model folder.
        size: how many ids the model was built for, as its ``config.json`` says; anything else is refused.

    Raises:
        ParseError: if the file is missing or damaged, or another model's; the message names it.
    """
    file = folder / VOCABULARY
    found = Vocabulary.from_file(file)
    if len(found) != size:
        raise ParseError(f"expected the {shown(size)} ids that {CONFIG} names, got {len(found)}", file=file)
    return found
