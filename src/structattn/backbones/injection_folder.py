"""Adapter folders with the priors in a model's heads."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from structattn.backbones.inject import inject
from structattn.backbones.injection import InjectedModel
from structattn.data.model_config import ADAPTER, Layout, read_model_config
from structattn.data.model_folder import write_model
from structattn.data.tensors import load_tensors
from structattn.errors import ConfigError, shown
from structattn.files.json_yaml import naming_description
from structattn.tables import restricted

KIND = "injection"
_OPTIONS = ("alpha", "learnable_alpha", "missing_trees")


def save_injection(injected: InjectedModel, folder: str | os.PathLike[str]) -> None:
    """See ``InjectedModel.save_pretrained``."""
    if injected.description is None:
        raise ConfigError("only priors given by name, such as 'forward/word', can be written to a folder")
    config: Any = injected.model.config
    content = {
        "base_model_type": config.model_type,
        "num_heads": config.num_attention_heads,
        "layers": list(injected.layers),
        **injected.description,
    }
    if injected.trees is not None:
        content["trees"] = injected.trees
    write_model(folder, KIND, lambda _: content, injected.prior.state_dict(), layout=_layout())


def load_injection(
    model: nn.Module, folder: str | os.PathLike[str], *, tokenizer: Any = None, trust_code: bool = False
) -> InjectedModel:
    """Add the priors in a folder to a model's heads, see ``InjectedModel.save_pretrained``.

    Args:
        model: the model, as for :func:`inject`.
        folder: the folder.
        tokenizer: the model's fast tokenizer, if sentences are to be read rather than subwords.
        trust_code: whether priors that the folder names as ``module:name`` may be imported and run.

    Raises:
        ParseError: if a file is missing or damaged.
        ConfigError: if it was written for another kind of model or another number of heads, or names code that is not
            trusted; if the priors cannot be injected into this model, see :func:`inject`.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
        >>> folder = tempfile.mkdtemp()
        >>> injected = inject(model, ["forward", "word"])
        >>> injected.save_pretrained(folder)
        >>> load_injection(injected.remove(), folder).prior.head_names
        ('forward', 'word')
    """
    names = _layout()
    file = Path(folder) / names.config
    content = read_model_config(folder, (KIND,), layout=names)
    config: Any = model.config
    with naming_description(file, "priors"):
        for name, key, value in (
            ("model_type", "base_model_type", config.model_type),
            ("num_heads", "num_heads", config.num_attention_heads),
        ):
            if content[key] != value:
                raise ConfigError(f"written for a model with {name} {shown(content[key])}, this one has {value!r}")
        options = {name: content[name] for name in _OPTIONS} | {"trees": content.get("trees")}
        with restricted(file, trust_code):
            injected_model = inject(model, content["priors"], content["layers"], **options, tokenizer=tokenizer)
    load_tensors(injected_model.prior, Path(folder) / names.weights, prefix=names.prefix)
    return injected_model


def _layout() -> Layout:
    """The names of the files of an injection's folder, and of the parameters in them."""
    return replace(ADAPTER, prefix=f"{ADAPTER.prefix}prior.")
