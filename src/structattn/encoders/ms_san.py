"""MS-SAN: multi-head self-attention whose heads have different directional masks and distance biases.

Qi et al. 2020, "Multiple Structural Priors Guided Self Attention Network for Language Understanding" (arXiv
2012.14642): one encoder layer with a fusion gate in place of the residual sum, attentive and max pooling. Its variant
with one encoder per direction (``ms_san_sep``) and its competitors with relative positions (``relative_shaw``,
``relative_xl``; Table 4) share everything but the attention.

MS-SAN + BERT uses BERT's last states in place of word vectors, and the sentence vector ``r = [r_att ; h_CLS]``, with
BERT's raw ``[CLS]`` in place of max pooling. The paper does not say how it treats subwords; here each word has one
state, so that trees and distances apply unchanged, and special tokens take no part in attention.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.head_layout import PAPER_HEADS, heads_prior
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, compute_head_width, resolve_width
from structattn.errors import ConfigError
from structattn.functional.masked_attention import masked_states
from structattn.layers import (
    AttentivePooling,
    Concat,
    FeedForward,
    MaxPooling,
    MultiHeadAttention,
    ProjectedFusionGate,
)

if TYPE_CHECKING:
    from structattn.encoders.text_node import TextEmbedder
    from structattn.layers.positions import RelativePosition
    from structattn.priors import Prior


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
        # The paper does not give the initial gain. With 1, attentive and max pooling give vectors of which 96 % is
        # common to all sentences, and the classifier predicts one class for all until it has unlearnt that. With a
        # tenth, pairs of sentences, whose features are products, lose 1.5 points of correlation on SICK.
        nn.init.constant_(self.norm.weight, 0.3)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Contextualise the words of a batch; padded states are zero."""
        update, _ = self.attention(states, batch)
        gated, _ = self.gate(states, update)
        contextual = self.norm(gated + self.feed_forward(gated))
        return Encoding(masked_states(contextual, batch.mask), batch.mask)


