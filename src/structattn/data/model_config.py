"""The configuration of a saved model, read before any code of the model is imported."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import structattn
from structattn.errors import ConfigError, ParseError, shown
from structattn.files.json_yaml import check_counts, read_json
from structattn.files.urls import check_local
from structattn.tables import Trust, untrusted

MODEL_TYPE = "structattn"
# Increased when older folders can no longer be read as they are.
FORMAT_VERSION = 2

# Where to look for runs in a folder that is not a run itself: <task>/<encoder>/<seed>.
_BELOW = ("*/", "*/*/", "*/*/*/")
_SHOWN = 12  # runs named in an error

Storage = Literal["float32", "float16", "int8"]
"""Number format of the parameters of a saved model; `int8` has a scale for each row."""


@dataclass(frozen=True)
class Layout:
    """File names of a saved model, and the prefix of the names of its tensors."""

    config: str
    weights: str
    prefix: str


MODEL = Layout("config.json", "model.safetensors", "model.")
ADAPTER = Layout("adapter_config.json", "adapter_model.safetensors", "base_model.model.")


def make_header(kind: str) -> dict[str, Any]:
    """The first entries of the configuration of every saved model."""
    return {
        "model_type": MODEL_TYPE,
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "structattn_version": structattn.__version__,
    }


def read_model_config(
    folder: str | os.PathLike[str],
    kinds: Collection[str] | None = None,
    *,
    layout: Layout = MODEL,
    trust_code: Trust = False,
) -> dict[str, Any]:
    """The configuration of a model or adapter of one of these kinds, after checking that this version can read it."""
    file = Path(folder) / layout.config
    try:
        config = read_json(file)
    except ParseError as error:
        if file.exists():
            raise
        raise ParseError(f"{error.message}; expected the folder of a model, or of a run", file=error.file) from None
    if config.get("model_type") != MODEL_TYPE:
        raise ConfigError(f"{file}: expected a model of type {MODEL_TYPE!r}, got {shown(config.get('model_type'))}")
    version = config.get("format_version")
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"{file}: has format version {shown(version)}, this structattn {structattn.__version__} reads version "
            f"{FORMAT_VERSION}"
        )
    kind = config.get("kind")
    if kinds is not None and (not isinstance(kind, str) or kind not in kinds):
        raise ConfigError(f"{file}: expected a model of kind {' or '.join(kinds)}, got {shown(kind)}")
    check_counts(config, file)
    if "encoder" in config:
        check_trusted(config["encoder"], source=file, trust_code=trust_code)
    return config


def find_whole_model(folder: str | os.PathLike[str]) -> Path:
    """The folder of a whole model, in a folder that contains it or its run; an adapter is refused."""
    path = find_model_folder(folder)
    if not (path / MODEL.config).is_file() and (find_model_folder(folder, layout=ADAPTER) / ADAPTER.config).is_file():
        raise ConfigError(
            f"{path}: expected a whole model, got an adapter; add it to its backbone with "
            "structattn.backbones.add_heads or load_injection"
        )
    return path


def find_model_folder(folder: str | os.PathLike[str], *, layout: Layout = MODEL) -> Path:
    """The folder itself if it contains a model, or its ``best`` if it is a run folder; several runs are refused."""
    path = check_local(folder)
    if (path / layout.config).is_file():
        return path
    if (path / "best" / layout.config).is_file():
        return path / "best"
    levels = (path.glob(f"{pattern}best/{layout.config}") for pattern in _BELOW)
    runs = next(filter(None, (sorted(file.parent.parent for file in files) for files in levels)), [])
    if len(runs) == 1:
        raise ConfigError(f"{path} contains a run folder: give {runs[0]}")
    if runs:
        names = [str(run.relative_to(path)) for run in runs[:_SHOWN]] + ["..."] * (len(runs) > _SHOWN)
        raise ConfigError(f"{path} contains several runs; choose one of them: {', '.join(names)}")
    return path


def check_backbone(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder without a Hugging Face model."""
    if not os.path.isfile(os.path.join(folder, MODEL.config)):  # unlike Path's, false for a name that is not valid
        name = shown(os.fspath(folder), width=200)
        raise ConfigError(f"backbone: expected the folder of a Hugging Face model, {name} has no {MODEL.config}")


def check_folders(*, model: object = None, backbone: object = None, adapter: object = None) -> None:
    """Refuse folders of a model, a Hugging Face model or an adapter that this version cannot read.

    Code that the folder of the model names is not imported, and trusted here. What is not a text is no folder.
    """
    if isinstance(model, str):
        read_model_config(find_whole_model(model), trust_code=True)
    if isinstance(backbone, str):
        check_backbone(backbone)
    if isinstance(adapter, str):
        read_model_config(find_model_folder(adapter, layout=ADAPTER), layout=ADAPTER)


def check_trusted(name: object, *, source: object, trust_code: Trust) -> None:
    """Refuse an encoder that a folder names unless the caller trusts it; nothing is imported."""
    if not isinstance(name, str):
        raise ConfigError(f"{source}: expected the name of an encoder, got {shown(name)}")
    trusted = {trust_code} if isinstance(trust_code, str) else trust_code
    if ":" in name and trusted is not True and (trusted is False or name not in trusted):
        raise untrusted(name, "encoder", source)
