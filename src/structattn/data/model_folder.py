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
from structattn.data.model_config import MODEL, Layout, Storage, find_whole_model, make_header, read_model_config
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
        "encoder": "structattn.encoders.build:build_from_config",
        "sentence": "structattn.tasks.sentence_model:SentenceModel.from_config",
        "multilabel": "structattn.tasks.multilabel:MultilabelModel.from_config",
        "sequence": "structattn.tasks.sequence_model:SequenceModel.from_config",
        "tagging": "structattn.tasks.tagging:TaggingModel.from_config",
        "attachment": "structattn.tasks.attachment:AttachmentModel.from_config",
        "language_model": "structattn.tasks.language_model:LanguageModel.from_config",
        "parser": "structattn.parsing.tree_parser:parser_from_config",
        "splitter": "structattn.parsing.text_splitter:splitter_from_config",
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
    card: bool = True,
) -> None:
    """Write a model folder, in place of an existing one as a whole.

    ``write_files`` writes further files into the new folder, and returns the configuration.
    """
    with replace_folder(Path(folder)) as temporary:
        config = write_files(temporary)
        prefixed = {layout.prefix + name: tensor for name, tensor in tensors.items()}
        save_tensors(prefixed, temporary / layout.weights, storage)
        write_json(temporary / layout.config, {**make_header(kind), **config})
        if card:
            write_card(temporary)


def read_model(
    folder: str | os.PathLike[str],
    kinds: Collection[str] = MODEL_KINDS,
    *,
    trust_code: Trust = False,
) -> Any:
    """The model in a folder, or the best model of a run folder, in evaluation mode, on the CPU.

    Code that the folder names as ``module:name`` is imported only if it is trusted: all, or one or several names.
    """
    path = find_whole_model(folder)
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
    """Read the vocabulary of a model that was built for so many ids; ``None`` for one that reads no word ids."""
    vocabulary = Vocabulary.from_file(file)
    if size is not None and len(vocabulary) != size:
        raise ParseError(f"expected the {shown(size)} ids that {MODEL.config} names, got {len(vocabulary)}", file=file)
    return vocabulary
