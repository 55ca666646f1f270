"""Priors inside the heads of a stock Hugging Face model: a mask and a bias for each head, layer by layer.

MS-SAN's masks (Qi et al. 2020, arXiv 2012.14642) in a backbone that was trained without them. The bias reaches the
scores through the mask, the only term that every attention function of transformers adds to them: here a 4-D float
tensor with a matrix for each head, set by a hook on each attention module. A keyword such as ``position_bias=`` would
be dropped silently by the eager functions, and a registered function gets no mask unless a mask function is registered
with it. Whether the bias reaches the scores is therefore tested once, when the priors are injected.
"""

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.backbones.backbone import has_text_at_end, max_input_length, takes_token_types
from structattn.data import SentenceBatch, SubwordBatch, collate_subwords
from structattn.errors import ConfigError, StructAttnError
from structattn.functional.masked_attention import additive_mask
from structattn.layers.evaluation_mode import evaluating
from structattn.priors import AttentionBias, Prior

if TYPE_CHECKING:
    from structattn.data.model_config import Layout
    from structattn.layers.attention_map import AttentionMap
    from structattn.syntax import Sentence

KIND = "injection"

# The class of a model type's self-attention: its output is (states, weights) and it takes ``attention_mask``.
ATTENTION_CLASSES = {
    "bert": "BertSelfAttention",
    "roberta": "RobertaSelfAttention",
    "xlm-roberta": "XLMRobertaSelfAttention",
    "camembert": "CamembertSelfAttention",
    "electra": "ElectraSelfAttention",
    "distilbert": "DistilBertSelfAttention",
    "modernbert": "ModernBertAttention",
}
IMPLEMENTATIONS = ("eager", "sdpa")


