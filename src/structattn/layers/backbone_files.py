"""Model, configuration and tokenizer of a Hugging Face folder, from the disk only."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from structattn.data.model_config import check_backbone
from structattn.syntax.errors import ConfigError, require, shown
from structattn.syntax.folders import check_counts

# A folder may come from anybody, so none of the code that it brings or names is run.
_DISK_ONLY: Mapping[str, bool] = {"local_files_only": True, "trust_remote_code": False}
_POSITIONS_BEHIND_PADDING = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "mpnet", "longformer"}


def load_backbone(folder: str | os.PathLike[str], *, reader: str = "AutoModel") -> tuple[nn.Module, Any]:
    """The model and the tokenizer of a Hugging Face folder, from the disk only.

    Without a file of parameters, as ``PretrainedBackbone.save_skeleton`` leaves it, the parameters are fresh.

    Args:
        folder: of the model.
        reader: the class of transformers that reads it; ``AutoModelForQuestionAnswering`` puts a classifier on top.

    Raises:
        ConfigError: if the folder does not exist, or transformers cannot read a model and a tokenizer from it.
        MissingExtra: if transformers is not installed.
    """
    transformers = require("transformers", "train")
    check_backbone(folder)
    try:
        config, tokenizer = read_backbone_config(folder), read_backbone_tokenizer(folder)
        auto = getattr(transformers, reader)
        if any(True for kind in ("*.safetensors", "*.bin") for _ in Path(folder).glob(kind)):
            model: nn.Module = auto.from_pretrained(folder, config=config, **_DISK_ONLY, weights_only=True)
        else:
            model = auto.from_config(config, trust_remote_code=False)
    except ConfigError:
        raise
    except Exception as error:  # transformers raises whatever a configuration made it stumble over
        name = shown(os.fspath(folder), width=200)
        raise ConfigError(f"backbone: cannot read a model from {name}: {_first_line(error)}") from error
    return model.eval(), tokenizer


def read_backbone_config(folder: str | os.PathLike[str]) -> Any:
    """The configuration of a Hugging Face folder, from the disk only. Code that it names is never run.

    Raises:
        ConfigError: if its attention is code from somewhere else; as ``AutoConfig`` for what it cannot read.
        MissingExtra: if transformers is not installed.
    """
    transformers = require("transformers", "train")
    config = transformers.AutoConfig.from_pretrained(folder, **_DISK_ONLY)
    check_counts(config.to_dict(), Path(folder) / "config.json")
    written, _ = transformers.PreTrainedConfig.get_config_dict(folder, **_DISK_ONLY)
    parts = (config, *(getattr(config, name) for name in config.sub_configs))
    for kind in ("attn_implementation", "experts_implementation"):
        # Some versions of transformers do not read what a file calls so; it is refused by all.
        for named in (written.get(kind), *(getattr(part, f"_{kind}", None) for part in parts)):
            if "/" in str(named):
                raise ConfigError(
                    f"{os.fspath(folder)}: its configuration names code from elsewhere, {named!r}, "
                    "which is never run; expected an implementation of transformers, such as 'sdpa'"
                )
    return config


def read_backbone_tokenizer(folder: str | os.PathLike[str]) -> Any:
    """The tokenizer of a Hugging Face folder, from the disk only. Code that it names is never run.

    Raises:
        MissingExtra: if transformers is not installed; as ``AutoTokenizer`` for what it cannot read.
    """
    return require("transformers", "train").AutoTokenizer.from_pretrained(folder, **_DISK_ONLY)


def max_input_length(config: Any, tokenizer: Any) -> int | None:
    """How many subwords a backbone reads at most; ``None`` if neither its configuration nor its tokenizer says so.

    RoBERTa's positions start behind its padding id, so two fewer fit than its configuration names.

    Example:
        >>> from types import SimpleNamespace as Named
        >>> max_input_length(Named(max_position_embeddings=514, model_type="roberta", pad_token_id=1), Named())
        512
    """
    limits = []
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        offset = config.pad_token_id + 1 if config.model_type in _POSITIONS_BEHIND_PADDING else 0
        limits.append(int(positions) - offset)
    known = getattr(tokenizer, "model_max_length", None)
    if known is not None and known < 10**9:  # transformers writes "no limit" as a very large number
        limits.append(int(known))
    return min(limits, default=None)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
