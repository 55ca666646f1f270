"""The plain Transformer encoder, the baseline with word order from absolute positions only.

Vaswani et al. 2017, section 3; with the norm first as in Xiong et al. 2020, or last as in the original.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, compute_head_width, resolve_width
from structattn.errors import ConfigError
from structattn.functional.masked_attention import masked_states
from structattn.layers import AttentivePooling, FeedForward, MaxPooling, MeanPooling, MultiHeadAttention
from structattn.layers.positions import SinusoidalPositions


class Transformer(nn.Module):
    """The contextualizer of a Transformer encoder: positions, then layers, then a last step such as a norm.

    The word vectors are normalised before the positions are added, so that vectors from any source, learnt or
    pretrained, have the same scale as the sinusoids. (Vaswani et al. multiply by ``sqrt(dim)`` instead, which presumes
    vectors initialised at one particular scale.)

    Args:
        dim: width of the states.
        layers: modules ``(states, batch) -> states``.
        last: applied to the states after the layers.
        dropout: applied to the states before the layers.

    Example:
        >>> import structattn as sa, torch
        >>> batch = sa.collate([sa.Sentence(["a"])], sa.Vocabulary(["a"]))
        >>> Transformer(4, [], last=torch.nn.Identity())(torch.ones(1, 1, 4), batch).states
        tensor([[[0., 1., 0., 1.]]], grad_fn=...)
    """

    def __init__(self, dim: int, layers: Sequence[nn.Module], *, last: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.positions = SinusoidalPositions()
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(layers)
        self.last = last

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states are zero."""
        states = self.dropout(self.positions(self.norm(states)))
        for layer in self.layers:
            states = layer(states, batch)
        return Encoding(masked_states(self.last(states), batch.mask), batch.mask)


class TransformerLayer(nn.Module):
    """Attention, then a feed-forward network, each inside a residual connection.

    Args:
        attention: ``(states, batch) -> (update, weights)``, for example ``MultiHeadAttention`` with any prior.
        feed_forward: ``states -> update``.
        residuals: the two connections, each ``(states, sublayer) -> states``: ``NormFirst`` or ``NormLast``.

    Example:
        >>> from structattn.layers import FeedForward, MultiHeadAttention
        >>> layer = TransformerLayer(
        ...     MultiHeadAttention(300, 6), FeedForward(300, 1200), residuals=(NormFirst(300), NormFirst(300))
        ... )
        >>> sum(parameter.numel() for parameter in layer.parameters())
        1082700
    """

    def __init__(
        self, attention: nn.Module, feed_forward: nn.Module, *, residuals: tuple[nn.Module, nn.Module]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention, self.around_feed_forward = residuals

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Float[Tensor, "batch word dim"]:
        """Contextualise once more.

        Args:
            states: the words, or other nodes.
            batch: the sentences.
        """
        states = self.around_attention(states, lambda inner: self.attention(inner, batch)[0])
        transformed: Tensor = self.around_feed_forward(states, self.feed_forward)
        return transformed


class NormFirst(nn.Module):
    """``x + dropout(f(LayerNorm(x)))`` (Xiong et al. 2020): trains without warming up the learning rate.

    Args:
        dim: width of the states.
        dropout: on the update.

    Example:
        >>> import torch
        >>> NormFirst(2)(torch.tensor([1.0, 3.0]), lambda states: 0 * states)
        tensor([1., 3.], grad_fn=...)
    """

    def __init__(self, dim: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, states: Float[Tensor, "*batch dim"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*batch dim"]:
        """Apply the sublayer to the normalised states and add."""
        total: Tensor = states + self.dropout(sublayer(self.norm(states)))
        return total


class NormLast(nn.Module):
    """``LayerNorm(x + dropout(f(x)))`` (Vaswani et al. 2017)."""

    def __init__(self, dim: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, states: Float[Tensor, "*batch dim"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*batch dim"]:
        """Apply the sublayer to the states, add, normalise."""
        total: Tensor = self.norm(states + self.dropout(sublayer(states)))
        return total


def transformer(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_layers: int = 1,
    num_heads: int = 6,
    hidden: int | None = None,
    norm: Literal["first", "last"] = "first",
    pooler: Literal["mean", "max", "attentive"] = "mean",
    dropout: float = 0.2,
) -> SentenceEncoder:
    """A plain Transformer encoder with sinusoidal positions.

    The defaults make it as large as the default ``ms_san``: one layer, the same width and heads, 1.08 million
    parameters each, so that a comparison of the two isolates the priors.

    Args:
        embedder: gives a state for each word.
        dim: width of the states and of the sentence vector, a multiple of ``num_heads``; the embedder's if ``None``.
        num_layers: number of layers.
        num_heads: number of heads.
        hidden: width of the feed-forward networks' hidden layers; four times that of the states if ``None``.
        norm: whether the norm comes first or last in a residual connection.
        pooler: how states are pooled into a sentence vector.
        dropout: on word vectors, updates, attention weights and hidden layers.

    Raises:
        ConfigError: for an unknown norm or pooler, or a width that is not a multiple of the number of heads.

    Example:
        >>> import structattn as sa
        >>> encoder = transformer(sa.layers.WordEmbedding(4, 12), num_layers=2, norm="last", pooler="max")
        >>> encoder(sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 12])
    """
    width = resolve_width(embedder, dim)
    compute_head_width(width, num_heads)
    residual = {"first": NormFirst, "last": NormLast}.get(norm)
    if residual is None:
        raise ConfigError(f"norm expects one of first, last; got {norm!r}")
    layers = [
        TransformerLayer(
            MultiHeadAttention(width, num_heads, dropout=dropout),
            FeedForward(width, 4 * width if hidden is None else hidden, dropout=dropout),
            residuals=(residual(width, dropout=dropout), residual(width, dropout=dropout)),
        )
        for _ in range(num_layers)
    ]
    # Layers with the norm first leave their sum unnormalised.
    last = nn.LayerNorm(width) if norm == "first" else nn.Identity()
    return SentenceEncoder(
        embedder,
        Transformer(width, layers, last=last, dropout=dropout),
        pooler=_build_pooler(pooler, width, dropout),
        output_dim=width,
        input_dim=width,
    )


def _build_pooler(name: str, dim: int, dropout: float) -> nn.Module:
    poolers: dict[str, Callable[[], nn.Module]] = {
        "mean": MeanPooling,
        "max": MaxPooling,
        "attentive": lambda: AttentivePooling(dim, dropout=dropout),
    }
    if name not in poolers:
        raise ConfigError(f"pooler expects one of {', '.join(poolers)}; got {name!r}")
    return poolers[name]()
