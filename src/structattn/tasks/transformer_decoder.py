"""Transformer decoders with attention to the words, or to the words and phrases of a tree, of the source.

Vaswani et al. 2017, section 3; Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation", section
4.3. Keys and values of the source, accumulated ones included, are computed once per sentence; those of the target are
cached.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.data import SentenceBatch
from structattn.encoders import Accumulation, NormFirst, SentenceEncoder
from structattn.encoders.sentence_encoder import Encoding
from structattn.encoders.transformer import NormLast
from structattn.errors import ConfigError
from structattn.layers import CausalAttention, CrossAttention, FeedForward, HierarchicalAccumulation, TreeCrossAttention
from structattn.layers.decoder_attention import CrossSource
from structattn.layers.positions import sinusoids
from structattn.tasks.decoding import State, TokenDecoder

Look = Callable[[nn.Module, Encoding, SentenceBatch], CrossSource]


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, a feed-forward network, each in a residual connection."""

    def __init__(
        self,
        causal: CausalAttention,
        cross: nn.Module,
        *,
        feed_forward: nn.Module,
        residuals: tuple[nn.Module, nn.Module, nn.Module],
    ) -> None:
        super().__init__()
        self.causal = causal
        self.cross = cross
        self.feed_forward = feed_forward
        self.around_causal, self.around_cross, self.around_feed_forward = residuals

    def forward(
        self,
        states: Float[Tensor, "row step dim"],
        past: Float[Tensor, "row 2 head past channel"],
        source: CrossSource,
    ) -> tuple[Float[Tensor, "row step dim"], Float[Tensor, "row 2 head total channel"]]:
        """The states one layer up, and the keys and values of all steps so far."""
        remembered = []

        def attend(inner: Tensor) -> Tensor:
            update, cache = self.causal(inner, past)
            remembered.append(cache)
            written: Tensor = update
            return written

        states = self.around_causal(states, attend)
        states = self.around_cross(states, lambda inner: self.cross(inner, source)[0])
        return self.around_feed_forward(states, self.feed_forward), remembered[0]


class TransformerDecoder(TokenDecoder):
    """Token embeddings with positions, layers, and logits from the same table (tied embeddings).

    ``look(cross-attention, encoding, source)`` is the source as the attention reads it.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        layers: Sequence[DecoderLayer],
        last: nn.Module,
        look: Look,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(vocab_size, dim, dropout=dropout)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.layers = nn.ModuleList(layers)
        self.last = last
        self.look = look

    def start(self, encoding: Encoding, source: SentenceBatch) -> State:
        """The state before the first token: the source's keys and values for each layer, and no steps."""
        state: dict[str, Tensor] = {}
        for number, layer in enumerate(self._layers()):
            seen = self.look(layer.cross, encoding, source)
            state |= {f"keys{number}": seen.keys, f"values{number}": seen.values, "mask": seen.mask}
            state[f"causal{number}"] = layer.causal.empty_cache(len(encoding.states))
        return state

    def read(self, tokens: Int[Tensor, "row step"], state: State) -> tuple[Float[Tensor, "row step vocabulary"], State]:
        """See ``TokenDecoder.read``."""
        dim, num_read = self.embedding.embedding_dim, state["causal0"].shape[3]
        steps = torch.arange(num_read, num_read + tokens.shape[1], device=tokens.device)
        positions = sinusoids(steps, dim, dtype=self.bias.dtype)
        states = self.dropout(math.sqrt(dim) * self.embedding(tokens) + positions)
        after = dict(state)
        for number, layer in enumerate(self._layers()):
            seen = CrossSource(state[f"keys{number}"], state[f"values{number}"], state["mask"])
            states, after[f"causal{number}"] = layer(states, state[f"causal{number}"], seen)
        return F.linear(self.last(states), self.embedding.weight, self.bias), after

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]


