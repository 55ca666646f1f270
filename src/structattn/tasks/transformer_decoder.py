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
from structattn.tasks.decoding import State

Look = Callable[[nn.Module, Encoding, SentenceBatch], CrossSource]


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, a feed-forward network, each in a residual connection.

    Args:
        own: ``(states, before) -> (update, remembered)``.
        cross: ``(states, source) -> (update, weights)``.
        feed_forward: ``states -> update``.
        residuals: the three connections.
    """

    def __init__(
        self,
        own: CausalAttention,
        cross: nn.Module,
        *,
        feed_forward: nn.Module,
        residuals: tuple[nn.Module, nn.Module, nn.Module],
    ) -> None:
        super().__init__()
        self.own = own
        self.cross = cross
        self.feed_forward = feed_forward
        self.around_own, self.around_cross, self.around_feed_forward = residuals

    def forward(
        self,
        states: Float[Tensor, "row step dim"],
        before: Float[Tensor, "row 2 head before channel"],
        source: CrossSource,
    ) -> tuple[Float[Tensor, "row step dim"], Float[Tensor, "row 2 head total channel"]]:
        """The states one layer up, and the keys and values of all steps so far."""
        remembered = []

        def attend(inner: Tensor) -> Tensor:
            update, kept = self.own(inner, before)
            remembered.append(kept)
            written: Tensor = update
            return written

        states = self.around_own(states, attend)
        states = self.around_cross(states, lambda inner: self.cross(inner, source)[0])
        return self.around_feed_forward(states, self.feed_forward), remembered[0]


class TransformerDecoder(nn.Module):
    """Token embeddings with positions, layers, and logits from the same table (tied embeddings).

    Args:
        vocab_size: number of tokens.
        dim: width of the tokens and of the states.
        layers: the layers between the embeddings and the logits.
        last: applied to the states after the layers.
        look: ``(cross-attention, encoding, source) -> CrossSource``, the source as the attention reads it.
        dropout: applied to the tokens.

    Example:
        >>> import structattn as sa
        >>> encoder = sa.encoders.build("transformer", vocab_size=4, dim=8, num_heads=2)
        >>> batch = sa.collate([sa.Sentence(["dogs", "bark"])], sa.Vocabulary(["bark", "dogs"]))
        >>> decoder = transformer_decoder(encoder, 7, num_layers=1, num_heads=2)
        >>> decoder(encoder(batch), batch, torch.tensor([[2, 4, 5]])).shape
        torch.Size([1, 3, 7])
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
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        with torch.no_grad():
            self.embedding.weight[0] = 0.0
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.layers = nn.ModuleList(layers)
        self.last = last
        self.look = look
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, encoding: Encoding, source: SentenceBatch, tokens: Int[Tensor, "batch step"]
    ) -> Float[Tensor, "batch step vocabulary"]:
        """Logits of the next token at each step."""
        scores, _ = self._read(tokens, self.start(encoding, source))
        return scores

    def start(self, encoding: Encoding, source: SentenceBatch) -> State:
        """The state before the first token: the source's keys and values for each layer, and no steps."""
        state: dict[str, Tensor] = {}
        for number, layer in enumerate(self._layers()):
            seen = self.look(layer.cross, encoding, source)
            state |= {f"keys{number}": seen.keys, f"values{number}": seen.values, "mask": seen.mask}
            state[f"own{number}"] = layer.own.empty_cache(len(encoding.states))
        return state

    def step(self, last: Int[Tensor, " row"], state: State) -> tuple[Float[Tensor, "row vocabulary"], State]:
        """Logits of the next token, and the next state."""
        scores, after = self._read(last.unsqueeze(1), state)
        return scores.squeeze(1), after

    def _read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        dim, past = self.embedding.embedding_dim, state["own0"].shape[3]
        place = torch.arange(past, past + tokens.shape[1], device=tokens.device)
        positions = sinusoids(place, dim, dtype=self.bias.dtype)
        states = self.dropout(math.sqrt(dim) * self.embedding(tokens) + positions)
        after = dict(state)
        for number, layer in enumerate(self._layers()):
            seen = CrossSource(state[f"keys{number}"], state[f"values{number}"], state["mask"])
            states, after[f"own{number}"] = layer(states, state[f"own{number}"], seen)
        return F.linear(self.last(states), self.embedding.weight, self.bias), after

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]


def transformer_decoder(
    encoder: SentenceEncoder,
    vocab_size: int,
    *,
    num_layers: int = 2,
    num_heads: int = 4,
    hidden: int | None = None,
    norm: Literal["first", "last"] = "last",
    dropout: float = 0.1,
) -> TransformerDecoder:
    """A Transformer decoder, as wide as the states of the encoder.

    Args:
        encoder: the encoder it attends to.
        vocab_size: number of tokens.
        num_layers: number of layers.
        num_heads: number of heads.
        hidden: width of the feed-forward networks' hidden layers; ``2 * dim`` if ``None``.
        norm: whether the norm comes first or last in a residual connection.
        dropout: on tokens, updates, attention weights and hidden layers.

    Raises:
        ConfigError: for an unknown norm, a size below 1, or heads that do not divide the width.
    """

    def cross() -> nn.Module:
        return CrossAttention(encoder.state_dim, num_heads, dropout=dropout)

    return _decoder(
        encoder,
        vocab_size,
        cross,
        _look_at_states,
        num_layers,
        num_heads,
        hidden=hidden,
        norm=norm,
        dropout=dropout,
    )


def tree_transformer_decoder(
    encoder: SentenceEncoder,
    vocab_size: int,
    *,
    num_layers: int = 2,
    num_heads: int = 4,
    hidden: int | None = None,
    accumulation: Accumulation = Accumulation(),
    norm: Literal["first", "last"] = "last",
    dropout: float = 0.1,
) -> TransformerDecoder:
    """A Transformer decoder with attention to words and phrases, the latter by hierarchical accumulation.

    The encoder must have states of phrases. Options are those of :func:`transformer_decoder`, and ``accumulation`` as
    in :func:`structattn.encoders.tree_transformer`.

    Raises:
        ConfigError: as for :func:`transformer_decoder`.

    Example:
        >>> import structattn as sa
        >>> encoder = sa.encoders.build("tree_transformer", vocab_size=4, dim=512, num_layers=1)
        >>> decoder = tree_transformer_decoder(encoder, 7, num_layers=1, hidden=1024)
        >>> sum(parameter.numel() for parameter in decoder.layers.parameters()) - 152 * 64
        3156484
    """

    def cross() -> nn.Module:
        head_dim = encoder.state_dim // num_heads
        accumulate = HierarchicalAccumulation(head_dim, num_heads, **asdict(accumulation))
        return TreeCrossAttention(encoder.state_dim, num_heads, accumulation=accumulate, dropout=dropout)

    return _decoder(
        encoder,
        vocab_size,
        cross,
        _look_at_trees,
        num_layers,
        num_heads,
        hidden=hidden,
        norm=norm,
        dropout=dropout,
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
