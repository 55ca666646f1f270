"""Saved models: one folder format, one reader and one writer for every kind of model, and for adapters.

A model folder has ``config.json``, ``model.safetensors``, a model card and whatever files its kind writes beside them.
An adapter, which is added to another model, has the file names of the Hugging Face Hub, ``adapter_config.json`` and
``adapter_model.safetensors``, and otherwise the same format. A folder may be untrusted: nothing is unpickled, and no
code that it names is imported unless the caller trusts it.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from structattn.data.model_card import write_card
from structattn.data.model_config import MODEL, Layout, Storage, header, read_model_config, whole_model_folder
from structattn.data.tensors import build_and_load, save_tensors
from structattn.data.vocabulary import Vocabulary
from structattn.errors import ParseError, shown
from structattn.files.folders import described_by, replaced_folder, write_json

VOCABULARY = "vocabulary.json"


class SavedModel(nn.Module, ABC):
    """A module that can be written to a model folder.

    A subclass has a ``kind``, which the tables passed to :func:`read_model` map to a function
    ``from_config(config, folder)`` that builds the model again with fresh parameters.

    Attributes:
        kind: the name of this kind of model in ``config.json``.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the parameters.

        Raises:
            ConfigError: if the model was assembled from parts that do not record how they were built.
        """

    @property
    def origin(self) -> dict[str, Any]:
        """Further entries of ``config.json``: how the model's data were prepared, such as the parser that was used."""
        return {}

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write further files, such as a vocabulary, into an existing folder.

        Returns:
            The entries of ``config.json``: ``config``, in which folders that the model was built from are replaced by
            the names of their copies.
        """
        return self.config

    def save_pretrained(self, folder: str | os.PathLike[str], *, storage: Storage = "float32") -> None:
        """Write a model folder; readers see the old one or the whole new one.

        Args:
            folder: where to write; an existing folder is replaced as a whole.
            storage: number format: ``float32``, ``float16``, or ``int8``, where every row of a matrix has 8-bit numbers
                and a scale. Whatever the format, a loaded model computes in 32 bits.

        Raises:
            ConfigError: if the model does not know how it was built.
        """

        def write_files(temporary: Path) -> dict[str, Any]:
            return {**self.write_files(temporary), **self.origin}

        write_model(folder, self.kind, write_files, self.state_dict(), storage=storage)


FromConfig = Callable[[Mapping[str, Any], Path], SavedModel]
"""From a configuration, and the folder that ``SavedModel.write_files`` wrote to, to a model with fresh parameters."""


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
    with replaced_folder(Path(folder)) as temporary:
        config = write_files(temporary)
        named = {layout.prefix + name: tensor for name, tensor in tensors.items()}
        save_tensors(named, temporary / layout.weights, storage)
        write_json(temporary / layout.config, {**header(kind), **config})
        write_card(temporary)


def read_model(
    folder: str | os.PathLike[str], kinds: Mapping[str, FromConfig], *, trust_code: bool | str = False
) -> Any:
    """The model in a folder, or the best model of a run folder, in evaluation mode, on the CPU.

    Args:
        folder: the folder of the model or of the run.
        kinds: the function that builds a model of each kind.
        trust_code: whether an encoder that the folder names as ``module:function`` may be imported and run; a string
            allows that one only.

    Raises:
        ParseError: if a file is missing or damaged, or its tensors are not those of the model; the message names it.
        ConfigError: if the folder contains another kind of model, an adapter or several runs, was written by another
            version, or names code that is not trusted.
    """
    path = whole_model_folder(folder)
    config = read_model_config(path, kinds, trust_code=trust_code)
    with described_by(path / MODEL.config):
        model = build_and_load(lambda: kinds[config["kind"]](config, path), path / MODEL.weights, prefix=MODEL.prefix)
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
