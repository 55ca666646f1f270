"""The state of a whole text, such as ``[CLS]``: encoders whose sentence vector it is, and modules that keep it.

It comes from embedders with ``nodes``, which say what their states are, and ``giving``, which gives those of other
nodes; a pretrained backbone is one.
"""

from typing import Literal, Protocol, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, NoContext, SentenceEncoder
from structattn.layers import MeanPooling

Nodes = Literal["words", "text", "words and text"]


class TextEmbedder(Protocol):
    """An embedder that has the state of a whole text besides those of its words."""

    #: which states it gives.
    nodes: Nodes
    output_dim: int
    #: an addition to it, such as a layer on top of a backbone.
    reader: nn.Module | None

    def giving(self, nodes: Nodes, reader: nn.Module | None = None) -> nn.Module:
        """The same embedder, giving the states of other nodes, or the output of a reader."""


class WordsOnly(nn.Module):
    """Contextualizer of the words that leaves the text's node, the last one, unchanged."""

    def __init__(self, contextualizer: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.contextualizer = contextualizer

    def forward(self, states: Float[Tensor, "batch node dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise all nodes but the last."""
        words: Encoding = self.contextualizer(self.dropout(states[:, :-1]), batch)
        text = torch.ones_like(words.mask[:, :1])
        return Encoding(torch.cat([words.states, states[:, -1:]], dim=1), torch.cat([words.mask, text], dim=1))


class BesideText(nn.Module):
    """Pooler: the pooled words concatenated with the text's node: ``r = [r_att ; h_CLS]``."""

    def __init__(self, pooler: nn.Module) -> None:
        super().__init__()
        self.pooler = pooler

    def forward(
        self, states: Float[Tensor, "batch node dim"], mask: Bool[Tensor, "batch node"]
    ) -> tuple[Float[Tensor, "batch pooled"], None]:
        """Pool all nodes but the last; only the inner pooler has weights."""
        vector, _ = self.pooler(states[:, :-1], mask[:, :-1])
        return torch.cat([vector, states[:, -1]], dim=-1), None


def build_cls_encoder(
    embedder: TextEmbedder, reader: nn.Module | None = None, *, dropout: float = 0.0
) -> SentenceEncoder:
    """An encoder whose sentence vector is the state of one token, from the backbone or a reader on it.

    It is the first token or, in a decoder, where the first sees no other token, the last one; see ``text_state``.
    """
    return _build_encoder("text", embedder, reader, dropout)


def with_word_states(encoder: SentenceEncoder) -> SentenceEncoder:
    """The encoder itself or, if it only has the state of a text, one with its parameters and states of words.

    Its sentence vector is the mean of the words. Tagging models and decoders need states of words.
    """
    if getattr(encoder.embedder, "nodes", "words") != "text":
        return encoder
    embedder = cast(TextEmbedder, encoder.embedder)
    of_words = _build_encoder("words", embedder, embedder.reader, encoder.dropout.p)
    of_words.description = encoder.description
    return of_words.train(encoder.training)


def _build_encoder(nodes: Nodes, embedder: TextEmbedder, reader: nn.Module | None, dropout: float) -> SentenceEncoder:
    """An encoder with the nodes' states from the backbone or a reader on it; the sentence vector is their mean."""
    return SentenceEncoder(
        embedder.giving(nodes, reader),
        NoContext("text" if nodes == "text" else "words"),
        pooler=MeanPooling(),
        output_dim=embedder.output_dim,
        dropout=dropout,
    )
