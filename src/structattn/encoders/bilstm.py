"""Bidirectional LSTMs, the recurrent baselines: pooled by maximum or mean, or by source2token attention.

Hochreiter and Schmidhuber 1997; a baseline in Shen et al. 2018 (DiSAN), table on SNLI, "Bi-LSTM + s2t"; pooling by
maximum as in Conneau et al. 2017 (InferSent).
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.disan import resolve_activation
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, resolve_width
from structattn.errors import ConfigError
from structattn.layers import MaxPooling, MeanPooling, Source2Token
from structattn.layers.recurrent import bidirectional_lstm, read_both_ways


class BiLSTM(nn.Module):
    """The contextualizer: a forward and a backward LSTM, their states concatenated.

    Layers of ``bidirectional_lstm``; the equations are those of ``structattn.layers.LSTM``.

    Args:
        dim: width of the words.
        hidden: width of each direction.
        num_layers: number of layers.
        dropout: applied to the input of each layer.

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
        """Contextualise the words of a batch; padded states are zero."""
        return Encoding(self.read(states, batch.mask), batch.mask)

    def read(
        self, states: Float[Tensor, "batch word dim"], mask: Bool[Tensor, "batch word"]
    ) -> Float[Tensor, "batch word two_hidden"]:
        """The same states from a mask that is ``True`` at words."""
        for layer in self.layers:
            states = read_both_ways(layer, self.dropout(states), mask)
        return states


def bilstm(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_layers: int = 1,
    pooler: str = "max",
    dropout: float = 0.2,
) -> SentenceEncoder:
    """A bidirectional LSTM pooled by maximum or mean.

    Args:
        embedder: gives a state for each word, which the LSTM reads as it is.
        dim: width of each direction; that of the embedder's states if ``None``. The sentence vector is twice as wide.
        num_layers: number of layers.
        pooler: ``"max"`` or ``"mean"`` of the states.
        dropout: on the input of each layer.

    Raises:
        ConfigError: for an unknown pooler, or no layer.

    Example:
        >>> import structattn as sa
        >>> encoder = bilstm(sa.layers.WordEmbedding(4, 6), pooler="mean")
        >>> encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 12])
    """
    if pooler not in ("max", "mean"):
        raise ConfigError(f"pooler expects one of max, mean; got {pooler!r}")
    width = resolve_width(embedder, dim)
    pool = MaxPooling() if pooler == "max" else MeanPooling()
    contextualizer = _build_contextualizer(embedder, width, num_layers, dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=pool, output_dim=2 * width)


def bilstm_s2t(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_layers: int = 1,
    activation: str = "elu",
    dropout: float = 0.25,
) -> SentenceEncoder:
    """A bidirectional LSTM pooled by source2token attention (Shen et al. 2018, "Bi-LSTM + s2t").

    See :func:`bilstm` for the options that are not listed.

    Args:
        activation: of the pooler: ``"elu"``, or ``"relu"`` as in the authors' code.
        dropout: on the inputs of each layer and of the pooler's linear maps.

    Raises:
        ConfigError: for an unknown activation, or no layer.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> bilstm_s2t(WordEmbedding(4, 6)).output_dim
        12
    """
    width = resolve_width(embedder, dim)
    contextualizer = _build_contextualizer(embedder, width, num_layers, dropout)
    pooler = Source2Token(2 * width, activation=resolve_activation(activation), dropout=dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=pooler, output_dim=2 * width)


def _build_contextualizer(embedder: nn.Module, hidden: int, num_layers: int, dropout: float) -> BiLSTM:
    if num_layers < 1:
        raise ConfigError(f"num_layers expects at least 1, got {num_layers}")
    return BiLSTM(resolve_width(embedder), hidden, num_layers=num_layers, dropout=dropout)
