"""MS-SAN: multi-head self-attention whose heads have different directional masks and distance biases.

Qi et al. 2020, "Multiple Structural Priors Guided Self Attention Network for Language Understanding" (arXiv
2012.14642): one encoder layer with a fusion gate in place of the residual sum, attentive and max pooling. Also here:
its variant with one encoder per direction (``ms_san_sep``) and its competitors with relative positions
(``relative_shaw``, ``relative_xl``; Table 4), which share everything but the attention.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.head_layout import PAPER_HEADS, heads_prior
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder
from structattn.layers import (
    AttentivePooling,
    Concat,
    FeedForward,
    MaxPooling,
    MultiHeadAttention,
    ProjectedFusionGate,
    RelativePosition,
    ShawPosition,
    WordEmbedding,
    XLPosition,
)
from structattn.priors import Prior
from structattn.syntax.errors import ConfigError


class MSSAN(nn.Module):
    r"""The contextualizer of MS-SAN: attention, fusion gate, feed-forward network.

    ``O = attention(x)``; ``g = gate(x, O)``; ``y = LayerNorm(g + FFN(g))`` (arXiv 2012.14642, sections on the fusion
    gate and the feed-forward network). The gate takes the place of a residual sum.

    Args:
        attention: ``(states, batch) -> (update, weights)``, a :class:`MultiHeadAttention` with the paper's prior.
        dim: width of the states.
        hidden: width of the feed-forward network's hidden layer; ``dim`` if ``None``, as in the paper.
        dropout: applied to the hidden layer.

    Example:
        >>> from structattn.layers import MultiHeadAttention
        >>> sum(parameter.numel() for parameter in MSSAN(MultiHeadAttention(300, 6), 300).parameters())
        901500
    """

    def __init__(self, attention: nn.Module, dim: int, *, hidden: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = attention
        self.gate = ProjectedFusionGate(dim)
        self.feed_forward = FeedForward(dim, dim if hidden is None else hidden, dropout=dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states come out zero."""
        update, _ = self.attention(states, batch)
        gated, _ = self.gate(states, update)
        contextual = self.norm(gated + self.feed_forward(gated))
        return Encoding(contextual.masked_fill(~batch.mask.unsqueeze(-1), 0.0), batch.mask)


