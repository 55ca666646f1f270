"""HYDRA heads as a folder: ``adapter_config.json`` and ``adapter_model.safetensors``, after PEFT's conventions.

Names inside the file are ``base_model.model.hydra.layer.{query,key,value,output,norm,ffn}.*``. PEFT itself is not
needed: a new layer on top of a backbone is not among its methods, so only the format is shared.
"""

import dataclasses
import hashlib
import os
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from structattn.backbones.hydra_config import HydraConfig
from structattn.backbones.hydra_layer import KIND, PEFT_TYPE, HydraLayer, tensor_bytes
from structattn.data.model_config import ADAPTER, find_model_folder, read_model_config
from structattn.data.model_folder import write_model
from structattn.data.tensors import check_finite, check_like, read_tensors
from structattn.errors import ConfigError, ParseError, shown
from structattn.files.json_yaml import require_keys
from structattn.tables import restricted

LAYOUT = dataclasses.replace(ADAPTER, prefix=f"{ADAPTER.prefix}hydra.layer.")
_HEAD_PARTS = ("query", "key", "value")


def save_adapter(
    layer: HydraLayer,
    base: nn.Module,
    folder: str | os.PathLike[str],
    *,
    untrained: Collection[str] = (),
    card: bool = True,
) -> None:
    """Write an adapter folder atomically, without the parts that were never trained; the heads are always saved."""
    saved = {*_HEAD_PARTS, *(name.split(".")[0] for name in layer.parts if name not in untrained)}
    config: Any = base.config
    content = {
        **layer.describe(),
        "base_model_name_or_path": str(getattr(config, "_name_or_path", "") or ""),
        "base_model_type": config.model_type,
        "base_fingerprint": backbone_fingerprint(base),
        "saved_parts": sorted(saved),
    }
    parts = {name: tensor for name, tensor in layer.parts.items() if name.split(".")[0] in saved}
    write_model(folder, KIND, lambda _: content, parts, layout=LAYOUT, card=card)


def read_adapter_config(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The configuration of an adapter folder, or of the best adapter of a run folder."""
    path = find_model_folder(folder, layout=LAYOUT)
    content = read_model_config(path, (KIND,), layout=LAYOUT)
    file = path / LAYOUT.config
    if content.get("peft_type") != PEFT_TYPE:
        raise ConfigError(f"{file}: expected an adapter of type {PEFT_TYPE!r}, got {shown(content.get('peft_type'))}")
    require_keys(content, ("hidden_size", "hydra", "saved_parts"), file)
    return content


def heads_config(folder: str | os.PathLike[str], backbone: nn.Module) -> HydraConfig:
    """The configuration of the heads in an adapter folder, for fresh ones on a backbone.

    Args:
        folder: a folder that ``HydraModel.save_pretrained`` wrote.
        backbone: an encoder of transformers.

    Raises:
        ParseError: if the configuration is missing or damaged.
        ConfigError: if it is of another kind, or the states of the backbone have another width than those that the
            heads were trained on.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertModel
        >>> from structattn.backbones import add_heads
        >>> backbone = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
        >>> folder = tempfile.mkdtemp()
        >>> add_heads(backbone, HydraConfig(num_heads=2)).save_pretrained(folder)
        >>> heads_config(folder, backbone).num_heads
        2
    """
    return layer_config(read_adapter_config(folder), backbone, folder)


def layer_config(content: Mapping[str, Any], backbone: nn.Module, folder: str | os.PathLike[str]) -> HydraConfig:
    """The layer that the configuration of a folder describes, if the backbone's states are as wide as the heads."""
    settings: Any = backbone.config
    if content["hidden_size"] != settings.hidden_size:
        raise ConfigError(
            f"{Path(folder) / LAYOUT.config}: heads for a backbone of width {content['hidden_size']}, "
            f"this {type(backbone).__name__} has width {settings.hidden_size}"
        )
    with restricted(folder, False):
        return HydraConfig.from_dict(content["hydra"])


def read_parts(layer: HydraLayer, content: Mapping[str, Any], folder: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The parts in a folder with the configuration ``content``, checked to fit a layer; its own values do not matter.

    A damaged file or a missing tensor is a ``ParseError``, an unknown part or another shape a ``ConfigError``.
    """
    file = weights_file(folder)
    parts = {name.removeprefix(LAYOUT.prefix): tensor for name, tensor in read_tensors(file).items()}
    expected, style = layer.parts, layer.config.layer_style
    required = [name for name in expected if name.split(".")[0] in content["saved_parts"]]
    for name in sorted({*required, *parts}):
        if name not in expected:
            raise ConfigError(f"{file}: has a part {name!r} that a layer of style {style!r} lacks")
        if name not in parts:
            raise ParseError(f"expected a tensor {LAYOUT.prefix + name!r}, it is missing", file=file)
        if parts[name].shape != expected[name].shape:
            raise ConfigError(
                f"{file}: expected {name!r} of shape {tuple(expected[name].shape)} for this backbone, "
                f"got {tuple(parts[name].shape)}"
            )
        check_like(LAYOUT.prefix + name, parts[name], expected[name], file)
        check_finite(LAYOUT.prefix + name, parts[name], file)
    return parts


def fill_layer(
    layer: HydraLayer,
    base: nn.Module,
    parts: Mapping[str, Tensor],
    content: Mapping[str, Any],
    folder: str | os.PathLike[str],
) -> None:
    """Copy the parts of a folder into a layer; those that were not saved keep their initial values.

    Warns if the heads were trained on a backbone with other parameters than ``base``.
    """
    with torch.no_grad():
        for name, tensor in parts.items():
            layer.parts[name].copy_(tensor)
    is_planned = any(parameter.is_meta for parameter in base.parameters())
    if not is_planned and content.get("base_fingerprint") not in (None, backbone_fingerprint(base)):
        warnings.warn(
            f"{weights_file(folder)}: these heads were trained on a backbone with other parameters "
            f"({content.get('base_model_name_or_path') or 'unnamed'})",
            stacklevel=3,
        )


def weights_file(folder: str | os.PathLike[str]) -> Path:
    """The file of an adapter folder's parameters; a folder that only describes a layer has no such file."""
    return find_model_folder(folder, layout=LAYOUT) / LAYOUT.weights


def backbone_fingerprint(backbone: nn.Module) -> str:
    """A SHA-256 over all parameters and buffers of a backbone, by name: equal for backbones that compute the same.

    A pooler is left out, as heads do not use it and some task models lack it.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(backbone.state_dict().items()):
        if not name.startswith("pooler."):
            digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
            digest.update(tensor_bytes(tensor))
    return digest.hexdigest()
