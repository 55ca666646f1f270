"""Recursive encoders: Tree-LSTMs over phrase trees and dependency trees, and attention over the children of a phrase.

Tai et al. 2015, "Improved Semantic Representations From Tree-Structured Long Short-Term Memory Networks". The nodes of
one level are computed together across all trees of a batch.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.encoders.sentence_encoder import Encoding, SentenceEncoder, resolve_width
from structattn.layers import ChildAttention, MeanPooling
from structattn.layers.tree_cells import ChildSumTreeLSTM, ConstituencyTreeLSTM


class RecursiveNetwork(nn.Module):
    """The contextualizer: a cell run over the trees of a batch, from the words to the roots.

    ``structure`` names the trees; a sentence without one raises ``MissingStructure``."""

    def __init__(
        self, cell: nn.Module, structure: Literal["dependency", "constituency"], *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.cell = cell
        self.structure: Literal["dependency", "constituency"] = structure
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "batch word dim"], batch: SentenceBatch) -> Encoding:
        """A state for every node, words first; the pooler reads the roots."""
        trees = batch.require(self.structure, wanted_by=f"RecursiveNetwork({self.structure!r})")
        return Encoding(self.cell(self.dropout(states), trees), trees.mask, pool_mask=trees.roots())


def tree_lstm(embedder: nn.Module, *, dim: int | None = None, dropout: float = 0.2) -> SentenceEncoder:
    """The constituency Tree-LSTM; the sentence vector is the root's state, or the mean of several roots' states.

    Args:
        embedder: gives a state for each word, which the cell reads as it is.
        dim: width of the nodes' states and of the sentence vector; that of the embedder's states if ``None``.
        dropout: on the words' states.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (N dogs) (V bark))")
        >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary(["bark", "dogs"]))
        >>> encoding = tree_lstm(sa.layers.WordEmbedding(4, 6))(batch)
        >>> encoding.states.shape, bool((encoding.states[:, 2] == encoding.vector).all())
        (torch.Size([1, 3, 6]), True)
    """
    inputs, width = resolve_width(embedder), resolve_width(embedder, dim)
    contextualizer = RecursiveNetwork(ConstituencyTreeLSTM(inputs, width), "constituency", dropout=dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=MeanPooling(), output_dim=width)


def dependency_tree_lstm(embedder: nn.Module, *, dim: int | None = None, dropout: float = 0.2) -> SentenceEncoder:
    """The child-sum Tree-LSTM over dependency trees; the sentence vector is the root's state, or the mean of several.

    See :func:`tree_lstm` for the options.

    Example:
        >>> import structattn as sa
        >>> sentence = sa.Sentence(["dogs", "bark"], dependency=sa.DependencyTree([2, 0]))
        >>> encoder = dependency_tree_lstm(sa.layers.WordEmbedding(4, 6))
        >>> encoder(sa.collate([sentence], sa.Vocabulary(["bark", "dogs"]))).vector.shape
        torch.Size([1, 6])
    """
    inputs, width = resolve_width(embedder), resolve_width(embedder, dim)
    contextualizer = RecursiveNetwork(ChildSumTreeLSTM(inputs, width), "dependency", dropout=dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=MeanPooling(), output_dim=width)


def child_attention(
    embedder: nn.Module, *, dim: int | None = None, scale: float = 5.0, dropout: float = 0.2
) -> SentenceEncoder:
    """Feature-wise attention over the children of every phrase, from the words up; see :class:`ChildAttention`.

    The sentence vector is the root's state, or the mean of several roots' states.

    Args:
        embedder: gives a state for each word.
        dim: width of the nodes' states and of the sentence vector; that of the embedder's states if ``None``.
        scale: the bound of the attention scores.
        dropout: on the words' states.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (N dogs) (V bark))")
        >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary(["bark", "dogs"]))
        >>> encoding = child_attention(sa.layers.WordEmbedding(4, 6))(batch)
        >>> encoding.states.shape, bool((encoding.states[:, 2] == encoding.vector).all())
        (torch.Size([1, 3, 6]), True)
    """
    inputs, width = resolve_width(embedder), resolve_width(embedder, dim)
    contextualizer = RecursiveNetwork(ChildAttention(inputs, width, scale=scale), "constituency", dropout=dropout)
    return SentenceEncoder(embedder, contextualizer, pooler=MeanPooling(), output_dim=width)