def transformer_decoder(
    encoder: SentenceEncoder,
    vocab_size: int,
    *,
    num_layers: int = 2,
    num_heads: int = 4,
    hidden: int | None = None,  # of the feed-forward networks; 2 * dim if None
    norm: Literal["first", "last"] = "last",  # in a residual connection
    dropout: float = 0.1,  # on tokens, updates, attention weights and hidden layers
) -> TransformerDecoder:
    """A Transformer decoder, as wide as the states of the encoder."""

    def cross() -> nn.Module:
        return CrossAttention(encoder.state_dim, num_heads, dropout=dropout)

    return _decoder(
        encoder, vocab_size, cross, _look_at_states, num_layers, num_heads, hidden=hidden, norm=norm, dropout=dropout
    )


def tree_transformer_decoder(
    encoder: SentenceEncoder,
    vocab_size: int,
    *,
    num_layers: int = 2,
    num_heads: int = 4,
    hidden: int | None = None,  # of the feed-forward networks; 2 * dim if None
    accumulation: Accumulation = Accumulation(),
    norm: Literal["first", "last"] = "last",  # in a residual connection
    dropout: float = 0.1,  # on tokens, updates, attention weights and hidden layers
) -> TransformerDecoder:
    """A Transformer decoder with attention to words and phrases, the latter by hierarchical accumulation.

    The encoder must have states of phrases; ``accumulation`` is as in :func:`structattn.encoders.tree_transformer`.
    """

    def cross() -> nn.Module:
        head_dim = encoder.state_dim // num_heads
        accumulate = HierarchicalAccumulation(head_dim, num_heads, **asdict(accumulation))
        return TreeCrossAttention(encoder.state_dim, num_heads, accumulation=accumulate, dropout=dropout)

    return _decoder(
        encoder, vocab_size, cross, _look_at_trees, num_layers, num_heads, hidden=hidden, norm=norm, dropout=dropout
    )


def _decoder(
    encoder: SentenceEncoder,
    vocab_size: int,
    cross: Callable[[], nn.Module],
    look: Look,
    num_layers: int,
    num_heads: int,
    *,
    hidden: int | None,
    norm: str,
    dropout: float,
) -> TransformerDecoder:
    dim = encoder.state_dim
    if num_layers < 1 or num_heads < 1 or dim % num_heads:
        raise ConfigError(
            f"expected at least one layer, and heads that divide the {dim} features of the encoder's states, "
            f"got {num_layers} layers and {num_heads} heads"
        )
    residual = {"first": NormFirst, "last": NormLast}.get(norm)
    if residual is None:
        raise ConfigError(f"norm expects one of first, last; got {norm!r}")
    layers = [
        DecoderLayer(
            CausalAttention(dim, num_heads, dropout=dropout),
            cross(),
            feed_forward=FeedForward(dim, 2 * dim if hidden is None else hidden, dropout=dropout),
            residuals=(residual(dim, dropout=dropout), residual(dim, dropout=dropout), residual(dim, dropout=dropout)),
        )
        for _ in range(num_layers)
    ]
    last = nn.LayerNorm(dim) if norm == "first" else nn.Identity()
    return TransformerDecoder(vocab_size, dim, layers=layers, last=last, look=look, dropout=dropout)


def _look_at_states(cross: nn.Module, encoding: Encoding, source: SentenceBatch) -> CrossSource:
    return cast(CrossAttention, cross).source(encoding.states, encoding.mask)


def _look_at_trees(cross: nn.Module, encoding: Encoding, source: SentenceBatch) -> CrossSource:
    trees = source.require("constituency", wanted_by="the tree_transformer decoder")
    if encoding.states.shape[:2] != trees.mask.shape:
        raise ConfigError(
            f"the tree_transformer decoder needs an encoder with a state for every word and phrase, such as "
            f"tree_transformer or tree_lstm; expected states of {tuple(trees.mask.shape)} nodes, "
            f"got {tuple(encoding.states.shape[:2])}"
        )
    return cast(TreeCrossAttention, cross).source(encoding.states, trees)
