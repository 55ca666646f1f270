"""Bidirectional LSTMs, the recurrent baselines: pooled by maximum or mean, or by source2token attention.

Hochreiter and Schmidhuber 1997; as compared with in Shen et al. 2018 (DiSAN), table on SNLI, "Bi-LSTM + s2t"; pooling
by maximum as in Conneau et al. 2017 (InferSent).
"""

from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.disan import activation_of
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder
from structattn.layers import (
    MaxPooling,
    MeanPooling,
    Source2Token,
    WordEmbedding,
    bidirectional_lstm,
    read_both_ways,
)
from structattn.syntax.errors import ConfigError


class BiLSTM(nn.Module):
    """The contextualizer: a forward and a backward LSTM, their states concatenated.

    Layers of ``bidirectional_lstm``, where the equations are.

    Args:
        dim: width of the words.
        hidden: width of each direction.
        num_layers: number of layers.
        dropout: applied to what enters each layer.

    Example:
        >>> import structattn as sa, torch
        >>> batch = sa.collate([sa.Sentence(["a"])], sa.Vocabulary(["a"]))
        >>> bilstm = BiLSTM(300, 300)
        >>> bilstm(torch.ones(1, 1, 300), batch).states.shape, sum(p.numel() for p in bilstm.parameters())
        (torch.Size([1, 1, 600]), 1442400)
    """

    def __init__(self, dim: int, hidden: int, *, num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        widths = (dim, *[2 * hidden] * (num_layers - 1))
        self.layers = nn.ModuleList(bidirectional_lstm(width, hidden) for width in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states come out zero."""
        for layer in self.layers:
            states = read_both_ways(layer, self.dropout(states), batch.mask)
        return Encoding(states, batch.mask)


def bilstm(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    num_layers: int = 1,
    pooler: str = "max",
    dropout: float = 0.2,
) -> SentenceEncoder:
    """A bidirectional LSTM pooled by maximum or mean.

    Args:
        vocab_size: number of word ids.
        dim: width of each direction. The sentence vector is twice as wide.
        embedding_dim: width of the word vectors, if it differs; the LSTM takes them as they are.
        num_frozen: number of words whose vectors are not trained.
        num_layers: number of layers.
        pooler: ``"max"`` or ``"mean"`` of the states.
        dropout: on what enters each layer.

    Raises:
        ConfigError: for an unknown pooler, or no layer.

    Example:
        >>> import structattn as sa
        >>> encoder = bilstm(4, dim=6, pooler="mean")
        >>> encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 12])
    """
    if pooler not in ("max", "mean"):
        raise ConfigError(f"pooler expects one of max, mean; got {pooler!r}")
    embedding, contextualizer = _parts(vocab_size, dim, embedding_dim, num_frozen, num_layers, dropout)
    pool = MaxPooling() if pooler == "max" else MeanPooling()
    return SentenceEncoder(embedding, contextualizer, pooler=pool, output_dim=2 * dim)


def bilstm_s2t(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    num_layers: int = 1,
    activation: str = "elu",
    dropout: float = 0.25,
) -> SentenceEncoder:
    """A bidirectional LSTM pooled by source2token attention (Shen et al. 2018, "Bi-LSTM + s2t").

    Args:
        vocab_size: number of word ids.
        dim: width of each direction. The sentence vector is twice as wide.
        embedding_dim: as in :func:`bilstm`.
        num_frozen: as in :func:`bilstm`.
        num_layers: as in :func:`bilstm`.
        activation: of the pooler: ``"elu"``, or ``"relu"`` as in the authors' code.
        dropout: on what enters each layer and the pooler's linear maps.

    Raises:
        ConfigError: for an unknown activation, or no layer.

    Example:
        >>> bilstm_s2t(4, dim=6).output_dim
        12
    """
    embedding, contextualizer = _parts(vocab_size, dim, embedding_dim, num_frozen, num_layers, dropout)
    pooler = Source2Token(2 * dim, activation=activation_of(activation), dropout=dropout)
    return SentenceEncoder(embedding, contextualizer, pooler=pooler, output_dim=2 * dim)


def _parts(
    vocab_size: int, dim: int, embedding_dim: int | None, num_frozen: int, num_layers: int, dropout: float
) -> tuple[WordEmbedding, BiLSTM]:
    if num_layers < 1:
        raise ConfigError(f"num_layers expects at least 1, got {num_layers}")
    width = dim if embedding_dim is None else embedding_dim
    embedding = WordEmbedding(vocab_size, width, num_frozen=num_frozen)
    return embedding, BiLSTM(width, dim, num_layers=num_layers, dropout=dropout)
