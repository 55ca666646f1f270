"""Priors inside the heads of a stock Hugging Face model: a mask and a bias for each head, layer by layer.

MS-SAN's masks (Qi et al. 2020, arXiv 2012.14642) in a backbone that was trained without them. The bias reaches the
scores through the mask, the only term that every attention function of transformers adds to them: here a 4-D float
tensor with a matrix for each head, set by a hook on each attention module. A keyword such as ``position_bias=`` would
be dropped silently by the eager functions, and a registered function gets no mask unless a mask function is registered
with it. Whether the bias reaches the scores is therefore tested once, when the priors are injected.

In a decoder a state must not depend on later words. transformers leaves that to sdpa's own causal mask where nothing is
padded, and any mask that is given switches it off: the hook then adds it. Cached calls read the new rows of the bias.
"""

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.backbones.attention_modules import attention_modules
from structattn.backbones.backbone import max_input_length, reads_leftwards, takes_token_types
from structattn.backbones.subword_bias import WordPositions, spread
from structattn.data import SentenceBatch, SubwordBatch, collate_subwords
from structattn.errors import ConfigError
from structattn.priors import AttentionBias, Prior

if TYPE_CHECKING:
    from structattn.backbones.layer_masks import LayerMasks
    from structattn.layers.attention_map import AttentionMap
    from structattn.syntax import Sentence

IMPLEMENTATIONS = ("eager", "sdpa")