class SideBySide(nn.Module):
    """Several contextualizers over the same words, their states concatenated.

    Args:
        contextualizers: modules ``(states, batch) -> Encoding`` over the same nodes.

    Example:
        >>> import structattn as sa
        >>> from structattn.layers import MultiHeadAttention
        >>> batch = sa.collate([sa.Sentence(["a"])], sa.Vocabulary(["a"]))
        >>> both = SideBySide([MSSAN(MultiHeadAttention(4, 2), 4), MSSAN(MultiHeadAttention(4, 2), 4)])
        >>> both(torch.ones(1, 1, 4), batch).states.shape
        torch.Size([1, 1, 8])
    """

    def __init__(self, contextualizers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.contextualizers = nn.ModuleList(contextualizers)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Run each, then concatenate."""
        encodings: list[Encoding] = [contextualizer(states, batch) for contextualizer in self.contextualizers]
        return Encoding(torch.cat([encoding.states for encoding in encodings], dim=-1), encodings[0].mask)


def ms_san(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    heads: str | Sequence[str | Sequence[str]] = PAPER_HEADS,
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    hidden: int | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN, or any row of its ablation table.

    Args:
        vocab_size: number of word ids.
        dim: width of the states; a multiple of the number of heads. The sentence vector is twice as wide.
        embedding_dim: width of the word vectors, if it differs.
        num_frozen: number of words whose vectors are not trained.
        heads: the priors of the heads: a row of ``ABLATIONS`` such as ``"san"``, or one entry per head such as
            ``"forward/word"``, ``"forward/dependency"``, ``"backward"``, ``"constituency"``, ``"none"``.
        alpha: weight of the distances; ``"alibi"`` gives every head its own.
        learnable_alpha: whether the weights are learnt, one per head.
        missing_trees: what a head with a distance in a tree does for a sentence without one: ``"error"``, ``"none"``
            (a plain head) or ``"word"`` (the word distance).
        hidden: width of the feed-forward network's hidden layer; ``dim`` if ``None``.
        dropout: on word vectors, attention weights and the feed-forward networks' hidden layers.

    Raises:
        ConfigError: for heads or an ``alpha`` it does not know, or a ``dim`` that the heads do not divide.

    Example:
        >>> import structattn as sa
        >>> sentence = sa.Sentence(["dogs", "bark"], dependency=sa.DependencyTree([2, 0]))
        >>> encoder = ms_san(4, dim=12)
        >>> encoder(sa.collate([sentence], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 24])
        >>> encoder.contextualizer.attention.head_names[:3]
        ('forward/word', 'forward/dependency', 'forward')
    """
    prior = heads_prior(heads, alpha=alpha, learnable_alpha=learnable_alpha, missing_trees=missing_trees)
    attention = _attention(dim, len(prior.names), prior=prior, dropout=dropout)
    embedding = WordEmbedding(vocab_size, dim, embedding_dim=embedding_dim, num_frozen=num_frozen, dropout=dropout)
    return _pooled(embedding, MSSAN(attention, dim, hidden=hidden, dropout=dropout), dim, dropout=dropout)


def ms_san_sep(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    distances: Sequence[str] = ("word", "dependency", "none", "word", "dependency", "none"),
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    hidden: int | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN with directions separated: a forward and a backward encoder, whose states are concatenated.

    arXiv 2012.14642, the row "MS-SAN_sep": the design of DiSAN with MS-SAN's parts, twice as wide and slower.

    Args:
        vocab_size: number of word ids.
        dim: width of the states of each direction. The sentence vector is four times as wide.
        embedding_dim: width of the word vectors, if it differs.
        num_frozen: number of words whose vectors are not trained.
        distances: the distance of each head of either direction; the paper does not print them.
        alpha: as in :func:`ms_san`.
        learnable_alpha: as in :func:`ms_san`.
        missing_trees: as in :func:`ms_san`.
        hidden: width of the feed-forward networks' hidden layers; ``dim`` if ``None``.
        dropout: as in :func:`ms_san`.

    Raises:
        ConfigError: as :func:`ms_san`.

    Example:
        >>> ms_san_sep(4, dim=12).output_dim
        48
    """
    directions = []
    for direction in ("forward", "backward"):
        heads = [(direction, distance) for distance in distances]
        prior = heads_prior(heads, alpha=alpha, learnable_alpha=learnable_alpha, missing_trees=missing_trees)
        attention = _attention(dim, len(heads), prior=prior, dropout=dropout)
        directions.append(MSSAN(attention, dim, hidden=hidden, dropout=dropout))
    embedding = WordEmbedding(vocab_size, dim, embedding_dim=embedding_dim, num_frozen=num_frozen, dropout=dropout)
    return _pooled(embedding, SideBySide(directions), 2 * dim, dropout=dropout)


def relative_shaw(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    num_heads: int = 6,
    direction: bool = False,
    clip: int = 16,
    hidden: int | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN's frame with the relative positions of Shaw et al. 2018 in place of distances (Table 4).

    Args:
        vocab_size: number of word ids.
        dim: width of the states; a multiple of the number of heads.
        embedding_dim: as in :func:`ms_san`.
        num_frozen: as in :func:`ms_san`.
        num_heads: number of heads.
        direction: whether the first half of the heads are forward and the second half backward.
        clip: offsets are clipped to this.
        hidden: width of the feed-forward network's hidden layer; ``dim`` if ``None``.
        dropout: as in :func:`ms_san`.

    Raises:
        ConfigError: for a ``dim`` that the heads do not divide, or directions for an odd number of heads.

    Example:
        >>> relative_shaw(4, dim=12, direction=True).contextualizer.attention.head_names[2:4]
        ('forward', 'backward')
    """
    position = ShawPosition(_head_dim(dim, num_heads), clip)
    attention = _attention(dim, num_heads, prior=_directions(num_heads, direction), position=position, dropout=dropout)
    embedding = WordEmbedding(vocab_size, dim, embedding_dim=embedding_dim, num_frozen=num_frozen, dropout=dropout)
    return _pooled(embedding, MSSAN(attention, dim, hidden=hidden, dropout=dropout), dim, dropout=dropout)


def relative_xl(
    vocab_size: int,
    *,
    dim: int = 300,
    embedding_dim: int | None = None,
    num_frozen: int = 0,
    num_heads: int = 6,
    direction: bool = False,
    hidden: int | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN's frame with the relative positions of Transformer-XL (Dai et al. 2019) in place of distances (Table 4).

    Args:
        vocab_size: number of word ids.
        dim: width of the states; a multiple of the number of heads.
        embedding_dim: as in :func:`ms_san`.
        num_frozen: as in :func:`ms_san`.
        num_heads: number of heads.
        direction: whether the first half of the heads are forward and the second half backward.
        hidden: width of the feed-forward network's hidden layer; ``dim`` if ``None``.
        dropout: as in :func:`ms_san`.

    Raises:
        ConfigError: for a ``dim`` that the heads do not divide, or directions for an odd number of heads.

    Example:
        >>> relative_xl(4, dim=12).output_dim
        24
    """
    position = XLPosition(num_heads, _head_dim(dim, num_heads))
    attention = _attention(dim, num_heads, prior=_directions(num_heads, direction), position=position, dropout=dropout)
    embedding = WordEmbedding(vocab_size, dim, embedding_dim=embedding_dim, num_frozen=num_frozen, dropout=dropout)
    return _pooled(embedding, MSSAN(attention, dim, hidden=hidden, dropout=dropout), dim, dropout=dropout)


def _attention(
    dim: int, num_heads: int, *, prior: Prior | None, dropout: float, position: RelativePosition | None = None
) -> MultiHeadAttention:
    _head_dim(dim, num_heads)
    return MultiHeadAttention(dim, num_heads, prior, position=position, dropout=dropout)


def _head_dim(dim: int, num_heads: int) -> int:
    if num_heads < 1 or dim % num_heads:
        raise ConfigError(f"dim expects a multiple of the number of heads, got dim={dim} for {num_heads} heads")
    return dim // num_heads


def _directions(num_heads: int, direction: bool) -> Prior | None:
    if not direction:
        return None
    if num_heads % 2:
        raise ConfigError(f"direction=True expects an even number of heads, got {num_heads}")
    return heads_prior(["forward"] * (num_heads // 2) + ["backward"] * (num_heads // 2))


def _pooled(embedding: nn.Module, contextualizer: nn.Module, dim: int, *, dropout: float) -> SentenceEncoder:
    """Attentive pooling next to max pooling: ``r = [r_att ; r_max]``."""
    pooler = Concat([AttentivePooling(dim, dropout=dropout), MaxPooling()])
    return SentenceEncoder(embedding, contextualizer, pooler=pooler, output_dim=2 * dim, state_dim=dim)
