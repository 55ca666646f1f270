"""Saved models: one folder format, one reader and one writer for every kind of model, and for adapters.

A model folder has ``config.json``, ``model.safetensors`` and whatever files its kind writes beside them. An adapter,
which is added to another model, has the file names of the Hugging Face Hub, ``adapter_config.json`` and
``adapter_model.safetensors``, and otherwise the same format. A folder may come from anybody: nothing is unpickled, and
no code that it names is imported unless the caller trusts it.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

import structattn
from structattn.data.tensors import build_and_load, save_tensors
from structattn.data.vocabulary import Vocabulary
from structattn.syntax.errors import ConfigError, ParseError, shown
from structattn.syntax.folders import check_counts, described_by, read_json, replaced_folder, write_json

MODEL_TYPE = "structattn"
# Raised when older folders can no longer be read as they are.
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Layout:
    """File names of a saved model, and the prefix of the names of its tensors."""

    config: str
    weights: str
    prefix: str


MODEL = Layout("config.json", "model.safetensors", "model.")
ADAPTER = Layout("adapter_config.json", "adapter_model.safetensors", "base_model.model.")
VOCABULARY = "vocabulary.json"


class SavedModel(nn.Module, ABC):
    """A module that can be written to a model folder.

    A subclass has a ``kind``, and a function ``from_config(config, folder)`` that builds it again with fresh parameters
    is found under that kind in the tables that :func:`read_model` is given.

    Attributes:
        kind: the name of this kind of model in ``config.json``.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Plain values that describe everything but the parameters.

        Raises:
            ConfigError: if the model was put together from parts that do not say how they were built.
        """

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write further files, such as a vocabulary, into an existing folder.

        Returns:
            What ``config.json`` says of the model: ``config``, with the names of the copies in place of folders that
            the model was built from.
        """
        return self.config

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a model folder; whoever reads it sees the old one or the whole new one.

        Raises:
            ConfigError: if the model does not know how it was built.
        """
        write_model(folder, self.kind, self.write_files, self.state_dict())


FromConfig = Callable[[Mapping[str, Any], Path], SavedModel]
"""From a configuration, and the folder with what ``SavedModel.write_files`` wrote, to a model with fresh parameters."""


def write_model(
    folder: str | os.PathLike[str],
    kind: str,
    write_files: Callable[[Path], Mapping[str, Any]],
    tensors: Mapping[str, Tensor],
    *,
    layout: Layout = MODEL,
) -> None:
    """Write a model folder; an existing folder is replaced as a whole.

    Args:
        folder: where.
        kind: of the model.
        write_files: writes further files into the new folder, and returns the configuration.
        tensors: parameters and buffers by name.
        layout: of a model or of an adapter.
    """
    with replaced_folder(Path(folder)) as temporary:
        config = write_files(temporary)
        save_tensors({layout.prefix + name: tensor for name, tensor in tensors.items()}, temporary / layout.weights)
        write_json(temporary / layout.config, {**header(kind), **config})


def header(kind: str) -> dict[str, Any]:
    """What the configuration of every saved model begins with."""
    return {
        "model_type": MODEL_TYPE,
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "structattn_version": structattn.__version__,
    }


def read_model(
    folder: str | os.PathLike[str], kinds: Mapping[str, FromConfig], *, trust_code: bool | str = False
) -> Any:
    """The model in a folder, or the best model of a run folder, in evaluation mode, on the CPU.

    Args:
        folder: of the model or of the run.
        kinds: what builds a model of each kind.
        trust_code: whether an encoder that the folder names as ``module:function`` may be imported and run; a string
            allows that one only.

    Raises:
        ParseError: if a file is missing or damaged, or its tensors are not those of the model; the message names it.
        ConfigError: if the folder holds another kind of model, an adapter or several runs, was written by another
            version, or names code that is not trusted.
    """
    path = model_folder(folder)
    if not (path / MODEL.config).is_file() and (model_folder(folder, layout=ADAPTER) / ADAPTER.config).is_file():
        raise ConfigError(
            f"{path}: expected a whole model, got an adapter; add it to its backbone with "
            "structattn.pretrained.add_heads or load_injection"
        )
    config = read_model_config(path, kinds, trust_code=trust_code)
    with described_by(path / MODEL.config):
        model = build_and_load(lambda: kinds[config["kind"]](config, path), path / MODEL.weights, prefix=MODEL.prefix)
    return model.eval()


def read_model_config(
    folder: str | os.PathLike[str],
    kinds: Collection[str],
    *,
    layout: Layout = MODEL,
    trust_code: bool | str = False,
) -> dict[str, Any]:
    """The configuration of a model or an adapter, once it is known that this version can read it.

    Args:
        folder: of the model itself.
        kinds: those that may be there.
        layout: of a model or of an adapter.
        trust_code: as in :func:`read_model`.

    Raises:
        ParseError: if the file is missing or damaged.
        ConfigError: as :func:`read_model`.
    """
    file = Path(folder) / layout.config
    config = read_json(file)
    if config.get("model_type") != MODEL_TYPE:
        raise ConfigError(f"{file}: expected a model of type {MODEL_TYPE!r}, got {shown(config.get('model_type'))}")
    version = config.get("format_version")
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"{file}: has format version {shown(version)}, this structattn {structattn.__version__} reads version "
            f"{FORMAT_VERSION}"
        )
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ConfigError(f"{file}: expected a model of kind {' or '.join(kinds)}, got {shown(kind)}")
    check_counts(config, file)
    if "encoder" in config:
        check_trusted(config["encoder"], source=file, trust_code=trust_code)
    return config


def model_folder(folder: str | os.PathLike[str], *, layout: Layout = MODEL) -> Path:
    """The folder itself if it holds a model, or its ``best`` if it is a run folder.

    Raises:
        ConfigError: if it holds several runs.
    """
    path = Path(folder)
    if (path / layout.config).is_file():
        return path
    if (path / "best" / layout.config).is_file():
        return path / "best"
    several = sorted(child.name for child in path.glob("*/") if (child / "best" / layout.config).is_file())
    if several:
        raise ConfigError(f"{path} holds several runs; choose one of them: {', '.join(several)}")
    return path


def check_trusted(name: object, *, source: object, trust_code: bool | str) -> None:
    """Refuse an encoder that a folder names unless the caller trusts it; nothing is imported.

    Args:
        name: of the encoder.
        source: the file that names it.
        trust_code: what may be imported: everything, nothing, or one ``module:function``.

    Raises:
        ConfigError: for a ``module:function`` that is not trusted, and for anything that is no name.

    Example:
        >>> check_trusted("ms_san", source="config.json", trust_code=False)
        >>> check_trusted("mine:small", source="config.json", trust_code="mine:small")
        >>> check_trusted("os:_exit", source="config.json", trust_code=False)
        Traceback (most recent call last):
        ...
        structattn.syntax.errors.ConfigError: config.json: its encoder 'os:_exit' is code that would be imported and
        run; expected the name of one of our encoders. If you trust this code, pass trust_code=True (--trust-code on
        the command line)
    """
    if not isinstance(name, str):
        raise ConfigError(f"{source}: expected the name of an encoder, got {shown(name)}")
    if ":" in name and trust_code is not True and name != trust_code:
        raise ConfigError(
            f"{source}: its encoder {shown(name)} is code that would be imported and run; expected the name of one of "
            "our encoders. If you trust this code, pass trust_code=True (--trust-code on the command line)"
        )


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
