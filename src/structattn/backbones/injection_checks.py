"""Whether a bias reaches the scores of a model and keeps a decoder from later tokens, tested by running it."""

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from structattn.data import SubwordBatch
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating
from structattn.priors import AttentionBias

if TYPE_CHECKING:
    from structattn.backbones.injection import InjectedModel


def check_injection(injected: "InjectedModel") -> None:
    """Refuse a model that its hooks do not reach, or whose states depend on later tokens though it is a decoder."""
    # Two subwords, because they attend to each other within any sliding window.
    model: Any = injected.model
    device = next(model.parameters()).device
    if device.type == "meta":  # how transformers builds a model before it reads its parameters
        return
    ids = torch.arange(5, 7, device=device)[None] % model.config.vocab_size
    _check_scores(injected, ids)
    if injected.is_causal:
        _check_causality(injected, ids)


def _check_scores(injected: "InjectedModel", ids: Tensor) -> None:
    """Allow only the first of two subwords as a key: both queries must then give the same output."""
    model: Any = injected.model
    outputs: list[Tensor] = []
    only_first = torch.zeros(1, model.config.num_attention_heads, 2, 2, dtype=torch.bool, device=ids.device)
    only_first[..., 0] = True
    with contextlib.ExitStack() as hooks, injected.biased(AttentionBias(only_first, None)), evaluating(model):
        for _, module in injected.biased_modules:
            hooks.callback(module.register_forward_hook(lambda *call: outputs.append(call[2][0])).remove)
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    for layer, output in zip(injected.layers, outputs, strict=True):
        spread = (output - output[:, :1]).abs().max()
        if not spread <= 1e-4 * output.abs().max().clamp(min=1.0):
            raise ConfigError(
                f"the bias did not reach the scores of layer {layer} of {type(model).__name__} "
                f"({injected.implementation}); this version of transformers is not supported"
            )


def _check_causality(injected: "InjectedModel", ids: Tensor) -> None:
    """Without padding, another second subword must leave the state of the first one as it was."""
    model: Any = injected.model
    no_bias = torch.zeros(1, model.config.num_attention_heads, 2, 2, device=ids.device)
    changed = torch.stack([ids[0, 0], (ids[0, 1] + 1) % model.config.vocab_size])[None]
    with injected.biased(AttentionBias(None, no_bias)), evaluating(model):
        first, second = (model(input_ids=each, use_cache=False)[0][:, 0] for each in (ids, changed))
    if not torch.equal(first, second):
        raise ConfigError(
            f"a state of {type(model).__name__} ({injected.implementation}) depends on a later token if its attention "
            "has a bias; this version of transformers is not supported"
        )


def check_keys(allowed: Tensor, subwords: SubwordBatch, injected: "InjectedModel") -> None:
    """Refuse a prior that leaves a subword without a key."""
    keys = subwords.mask[:, None, None, :]
    if injected.is_causal:
        keys = keys & torch.ones_like(allowed[:1, :1]).tril()
    is_reachable = (allowed & keys).any(-1) | ~subwords.mask[:, None, :]
    if not bool(is_reachable.all()):
        row = int((~is_reachable).nonzero()[0, 0])
        raise ValueError(
            f"the prior {injected.prior.name!r} leaves a subword of text {row} without a key, and its tokenizer adds "
            "no special token that is always allowed; use priors that include the word itself"
        )