class SideBySide(nn.Module):
    """Several contextualizers over the same words, their states concatenated."""

    def __init__(self, contextualizers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.contextualizers = nn.ModuleList(contextualizers)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """Run each, then concatenate."""
        encodings: list[Encoding] = [contextualizer(states, batch) for contextualizer in self.contextualizers]
        return Encoding(torch.cat([encoding.states for encoding in encodings], dim=-1), encodings[0].mask)


def ms_san(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    heads: str | Sequence[str | Sequence[str]] = PAPER_HEADS,
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    hidden: int | None = None,
    pooler: Literal["att_max", "att_cls"] | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN, or any row of its ablation table; MS-SAN + BERT over the states of a ``BackboneEmbedding``.

    Args:
        embedder: gives a state for each word.
        dim: width of the states, a multiple of the number of heads; the embedder's if ``None``. The sentence vector is
            twice as wide.
        heads: the priors of the heads: a row of ``ABLATIONS`` such as ``"san"``, or one entry per head such as
            ``"forward/word"``, ``"forward/dependency"``, ``"backward"``, ``"constituency"``, ``"none"``.
        alpha: weight of the distances; ``"alibi"`` gives every head its own.
        learnable_alpha: whether the weights are learnt, one per head.
        missing_trees: what a head with a tree distance does for a sentence without a tree: ``"error"``, ``"none"`` (a
            plain head) or ``"word"`` (the word distance).
        hidden: width of the feed-forward network's hidden layer; that of the states if ``None``.
        pooler: the sentence vector: ``"att_max"``, attentive and max pooling ``[r_att ; r_max]``; or ``"att_cls"``,
            attentive pooling and the backbone's ``[CLS]`` state without dropout ``[r_att ; h_CLS]``. As in the paper if
            ``None``: ``"att_cls"`` over a backbone, ``"att_max"`` over word vectors.
        dropout: on the words' states, attention weights and the feed-forward networks' hidden layers.

    Raises:
        ConfigError: for unknown heads, an invalid ``alpha``, a width that is not a multiple of the number of heads, or
            ``"att_cls"`` without a backbone.

    Example:
        >>> import structattn as sa
        >>> sentence = sa.Sentence(["dogs", "bark"], dependency=sa.DependencyTree([2, 0]))
        >>> encoder = ms_san(sa.layers.WordEmbedding(4, 12))
        >>> encoder(sa.collate([sentence], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 24])
        >>> encoder.contextualizer.attention.head_names[:3]
        ('forward/word', 'forward/dependency', 'forward')
    """
    width = resolve_width(embedder, dim)
    prior = heads_prior(heads, alpha=alpha, learnable_alpha=learnable_alpha, missing_trees=missing_trees)
    contextualizer = _layer(width, len(prior.head_names), prior=prior, hidden=hidden, dropout=dropout)
    if pooler is None:
        pooler = "att_cls" if hasattr(embedder, "giving") else "att_max"
    if pooler == "att_max":
        return _pooled(embedder, contextualizer, width, dropout=dropout)
    if pooler != "att_cls" or not hasattr(embedder, "giving"):
        raise ConfigError(
            f"pooler expects att_max, or att_cls over a pretrained backbone; got {pooler!r} over "
            f"{type(embedder).__name__}"
        )
    from structattn.encoders.text_node import BesideText, WordsOnly

    return SentenceEncoder(
        cast("TextEmbedder", embedder).giving("words and text"),
        WordsOnly(contextualizer, dropout=dropout),
        pooler=BesideText(AttentivePooling(width, dropout=dropout)),
        output_dim=2 * width,
        state_dim=width,
        input_dim=width,
    )


def ms_san_sep(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    distances: Sequence[str] = ("word", "dependency", "none", "word", "dependency", "none"),
    alpha: int | float | Literal["alibi"] = 1.0,
    learnable_alpha: bool = False,
    missing_trees: Literal["error", "none", "word"] = "error",
    hidden: int | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN with separate directions: a forward and a backward encoder, whose states are concatenated.

    arXiv 2012.14642, the row "MS-SAN_sep": the design of DiSAN with MS-SAN's parts, twice as wide and slower. See
    :func:`ms_san` for the options that are not listed, and for the errors.

    Args:
        dim: width of the states of each direction; the embedder's if ``None``. The sentence vector is four times as
            wide.
        distances: the distance of each head of either direction; the paper does not list them.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> ms_san_sep(WordEmbedding(4, 12)).output_dim
        48
    """
    width = resolve_width(embedder, dim)
    directions = []
    for direction in ("forward", "backward"):
        heads = [(direction, distance) for distance in distances]
        prior = heads_prior(heads, alpha=alpha, learnable_alpha=learnable_alpha, missing_trees=missing_trees)
        directions.append(_layer(width, len(heads), prior=prior, hidden=hidden, dropout=dropout))
    return _pooled(embedder, SideBySide(directions), width, copies=2, dropout=dropout)


def relative_shaw(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_heads: int = 6,
    direction: bool = False,
    clip: int = 16,
    hidden: int | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN's architecture with the relative positions of Shaw et al. 2018 in place of distances (Table 4).

    See :func:`ms_san` for the options that are not listed.

    Args:
        num_heads: number of heads.
        direction: whether the first half of the heads are forward and the second half backward.
        clip: offsets are clipped to this.

    Raises:
        ConfigError: for a width that is not a multiple of the number of heads, or directions for an odd number of
            heads.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> relative_shaw(WordEmbedding(4, 12), direction=True).contextualizer.attention.head_names[2:4]
        ('forward', 'backward')
    """
    from structattn.layers import ShawPosition

    width = resolve_width(embedder, dim)
    position = ShawPosition(compute_head_width(width, num_heads), clip)
    return _relative(embedder, width, num_heads, position, direction=direction, hidden=hidden, dropout=dropout)


def relative_xl(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_heads: int = 6,
    direction: bool = False,
    hidden: int | None = None,
    dropout: float = 0.2,
) -> SentenceEncoder:
    """MS-SAN's architecture with Transformer-XL's relative positions (Dai et al. 2019) in place of distances (Table 4).

    See :func:`relative_shaw` for the options and errors.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> relative_xl(WordEmbedding(4, 12)).output_dim
        24
    """
    from structattn.layers import XLPosition

    width = resolve_width(embedder, dim)
    position = XLPosition(num_heads, compute_head_width(width, num_heads))
    return _relative(embedder, width, num_heads, position, direction=direction, hidden=hidden, dropout=dropout)


def _relative(
    embedder: nn.Module,
    dim: int,
    num_heads: int,
    position: "RelativePosition",
    *,
    direction: bool,
    hidden: int | None,
    dropout: float,
) -> SentenceEncoder:
    if direction and num_heads % 2:
        raise ConfigError(f"direction=True expects an even number of heads, got {num_heads}")
    half = num_heads // 2
    prior = heads_prior(["forward"] * half + ["backward"] * half) if direction else None
    contextualizer = _layer(dim, num_heads, prior=prior, position=position, hidden=hidden, dropout=dropout)
    return _pooled(embedder, contextualizer, dim, dropout=dropout)


def _layer(
    dim: int,
    num_heads: int,
    *,
    prior: "Prior | None",
    position: "RelativePosition | None" = None,
    hidden: int | None,
    dropout: float,
) -> MSSAN:
    compute_head_width(dim, num_heads)
    attention = MultiHeadAttention(dim, num_heads, prior, position=position, dropout=dropout)
    return MSSAN(attention, dim, hidden=hidden, dropout=dropout)


def _pooled(
    embedder: nn.Module, contextualizer: nn.Module, dim: int, *, copies: int = 1, dropout: float
) -> SentenceEncoder:
    """Attentive pooling concatenated with max pooling: ``r = [r_att ; r_max]``."""
    state_dim = copies * dim
    return SentenceEncoder(
        embedder,
        contextualizer,
        pooler=Concat([AttentivePooling(state_dim, dropout=dropout), MaxPooling()]),
        output_dim=2 * state_dim,
        state_dim=state_dim,
        input_dim=dim,
        dropout=dropout,
    )
