"""Priors that read a whole text in a decoder: they read the prompt, the first sentence of each text, alone."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from structattn.backbones.subword_bias import WordPositions, spread
from structattn.data import SentenceBatch, SubwordBatch, Vocabulary, collate
from structattn.errors import ConfigError
from structattn.priors import AttentionBias, PerHead, Prior
from structattn.priors.prior import Scope

if TYPE_CHECKING:
    from structattn.syntax import Sentence

_IGNORED = -100


def per_head(prior: Prior, num_heads: int) -> PerHead:
    """A prior as one whose terms can be told apart."""
    return prior if isinstance(prior, PerHead) else PerHead([prior] * num_heads)


def select(prior: Prior, *scopes: Scope, device: torch.device) -> Prior:
    """The terms of the heads' priors that have one of these scopes."""
    return cast(PerHead, prior).select(scopes).to(device)


def bias_with_prompts(
    prior: Prior, text: SentenceBatch, subwords: SubwordBatch, positions: WordPositions
) -> AttentionBias:
    """The terms that a decoder may have for all words, and the others for words of the prompts."""
    device = positions.words.device
    value = spread(select(prior, "positions", "earlier", device=device)(text), positions)
    prompts = [parts[0] for parts in subwords.sentences]
    return value + spread(prompt_value(prior, prompts, device), within(positions, prompts))


def prompt_value(prior: Prior, prompts: "list[Sentence]", device: torch.device) -> AttentionBias:
    """The value of the terms that read a whole text, for prompts without what follows."""
    value: AttentionBias = select(prior, "text", device=device)(collate(prompts, Vocabulary([])).to(device))
    return value


def within(positions: WordPositions, prompts: "list[Sentence]") -> WordPositions:
    """The same words, of which only those of the prompts count."""
    return replace(positions, is_word=positions.is_word & _is_prompt(positions.words, prompts))


def check_labels(labels: Tensor, subwords: SubwordBatch) -> None:
    """Refuse labels at words of prompts, whose trees the model has read."""
    is_prompt = subwords.is_word & _is_prompt(subwords.words, [parts[0] for parts in subwords.sentences])
    if bool((is_prompt & (labels != _IGNORED)).any()):
        raise ConfigError(
            "labels: expected -100 at every word of the prompts, whose trees the model has read; it can score what "
            "follows: pass pairs (prompt, continuation)"
        )


def _is_prompt(words: Tensor, prompts: "list[Sentence]") -> Tensor:
    return words < torch.tensor([len(prompt) for prompt in prompts], device=words.device)[:, None]