class InjectedModel(nn.Module):
    """A model of transformers with priors in its heads; made by :func:`inject`.

    All subwords of a word have the word's mask and bias. Special tokens have neither: as queries and as keys they are
    always allowed, with a bias of 0. In a decoder no state depends on a later word.

    Args:
        model: the model; hooks on its attention modules stay until ``remove``.
        prior: the attention bias of its heads.
        layers: the layers with priors, from 0.
        tokenizer: the model's fast tokenizer, to read sentences.
        description: the priors by name, for saving; ``None`` for priors given as objects.
        trees: ``"prompt"`` in a decoder if priors that read the whole text read the first sentence of each text only;
            pairs with a later word then have none of their masks and biases.

    Raises:
        ConfigError: if the model is a decoder and a prior reads later words, has priors already or is of a kind whose
            scores cannot be reached, or the bias did not reach them.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from structattn.priors import Forward
        >>> model = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
        >>> InjectedModel(model, Forward(), layers=[0]).remove() is model
        True
    """

    #: The sentences of a pair are one text.
    reads_together: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        prior: Prior,
        *,
        layers: Sequence[int],
        tokenizer: Any = None,
        description: dict[str, Any] | None = None,
        trees: Literal["prompt"] | None = None,
    ) -> None:
        super().__init__()
        self.is_causal = reads_leftwards(model)
        self.trees = trees
        if trees == "prompt" and not self.is_causal:
            raise ConfigError(f"trees='prompt' is for decoders, and {type(model).__name__} reads a text both ways")
        if self.is_causal and trees != "prompt" and prior.scope == "text":
            raise ConfigError(
                f"the priors ({prior.name}) read later words, which a decoder such as {type(model).__name__} must not: "
                "take priors of directions and word distances, or trees='prompt' for trees of the prompt alone"
            )
        if trees == "prompt":
            from structattn.backbones.prompt_trees import per_head

            config: Any = model.config
            prior = per_head(prior, config.num_attention_heads)
        if any(isinstance(getattr(hook, "__self__", None), InjectedModel) for hook in _hooks_of(model)):
            raise ConfigError(
                f"this {type(model).__name__} has priors in its heads already: call remove() of its injected model "
                "first, or load the model again"
            )
        self.model = model
        self.prior = prior
        self.layers = tuple(layers)
        self.tokenizer = tokenizer
        self.max_length = None if tokenizer is None else max_input_length(model, tokenizer)
        self.description = description
        self._takes_segments = takes_token_types(model)
        self.masks: "LayerMasks | None" = None
        self.biased_modules = [attention_modules(model)[layer] for layer in self.layers]
        self._hooks = [
            module.register_forward_pre_hook(self._add_mask, with_kwargs=True) for _, module in self.biased_modules
        ]
        try:
            from structattn.backbones.injection_checks import check_injection

            check_injection(self)
        except BaseException:
            self.remove()
            raise

    def forward(self, texts: SubwordBatch | SentenceBatch | Sequence[Any] | None = None, **inputs: Any) -> Any:
        """Run the model with the priors of these texts in its heads.

        Args:
            texts: subwords; or if there is a tokenizer, sentences, texts, pairs of them or a batch of sentences.
            **inputs: whatever else the model takes, such as ``labels``. A ``Trainer`` of transformers passes the texts
                if its collator returns them as ``texts``.

        Raises:
            ConfigError: without texts, as token ids do not say what the priors read; after ``remove``.
            MissingStructure: if a prior wants a tree that a sentence lacks.
            ValueError: if the prior allows a subword no key at all.
        """
        if texts is None or isinstance(texts, Tensor) or "input_ids" in inputs:
            raise self._without_texts()
        if not self._hooks:
            raise ConfigError("the priors of this model were removed: inject them again, or call its model")
        subwords = texts if isinstance(texts, SubwordBatch) else self.tokenize(texts)
        if self.trees == "prompt" and inputs.get("labels") is not None:
            from structattn.backbones.prompt_trees import check_labels

            check_labels(inputs["labels"], subwords)
        segments = {"token_type_ids": subwords.segments} if self._takes_segments else {}
        # transformers reads from the mask whether there is padding; on the meta device there is nothing to read.
        mask = None if subwords.mask.is_meta else subwords.mask.long()
        bias = self.attention_bias(subwords)
        with self.biased(bias), contextlib.ExitStack() as checkpoints:
            if self.model.training:
                from structattn.backbones.checkpointing import repeating

                # Built again for each layer: the graph of a learnt bias can be gone through once.
                checkpoints.enter_context(repeating(self.model, lambda: self.biased(self.attention_bias(subwords))))
            return self.model(input_ids=subwords.ids, attention_mask=mask, **segments, **inputs)

    def generate(self, texts: "Sequence[Sentence | str | tuple[Sentence | str, ...]]", **options: Any) -> Any:
        """Continue texts with a decoder whose heads have priors, by its own ``generate``.

        The words of new tokens come from the tokenizer's marks of word beginnings: a token without one, such as a full
        stop, continues a word. Texts are padded on the left, and each step computes the bias of its new rows alone.

        Args:
            texts: the prompts.
            **options: those of transformers, such as ``max_new_tokens``, ``num_beams``, ``do_sample`` and
                ``cache_implementation``.

        Returns:
            What transformers returns: the ids of prompts and continuations, or an object with these.

        Raises:
            ConfigError: if the model has no language model's head, or reads a text both ways; without a tokenizer, or
                for one that does not mark where words begin; for more tokens than the model has positions.
            MissingStructure: if a prior wants a tree that a prompt lacks.
        """
        from structattn.backbones.generation import generate

        return generate(self, texts, **options)

    def tokenize(self, texts: "SentenceBatch | Sequence[Sentence | str | tuple[Sentence | str, ...]]") -> SubwordBatch:
        """Sentences or texts, or pairs of them, as subwords.

        Args:
            texts: a sentence or text each, or two that are read as one; or a batch of sentences.

        Raises:
            ConfigError: without a tokenizer, or for a text that is longer than the model can read.
        """
        if self.tokenizer is None:
            raise ConfigError("this model was injected without a tokenizer: pass tokenizer=, or subwords")
        sentences = texts.sentences if isinstance(texts, SentenceBatch) else texts
        device = next(self.model.parameters()).device
        return collate_subwords(sentences, self.tokenizer, max_length=self.max_length).to(device)

    def attention_maps(
        self, texts: "Sequence[tuple[Sentence, ...]]", subwords: SubwordBatch | None = None
    ) -> "list[AttentionMap]":
        """The weights of every layer with priors, text by text; rows and columns are subwords.

        ``sdpa`` computes no weights, so the model runs ``eager`` for this call and logs the change.

        Args:
            texts: one sentence each, or pairs that are read as one text.
            subwords: the texts as subwords; tokenized here if ``None``.

        Raises:
            ConfigError: without a tokenizer.
            MissingStructure: if a prior wants a tree that a sentence lacks.
        """
        from structattn.backbones.subword_maps import subword_maps

        subwords = self.tokenize(texts) if subwords is None else subwords
        weights, allowed = self.subword_weights(subwords), self.attention_bias(subwords).allowed
        return subword_maps(subwords, weights, self.tokenizer, texts, priors=self.prior.head_names, allowed=allowed)

    def collate_words(self, subwords: SubwordBatch) -> SentenceBatch:
        """The words of each text as one sentence, which the prior reads.

        Args:
            subwords: texts as subwords, with their sentences.
        """
        from structattn.data import Vocabulary, collate, join_sentences

        return collate([join_sentences(parts) for parts in subwords.sentences], Vocabulary([])).to(subwords.device)

    def attention_bias(self, subwords: SubwordBatch) -> AttentionBias:
        """The prior's value for the words, spread over their subwords."""
        text = self.collate_words(subwords) if subwords.text is None else subwords.text
        positions = WordPositions(subwords.words, subwords.is_word)
        if self.trees == "prompt":
            from structattn.backbones.prompt_trees import bias_with_prompts

            value = bias_with_prompts(self.prior, text, subwords, positions)
        else:
            value = spread(self.prior(text), positions)
        # Reading the result would stall another device, and break a compiled graph.
        if value.allowed is not None and value.allowed.is_cpu and not torch.compiler.is_compiling():
            from structattn.backbones.injection_checks import check_keys

            check_keys(value.allowed, subwords, self)
        return value

    @property
    def implementation(self) -> str:
        """The attention implementation the model runs with: ``eager`` or ``sdpa``."""
        config: Any = self.model.config
        return str(config._attn_implementation)

    def subword_weights(self, subwords: SubwordBatch) -> dict[str, Float[Tensor, "batch head subword subword"]]:
        """The weights of every layer with priors, by the path of its attention module; computed ``eager``.

        Args:
            subwords: texts as subwords.

        Raises:
            StructAttnError: if the model returned none although it runs ``eager``.
        """
        from structattn.backbones.subword_maps import injected_weights

        return injected_weights(self, subwords)

    def remove(self) -> nn.Module:
        """Remove the priors, and return the model as it was before; this object then refuses to be called."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        return self.model

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the priors as an adapter folder; the model itself is saved by its own ``save_pretrained``.

        Raises:
            ConfigError: if priors were given as objects rather than by name.
        """
        from structattn.backbones.injection_folder import save_injection

        save_injection(self, folder)

    @contextlib.contextmanager
    def biased(self, bias: AttentionBias) -> Iterator[None]:
        """A context in which the heads have this bias, until another one is set."""
        outer = self.masks
        self.set_bias(bias)
        try:
            yield
        finally:
            self.masks = outer

    def set_bias(self, bias: AttentionBias) -> None:
        """Give the heads another bias."""
        from structattn.backbones.layer_masks import CausalMasks, LayerMasks

        self.masks = CausalMasks(bias) if self.is_causal else LayerMasks(bias)

    def _add_mask(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.masks is None:
            raise self._without_texts()
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        bound.arguments["attention_mask"] = self.masks.mask(module, bound.arguments)
        return bound.args, bound.kwargs

    def _without_texts(self) -> ConfigError:
        names = ", ".join(sorted(set(self.prior.head_names)))
        return ConfigError(
            f"the priors ({names}) in the heads of this {type(self.model).__name__} read sentences, which token ids "
            "lack: call injected([sentence, ...]), or injected.remove() for the model without priors; a Trainer takes "
            "model=injected and a collator that returns {'texts': [sentence, ...], 'labels': ...}"
        )


def _hooks_of(model: nn.Module) -> Iterator[Callable[..., Any]]:
    return (hook for _, module in attention_modules(model) for hook in module._forward_pre_hooks.values())
