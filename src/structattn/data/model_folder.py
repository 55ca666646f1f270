"""Saved models: one folder format, one reader and one writer for every kind of model, and for adapters.

A model folder has ``config.json``, ``model.safetensors``, a model card and whatever files its kind writes beside them.
An adapter, which is added to another model, has the file names of the Hugging Face Hub, ``adapter_config.json`` and
``adapter_model.safetensors``, and otherwise the same format. A folder may be untrusted: nothing is unpickled, and no
code that it names is imported unless the caller trusts it.
"""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from structattn.data.model_card import write_card
from structattn.data.model_config import MODEL, Layout, Storage, header, read_model_config, whole_model_folder
from structattn.data.saved_model import SavedModel
from structattn.data.tensors import build_and_load, save_tensors
from structattn.data.vocabulary import Vocabulary
from structattn.errors import ParseError, shown
from structattn.files.json_yaml import naming_description, write_json
from structattn.files.replacing import replace_folder
from structattn.tables import Table, Trust, restricted

VOCABULARY = "vocabulary.json"


FromConfig = Callable[[Mapping[str, Any], Path], SavedModel]
"""From a configuration, and the folder that ``SavedModel.write_files`` wrote to, to a model with fresh parameters."""


_HYDRA = "structattn.backbones.task_models:HydraModelFor"
#: From each kind of model, as named in its folder, to the function that restores it.
MODEL_KINDS: Table[FromConfig] = Table(
    "kinds",
    "kind of model",
    {
        "encoder": "structattn.encoders.build:encoder_from_config",
        "sentence": "structattn.tasks.sentence_model:SentenceModel.from_config",
        "sequence": "structattn.tasks.sequence_model:SequenceModel.from_config",
        "tagging": "structattn.tasks.tagging:TaggingModel.from_config",
        "attachment": "structattn.tasks.attachment:AttachmentModel.from_config",
        "parser": "structattn.parsing.tree_parser:parser_from_config",
        "hydra_sequence_classification": f"{_HYDRA}SequenceClassification.from_config",
        "hydra_token_classification": f"{_HYDRA}TokenClassification.from_config",
        "hydra_question_answering": f"{_HYDRA}QuestionAnswering.from_config",
    },
)


def write_model(
    folder: str | os.PathLike[str],
    kind: str,
    write_files: Callable[[Path], Mapping[str, Any]],
    tensors: Mapping[str, Tensor],
    *,
    layout: Layout = MODEL,
    storage: Storage = "float32",
) -> None:
    """Write a model folder; an existing folder is replaced as a whole.

    Args:
        folder: where to write.
        kind: the kind of the model.
        write_files: writes further files into the new folder, and returns the configuration.
        tensors: parameters and buffers by name.
        layout: the layout of a model or of an adapter.
        storage: number format, as in :meth:`SavedModel.save_pretrained`.
    """
    with replace_folder(Path(folder)) as temporary:
        config = write_files(temporary)
        named = {layout.prefix + name: tensor for name, tensor in tensors.items()}
        save_tensors(named, temporary / layout.weights, storage)
        write_json(temporary / layout.config, {**header(kind), **config})
        write_card(temporary)


def read_model(
    folder: str | os.PathLike[str],
    kinds: Collection[str] = MODEL_KINDS,
    *,
    trust_code: Trust = False,
) -> Any:
    """The model in a folder, or the best model of a run folder, in evaluation mode, on the CPU.

    Args:
        folder: the folder of the model or of the run.
        kinds: the kinds of models that are accepted.
        trust_code: whether code that the folder names as ``module:name``, such as an encoder, may be imported and run;
            one such name or several allow these only.

    Raises:
        ParseError: if a file is missing or damaged, or its tensors are not those of the model; the message names it.
        ConfigError: if the folder contains another kind of model, an adapter or several runs, was written by another
            version, or names code that is not trusted.
    """
    path = whole_model_folder(folder)
    config = read_model_config(path, kinds, trust_code=trust_code)
    with naming_description(path / MODEL.config), restricted(path / MODEL.config, trust_code):
        model = build_and_load(
            lambda: MODEL_KINDS[config["kind"]](config, path), path / MODEL.weights, prefix=MODEL.prefix
        )
    return model.eval()


def write_vocabulary(vocabulary: Vocabulary, file: Path) -> None:
    """Write a vocabulary as JSON."""
    file.write_text(vocabulary.to_json() + "\n", encoding="utf-8")


def read_vocabulary(file: Path, *, size: int | None) -> Vocabulary:
    """Read the vocabulary of a model.

    Args:
        file: what :func:`write_vocabulary` wrote.
        size: how many ids the model was built for; ``None`` for a model that reads no word ids.

    Raises:
        ParseError: if the file is missing or damaged, or another model's; the message names it.
    """
    found = Vocabulary.from_file(file)
    if size is not None and len(found) != size:
        raise ParseError(f"expected the {shown(size)} ids that {MODEL.config} names, got {len(found)}", file=file)
    return found
