"""Attention from a target sentence to the words and phrases of a source tree.

Everything that depends only on the source is computed once per sentence, however many words are then decoded. Nguyen et
al. 2020, "Tree-structured Attention with Hierarchical Accumulation", section 4.3.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.data import TreeBatch
from structattn.functional import masked_states
from structattn.layers.cross_attention import CrossAttention, CrossSource
from structattn.layers.tree_attention import HierarchicalAccumulation


class TreeCrossAttention(nn.Module):
    r"""Multi-head attention to words and phrases, with accumulated values of phrases; only padding is masked.

    ``O = softmax(Q_t [K_L; K_N]^T / sqrt(head_dim)) [V_L; Nbar] W^O``, with leaf weights and embeddings of this
    module's own (Nguyen et al. 2020, section 4.3).

    Args:
        dim: width of the states.
        num_heads: number of heads.
        accumulation: as in :class:`TreeAttention`.
        dropout: applied to the weights.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads``.

    Example:
        >>> trees = TreeBatch(torch.tensor([[2, 2, 2]]), torch.ones(1, 3, dtype=torch.bool), None, num_leaves=2)
        >>> attention = TreeCrossAttention(8, 2)
        >>> source = attention.source(torch.ones(1, 3, 8), trees)
        >>> output, weights = attention(torch.ones(1, 5, 8), source, need_weights=True)
        >>> output.shape, weights.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 2, 5, 3]))
    """

    def __init__(
        self, dim: int, num_heads: int, *, accumulation: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attention = CrossAttention(dim, num_heads, dropout=dropout)
        self.accumulation = (
            HierarchicalAccumulation(dim // num_heads, num_heads) if accumulation is None else accumulation
        )

    def source(self, states: Float[Tensor, "batch node dim"], trees: TreeBatch) -> CrossSource:
        """The keys, values and mask of a source, computed once for all targets.

        Args:
            states: states of its words, then of its phrases.
            trees: trees over the same nodes.

        Raises:
            ValueError: if there are not as many states as nodes.
        """
        if states.shape[:2] != trees.mask.shape:
            raise ValueError(
                f"TreeCrossAttention got states of {states.shape[0]} trees with {states.shape[1]} nodes, "
                f"but the trees are {trees.mask.shape[0]} with {trees.mask.shape[1]}"
            )
        states = masked_states(states, trees.mask)
        raw = self.attention.source(states, trees.mask)
        leaves, nodes = raw.values.split([trees.num_leaves, raw.values.shape[2] - trees.num_leaves], dim=2)
        nodes = self.accumulation(states[:, : trees.num_leaves], leaves, nodes, trees)
        return CrossSource(raw.keys, torch.cat((leaves, nodes), dim=2), trees.mask)

    def forward(
        self, targets: Float[Tensor, "batch target dim"], source: CrossSource, *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "batch target dim"], Float[Tensor, "batch head target node"] | None]:
        """Attend; the weights are those before dropout, or ``None`` if not requested."""
        attended: tuple[Tensor, Tensor | None] = self.attention(targets, source, need_weights=need_weights)
        return attended
