"""A left-to-right LSTM, the encoder of translation with attention.

Hochreiter and Schmidhuber 1997; as in Luong, Pham and Manning (2015), section 3, and Kim et al. (2017), section 4.2.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn import layers
from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, resolve_width
from structattn.errors import ConfigError
from structattn.functional.masked_attention import masked_states


class LSTM(nn.Module):
    """The contextualizer: LSTM layers from left to right."""

    def __init__(self, dim: int, hidden: int, *, num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = layers.LSTM(dim, hidden, num_layers=num_layers, dropout=dropout)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states are zero."""
        # Padding comes after the words, so it does not affect their states.
        return Encoding(masked_states(self.layers(states), batch.mask), batch.mask)


class LastPooling(nn.Module):
    """The last real state, zero for a sentence without words."""

    weights_axes = "key feature"

    def forward(
        self, states: Float[Tensor, "batch key feature"], mask: Bool[Tensor, "batch key"], *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch key feature"] | None]:
        """Pool; all the weight is on the last state."""
        is_last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
        weights = is_last.unsqueeze(-1).to(states.dtype).expand_as(states)
        return (weights * states).sum(1), weights if need_weights else None


def lstm(embedder: nn.Module, *, dim: int | None = None, num_layers: int = 2, dropout: float = 0.3) -> SentenceEncoder:
    """An LSTM from left to right; the sentence vector is its last state (Luong et al. 2015; Kim et al. 2017).

    Args:
        embedder: gives a state for each word.
        dim: width of the states; the embedder's if ``None``.
        num_layers: number of layers.
        dropout: between the layers.

    Raises:
        ConfigError: for fewer than one layer.

    Example:
        >>> import structattn as sa
        >>> encoder = lstm(sa.layers.WordEmbedding(4, 6))
        >>> encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 6])
    """
    if num_layers < 1:
        raise ConfigError(f"num_layers expects at least 1, got {num_layers}")
    inputs, width = resolve_width(embedder), resolve_width(embedder, dim)
    contextualizer = LSTM(inputs, width, num_layers=num_layers, dropout=dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=LastPooling(), output_dim=width)
