"""The Tree Transformer: words and phrases are encoded together, phrases by hierarchical accumulation.

Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation" (not the Tree Transformer of Wang et al.
2019). The baselines differ from it in one part each, and are options here.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch, TreeBatch
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, compute_head_width, resolve_width
from structattn.encoders.transformer import NormFirst, NormLast, TransformerLayer
from structattn.errors import ConfigError
from structattn.functional.masked_attention import masked_states
from structattn.functional.products import take_rows
from structattn.layers import FeedForward, HierarchicalAccumulation, MeanPooling, TreeAttention
from structattn.layers.positions import SinusoidalPositions
from structattn.priors import Prior, Subtree

_LOGGER = logging.getLogger("structattn")


@dataclass(frozen=True)
class Accumulation:
    """Options of hierarchical accumulation, see :class:`structattn.layers.HierarchicalAccumulation`.

    Attributes:
        max_vertical: size of the vertical embedding table; 0 for none.
        max_horizontal: size of the horizontal embedding table; 0 for none.
        mode: ``paper``, or ``ref`` for the arithmetic of the published code.

    Example:
        >>> from structattn.layers import WordEmbedding
        >>> tree_transformer(WordEmbedding(4, 64), accumulation=Accumulation(max_vertical=0)).output_dim
        64
    """

    max_vertical: int = 50
    max_horizontal: int = 100
    mode: Literal["paper", "ref"] = "paper"


class TreeTransformer(nn.Module):
    """The contextualizer: positions for words, a vector for each phrase, then layers over both.

    Words are normalised before their positions are added, as in :class:`Transformer`. Phrases have no position: where
    they are follows from what they accumulate.

    Args:
        dim: width of the states.
        layers: modules ``(states of nodes, batch) -> states of nodes``.
        last: applied to the states after the layers.
        num_labels: number of the most frequent labels whose phrases start with a vector of their own; all other phrases
            share one.
        dropout: applied to the states before the layers.

    Raises:
        MissingStructure: in ``forward``, if a sentence has no phrase tree.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (N dogs) (V bark))")
        >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary(["bark", "dogs"]))
        >>> encoding = TreeTransformer(4, [], last=nn.Identity())(torch.ones(1, 2, 4), batch)
        >>> encoding.states.shape, encoding.pool_mask
        (torch.Size([1, 3, 4]), tensor([[False, False,  True]]))
    """

    def __init__(
        self, dim: int, layers: Sequence[nn.Module], *, last: nn.Module, num_labels: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.positions = SinusoidalPositions()
        # As large as a normalised word.
        self.phrases = nn.Parameter(torch.randn(num_labels + 1, dim))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(layers)
        self.last = last

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """A state for every node, words first; the pooler reads the roots.

        Args:
            states: the words.
            batch: the sentences, each with a phrase tree.
        """
        trees = batch.require("constituency", wanted_by="TreeTransformer")
        words = self.positions(self.norm(states))
        nodes = self.dropout(torch.cat((words, self._phrases(trees).to(words.dtype)), dim=1))
        for layer in self.layers:
            nodes = layer(nodes, batch)
        return Encoding(masked_states(self.last(nodes), trees.mask), trees.mask, pool_mask=trees.roots())

    def _phrases(self, trees: TreeBatch) -> Tensor:
        if trees.labels is None:
            return self.phrases[0].expand(trees.mask.shape[0], trees.mask.shape[1] - trees.num_leaves, -1)
        labels = trees.labels[:, trees.num_leaves :]
        return take_rows(self.phrases, torch.where(labels < len(self.phrases), labels, 0))


def tree_transformer(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_layers: int = 2,
    num_heads: int = 4,
    hidden: int | None = None,
    accumulation: Accumulation = Accumulation(),
    mask: Literal["subtree", "own", "none"] = "subtree",
    num_labels: int = 0,
    norm: Literal["first", "last"] = "last",
    dropout: float = 0.1,
) -> SentenceEncoder:
    """The encoder of Nguyen et al.; the sentence vector is the root's state, or the mean of several roots' states.

    The defaults are the paper's small model for classification, over word vectors of width 64.

    Args:
        embedder: gives a state for each word.
        dim: width of the states and of the sentence vector, an even multiple of ``num_heads``; the embedder's if
            ``None``.
        num_layers: number of layers.
        num_heads: number of heads.
        hidden: width of the feed-forward networks' hidden layers; twice that of the states if ``None``.
        accumulation: the options of accumulation.
        mask: ``subtree`` as in the paper, where a phrase attends to its subtree and a word to all words; ``own``, where
            a word attends to itself only, so that a phrase's state does not depend on the words around it; or ``none``,
            where every node attends to every node: then phrases differ only by their labels, and without these a
            warning says that they are all the same. See :class:`structattn.priors.Subtree`.
        num_labels: number of the most frequent tree labels with a vector of their own; with 0, labels are ignored.
        norm: whether the norm comes first or last in a residual connection.
        dropout: on word vectors, updates, attention weights and hidden layers.

    Raises:
        ConfigError: for an unknown norm, mask or mode, a negative size, or a width that does not fit the heads.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (N dogs) (V bark))")
        >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary(["bark", "dogs"]))
        >>> encoding = tree_transformer(sa.layers.WordEmbedding(4, 64))(batch)
        >>> encoding.states.shape, bool((encoding.states[:, 2] == encoding.vector).all())
        (torch.Size([1, 3, 64]), True)
    """
    width = resolve_width(embedder, dim)
    compute_head_width(width, num_heads, multiple=2)
    if num_labels < 0:
        raise ConfigError(f"num_labels expects at least 0, got {num_labels}")
    masks: dict[str, Callable[[], Prior | None]] = {
        "subtree": Subtree,
        "own": lambda: Subtree("own"),
        "none": lambda: None,
    }
    if mask not in masks:
        raise ConfigError(f"mask expects one of {', '.join(masks)}; got {mask!r}")
    if mask == "none" and num_labels == 0:
        _LOGGER.warning(
            "Tree Transformer: all phrases of a sentence get the same state, as they start alike (num_labels=0) and "
            "attend to the same nodes (mask='none'): set num_labels to the number of labels, or mask to subtree or own"
        )
    accumulations = [
        HierarchicalAccumulation(width // num_heads, num_heads, **asdict(accumulation)) for _ in range(num_layers)
    ]
    attentions = [
        TreeAttention(width, num_heads, prior=masks[mask](), accumulation=part, dropout=dropout)
        for part in accumulations
    ]
    return _build_encoder(embedder, attentions, width, hidden=hidden, num_labels=num_labels, norm=norm, dropout=dropout)


def length_matched_transformer(
    embedder: nn.Module,
    *,
    dim: int | None = None,
    num_layers: int = 2,
    num_heads: int = 4,
    hidden: int | None = None,
    norm: Literal["first", "last"] = "last",
    dropout: float = 0.1,
) -> SentenceEncoder:
    """A Transformer over as many tokens as the tree has words and phrases, without the tree.

    The control for length and parameters: all phrases are one vector without a position, and attention between all
    tokens is plain. See :func:`tree_transformer` for the options.

    Raises:
        ConfigError: for an unknown norm, or a width that does not fit the heads.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (N dogs) (V bark))")
        >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary(["bark", "dogs"]))
        >>> length_matched_transformer(sa.layers.WordEmbedding(4, 64))(batch).states.shape
        torch.Size([1, 3, 64])
    """
    width = resolve_width(embedder, dim)
    compute_head_width(width, num_heads)
    attentions = [
        TreeAttention(width, num_heads, prior=None, accumulation=NoAccumulation(), dropout=dropout)
        for _ in range(num_layers)
    ]
    return _build_encoder(embedder, attentions, width, hidden=hidden, num_labels=0, norm=norm, dropout=dropout)


class NoAccumulation(nn.Module):
    """Accumulates nothing: phrases keep their own values."""

    def forward(self, states: Tensor, leaves: Tensor, nodes: Tensor, trees: TreeBatch | None) -> Tensor:
        """The values of the phrases as they are."""
        return nodes


def _build_encoder(
    embedder: nn.Module,
    attentions: Sequence[nn.Module],
    dim: int,
    *,
    hidden: int | None,
    num_labels: int,
    norm: str,
    dropout: float,
) -> SentenceEncoder:
    residual = {"first": NormFirst, "last": NormLast}.get(norm)
    if residual is None:
        raise ConfigError(f"norm expects one of first, last; got {norm!r}")
    layers = [
        TransformerLayer(
            attention,
            FeedForward(dim, 2 * dim if hidden is None else hidden, dropout=dropout),
            residuals=(residual(dim, dropout=dropout), residual(dim, dropout=dropout)),
        )
        for attention in attentions
    ]
    # Layers with the norm first leave their sum unnormalised.
    last = nn.LayerNorm(dim) if norm == "first" else nn.Identity()
    contextualizer = TreeTransformer(dim, layers, last=last, num_labels=num_labels, dropout=dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=MeanPooling(), output_dim=dim, input_dim=dim)