class InjectedModel(nn.Module):
    """A model of transformers with priors in its heads; made by :func:`inject`.

    All subwords of a word have the word's mask and bias. Special tokens have neither: as queries and as keys they are
    always allowed, with a bias of 0.

    Args:
        model: the model; hooks on its attention modules stay until ``remove``.
        prior: the attention bias of its heads.
        layers: the layers with priors, from 0.
        tokenizer: the model's fast tokenizer, to read sentences.
        description: the priors by name, for saving; ``None`` for priors given as objects.

    Raises:
        ConfigError: if the model is a decoder, has priors already or is of a kind whose scores cannot be reached, or
            the bias did not reach them.

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
    ) -> None:
        super().__init__()
        if has_text_at_end(model):
            # Without padding, transformers relies on sdpa's own causal mask, which a given mask switches off.
            raise ConfigError(
                f"priors cannot be injected into {type(model).__name__} as a decoder: expected an encoder"
            )
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
        self._bias: AttentionBias | None = None
        self._biased_modules = [attention_modules(model)[layer] for layer in self.layers]
        self._hooks = [
            module.register_forward_pre_hook(self._add_mask, with_kwargs=True) for _, module in self._biased_modules
        ]
        try:
            self._test()
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
        segments = {"token_type_ids": subwords.segments} if self._takes_segments else {}
        # transformers reads from the mask whether there is padding; on the meta device there is nothing to read.
        mask = None if subwords.mask.is_meta else subwords.mask.long()
        bias = self.attention_bias(subwords)
        with self._biased(bias), self._biased_in_checkpoints(bias):
            return self.model(input_ids=subwords.ids, attention_mask=mask, **segments, **inputs)

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
        value = self.prior(self.collate_words(subwords) if subwords.text is None else subwords.text)
        allowed = None if value.allowed is None else _spread(value.allowed, subwords, True)
        bias = None if value.bias is None else _spread(value.bias, subwords, 0.0)
        # Reading the result would stall another device, and break a compiled graph.
        if allowed is not None and allowed.is_cpu and not torch.compiler.is_compiling():
            reachable = (allowed & subwords.mask[:, None, None, :]).any(-1) | ~subwords.mask[:, None, :]
            if not bool(reachable.all()):
                row = int((~reachable).nonzero()[0, 0])
                raise ValueError(
                    f"the prior {self.prior.name!r} leaves a subword of text {row} without a key, and its tokenizer "
                    "adds no special token that is always allowed; use priors that include the word itself"
                )
        return AttentionBias(allowed, bias)

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
        from structattn.backbones.subword_maps import computing_weights

        weights: dict[str, Tensor] = {}

        def record(name: str) -> Any:
            def hook(module: nn.Module, args: Any, output: Any) -> None:
                if not isinstance(output[1], Tensor):
                    raise StructAttnError(f"{name} returned no attention weights")
                weights[name] = output[1].detach()

            return hook

        with contextlib.ExitStack() as hooks, computing_weights(self.model), evaluating(self.model):
            for name, module in self._biased_modules:
                hooks.callback(module.register_forward_hook(record(name)).remove)
            self(subwords)
        return weights

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
        from structattn.data.model_folder import write_model

        if self.description is None:
            raise ConfigError("only priors given by name, such as 'forward/word', can be written to a folder")
        config: Any = self.model.config
        content = {
            "base_model_type": config.model_type,
            "num_heads": config.num_attention_heads,
            "layers": list(self.layers),
            **self.description,
        }
        write_model(folder, KIND, lambda _: content, self.prior.state_dict(), layout=layout())

    @contextlib.contextmanager
    def _biased(self, bias: AttentionBias) -> Iterator[None]:
        outer, self._bias = self._bias, bias
        try:
            yield
        finally:
            self._bias = outer

    @contextlib.contextmanager
    def _biased_in_checkpoints(self, bias: AttentionBias) -> Iterator[None]:
        """Give layers this pass's bias when activation checkpointing runs them again in the backward pass."""
        name = "_gradient_checkpointing_func"
        checkpoints = [(module, vars(module)[name]) for module in self.model.modules() if name in vars(module)]

        def remembering(checkpoint: Callable[..., Any]) -> Callable[..., Any]:
            def run(function: Callable[..., Any], *arguments: Any) -> Any:
                def biased(*again: Any) -> Any:
                    with self._biased(bias):
                        return function(*again)

                return checkpoint(biased, *arguments)

            return run

        for module, checkpoint in checkpoints:
            setattr(module, name, remembering(checkpoint))
        try:
            yield
        finally:
            for module, checkpoint in checkpoints:
                setattr(module, name, checkpoint)

    def _add_mask(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._bias is None:
            raise self._without_texts()
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        states, mask = bound.arguments["hidden_states"], bound.arguments.get("attention_mask")
        allowed, bias = self._bias.allowed, self._bias.bias
        if mask is not None and mask.dtype == torch.bool:
            allowed = mask if allowed is None else allowed & mask
            mask = None
        added = additive_mask(allowed, bias, states.dtype)
        if added is not None and mask is not None:
            # Each may be half the lowest number, and the model's own even the lowest: the sum must stay finite.
            added = (added + mask).clamp(min=torch.finfo(states.dtype).min)
        bound.arguments["attention_mask"] = mask if added is None else added
        return bound.args, bound.kwargs

    def _without_texts(self) -> ConfigError:
        names = ", ".join(sorted(set(self.prior.head_names)))
        return ConfigError(
            f"the priors ({names}) in the heads of this {type(self.model).__name__} read sentences, which token ids "
            "lack: call injected([sentence, ...]), or injected.remove() for the model without priors; a Trainer takes "
            "model=injected and a collator that returns {'texts': [sentence, ...], 'labels': ...}"
        )

    def _test(self) -> None:
        """Allow only the first of two subwords as a key: both queries must then give the same output."""
        # Two subwords, because they attend to each other within any sliding window.
        model: Any = self.model
        vocabulary = model.config.vocab_size
        device = next(model.parameters()).device
        if device.type == "meta":  # how transformers builds a model before it reads its parameters
            return
        ids = torch.arange(5, 7, device=device)[None] % vocabulary
        outputs: list[Tensor] = []
        only_first = torch.zeros(1, model.config.num_attention_heads, 2, 2, dtype=torch.bool, device=ids.device)
        only_first[..., 0] = True
        with contextlib.ExitStack() as hooks, self._biased(AttentionBias(only_first, None)), evaluating(model):
            for _, module in self._biased_modules:
                hooks.callback(module.register_forward_hook(lambda *call: outputs.append(call[2][0])).remove)
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
        for layer, output in zip(self.layers, outputs, strict=True):
            spread = (output - output[:, :1]).abs().max()
            if not spread <= 1e-4 * output.abs().max().clamp(min=1.0):
                raise ConfigError(
                    f"the bias did not reach the scores of layer {layer} of {type(model).__name__} "
                    f"({self.implementation}); this version of transformers is not supported"
                )


def _hooks_of(model: nn.Module) -> Iterator[Callable[..., Any]]:
    return (hook for _, module in attention_modules(model) for hook in module._forward_pre_hooks.values())


def attention_modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The self-attention modules of a model and their paths, from the first layer to the last."""
    config: Any = model.config
    name = ATTENTION_CLASSES[config.model_type]
    modules = [(path, module) for path, module in model.named_modules() if type(module).__name__ == name]
    if not modules:
        raise ConfigError(f"{type(model).__name__} has no {name}; this version of transformers is not supported")
    return modules


def layout() -> "Layout":
    """The names of the files of an injection's folder, and of the parameters in them."""
    from structattn.data.model_config import ADAPTER

    return replace(ADAPTER, prefix=f"{ADAPTER.prefix}prior.")


def _spread(value: Tensor, subwords: SubwordBatch, elsewhere: bool | float) -> Tensor:
    """A matrix over words as one over subwords; ``elsewhere`` where one of the two belongs to no word."""
    value = value.expand(subwords.ids.shape[0], -1, -1, -1)
    heads, length = value.shape[1], subwords.words.shape[1]
    # A prior that depends on nothing may be one number for all pairs. Rows and columns are gathered one after the
    # other: unlike with one index of both, the gradient of a learnt prior then adds up in a fixed order.
    height, width = (subwords.words.clamp(max=size - 1) for size in value.shape[2:])
    spread = value.gather(2, height[:, None, :, None].expand(-1, heads, -1, value.shape[3]))
    spread = spread.gather(3, width[:, None, None, :].expand(-1, heads, length, -1))
    both = (subwords.is_word[:, :, None] & subwords.is_word[:, None, :])[:, None]
    return torch.where(both, spread, elsewhere)
