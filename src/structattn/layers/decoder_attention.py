"""Attention of decoders: to the target so far, with a key-value cache; to a source, its tree, or along the source.

Vaswani et al. 2017, section 3.2.3; Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation",
section 4.3; Graves (2013), "Generating sequences with recurrent neural networks", arXiv 1308.0850, section 5. What
depends only on the source is computed once per sentence, however many words are then decoded.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.data import TreeBatch
from structattn.functional import attention, masked_softmax
from structattn.functional.masked_attention import masked_states
from structattn.layers.batch_argument import read_mask
from structattn.layers.linear import glorot_linear


@dataclass(frozen=True, eq=False)
class CrossSource:
    """The source side of one attention module: keys, values and the mask; computed once per sentence."""

    keys: Float[Tensor, "batch head node channel"]
    values: Float[Tensor, "batch head node channel"]
    mask: Bool[Tensor, "batch node"]


class CrossAttention(nn.Module):
    r"""Multi-head attention to a source: ``O = softmax(Q_t K_s^T / sqrt(head_dim)) V_s W^O``.

    Args:
        dim: width of the states.
        num_heads: number of heads.
        dropout: applied to the weights.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads``.

    Example:
        >>> attention = CrossAttention(8, 2)
        >>> source = attention.source(torch.ones(1, 3, 8), torch.tensor([[True, True, False]]))
        >>> output, weights = attention(torch.ones(1, 5, 8), source, need_weights=True)
        >>> output.shape, weights[0, 0, 0]
        (torch.Size([1, 5, 8]), tensor([0.5000, 0.5000, 0.0000], grad_fn=...))
    """

    weights_axes: ClassVar[str] = "head query key"
    attends_to_phrases: ClassVar[str] = "cross"

    def __init__(self, dim: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if num_heads < 1 or dim % num_heads:
            raise ValueError(f"CrossAttention expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        self.num_heads = num_heads
        self.of_queries = glorot_linear(dim, dim)
        self.of_source = glorot_linear(dim, 2 * dim, blocks=2)
        self.output = glorot_linear(dim, dim)
        self.dropout = dropout

    def source(self, states: Float[Tensor, "batch node dim"], mask: Shaped[Tensor, "batch node"]) -> CrossSource:
        """The keys, values and mask of a source, computed once for all targets.

        Args:
            states: states of the source's nodes.
            mask: which of them are real.
        """
        mask = read_mask(mask, wanted_by=self)
        keys, values = _heads(self.of_source(masked_states(states, mask)), 2, self.num_heads)
        return CrossSource(keys, values, mask)

    def forward(
        self, targets: Float[Tensor, "batch target dim"], source: CrossSource, *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "batch target dim"], Float[Tensor, "batch head target node"] | None]:
        """Attend.

        Args:
            targets: states that attend.
            source: the result of ``source``.
            need_weights: also return the weights, as they are before dropout.
        """
        (queries,) = _heads(self.of_queries(targets), 1, self.num_heads)
        heads, weights = attention(
            queries,
            source.keys,
            source.values,
            source.mask[:, None, None, :],
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return output, weights


class CausalAttention(nn.Module):
    """Multi-head attention from each step to itself and all earlier steps, including those of earlier calls.

    Args:
        dim: width of the states.
        num_heads: number of heads.
        dropout: applied to the weights.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads``.

    Example:
        >>> attention, states = CausalAttention(8, 2), torch.randn(1, 3, 8)
        >>> whole, _ = attention(states, attention.empty_cache(1))
        >>> first, cache = attention(states[:, :2], attention.empty_cache(1))
        >>> last, _ = attention(states[:, 2:], cache)
        >>> torch.allclose(whole, torch.cat([first, last], 1), atol=1e-6)
        True
    """

    def __init__(self, dim: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if num_heads < 1 or dim % num_heads:
            raise ValueError(f"CausalAttention expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        self.num_heads = num_heads
        self.project = glorot_linear(dim, 3 * dim, blocks=3)
        self.output = glorot_linear(dim, dim)
        self.dropout = dropout

    def empty_cache(self, rows: int) -> Float[Tensor, "row 2 head 0 channel"]:
        """The cache before the first step: keys and values of no step.

        Args:
            rows: number of sequences.
        """
        weight = self.output.weight
        return weight.new_zeros(rows, 2, self.num_heads, 0, weight.shape[0] // self.num_heads)

    def forward(
        self, states: Float[Tensor, "row step dim"], cache: Float[Tensor, "row 2 head past channel"]
    ) -> tuple[Float[Tensor, "row step dim"], Float[Tensor, "row 2 head total channel"]]:
        """Attend, and add the keys and values of these steps to the cache.

        Args:
            states: the next steps of each sequence.
            cache: keys and values of the steps before; that of ``empty_cache`` at first.

        Returns:
            The output at these steps, and the new cache.
        """
        queries, *new_pairs = _heads(self.project(states), 3, self.num_heads)
        cache = torch.cat((cache, torch.stack(new_pairs, 1)), dim=3)
        total, new = cache.shape[3], states.shape[1]
        allowed = torch.ones(new, total, dtype=torch.bool, device=states.device).tril(total - new)
        heads, _ = attention(
            queries,
            cache[:, 0],
            cache[:, 1],
            allowed[None, None],
            dropout=self.dropout if self.training else 0.0,
        )
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return output, cache


class TreeCrossAttention(nn.Module):
    r"""Multi-head attention to words and phrases, with accumulated values of phrases; only padding is masked.

    ``O = softmax(Q_t [K_L; K_N]^T / sqrt(head_dim)) [V_L; Nbar] W^O``, with leaf weights and embeddings of this
    module's own (Nguyen et al. 2020, section 4.3).

    Args:
        dim: width of the states.
        num_heads: number of heads.
        accumulation: ``(leaf states, leaf values, phrase values, trees) -> phrase values``; a
            :class:`HierarchicalAccumulation` with its default sizes if ``None``.
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
        if accumulation is None:
            from structattn.layers.tree_attention import HierarchicalAccumulation

            accumulation = HierarchicalAccumulation(dim // num_heads, num_heads)
        self.accumulation = accumulation

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
        """Attend.

        Args:
            targets: states that attend.
            source: the result of ``source``.
            need_weights: also return the weights, as they are before dropout.
        """
        attended: tuple[Tensor, Tensor | None] = self.attention(targets, source, need_weights=need_weights)
        return attended


class WindowAttention(nn.Module):
    r"""A window with one centre, which moves to the right by a bounded step for each query (Graves 2013, section 5).

    ``k_t = k_{t-1} + sum_m m softmax(W q_t)_m`` with ``m`` from 0 to ``longest_step``, so that steps can become whole
    numbers; ``a_tj = softmax_j(-softplus(v^T q_t + c) (k_t - j)^2)`` over the real words ``j``, counted from 0, and
    ``context_t = sum_j a_tj x_j``. The weights do not depend on what the words are: where progress so far determines
    the next word to read, content cannot mislead. All queries are computed at once, as the centres are one cumulative
    sum, which is kept in at least 32 bits. In the paper the steps are exponentials, and the weights are an unnormalised
    sum of Gaussian functions.

    Args:
        query_dim: width of the queries.
        longest_step: largest number of words that the window can move at once.

    Raises:
        ValueError: if the longest step is below 1.

    Example:
        >>> window = WindowAttention(4)
        >>> mask = torch.tensor([[True, True, True, False]])
        >>> context, weights = window(torch.ones(1, 4, 6), mask, queries=torch.ones(1, 2, 4))
        >>> context.shape, weights.shape
        (torch.Size([1, 2, 6]), torch.Size([1, 1, 2, 4]))
    """

    def __init__(self, query_dim: int, *, longest_step: int = 2) -> None:
        super().__init__()
        if longest_step < 1:
            raise ValueError(f"WindowAttention expects a longest step of at least 1, got {longest_step}")
        self.steps = glorot_linear(query_dim, longest_step + 1)
        self.precision = glorot_linear(query_dim, 1)
        # Narrow enough from the start to tell neighbours apart.
        nn.init.ones_(self.precision.bias)

    def positions(
        self, queries: Float[Tensor, "batch query query_dim"], start: Float[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch query"]:
        """The centre of the window at each query.

        Args:
            queries: one after the other.
            start: the centre before the first of them; the first word if ``None``.
        """
        shares: Tensor = self.steps(queries).softmax(-1)
        shares = shares.to(torch.promote_types(shares.dtype, torch.float32))
        sizes = torch.arange(shares.shape[-1], device=shares.device, dtype=shares.dtype)
        moved: Tensor = (shares * sizes).sum(-1).cumsum(-1)
        return moved if start is None else start.unsqueeze(-1) + moved

    def forward(
        self,
        states: Float[Tensor, "batch key dim"],
        mask: Shaped[Tensor, "batch key"],
        *,
        queries: Float[Tensor, "batch query query_dim"],
        positions: Float[Tensor, "batch query"] | None = None,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch 1 query key"]]:
        """What each query reads, and the weights; zeros where there is no word.

        Args:
            states: states of the source.
            mask: which of its words are real.
            queries: one after the other.
            positions: the centres, as ``positions`` returns them; computed from the first word on if ``None``.
        """
        centres = self.positions(queries) if positions is None else positions
        words = torch.arange(states.shape[1], device=states.device, dtype=centres.dtype)
        precision = F.softplus(self.precision(queries)).to(centres.dtype)
        scores = -precision * (centres.unsqueeze(-1) - words).square()
        mask = read_mask(mask, wanted_by=self)
        weights = masked_softmax(scores, mask.unsqueeze(1)).to(states.dtype)
        return weights @ masked_states(states, mask), weights.unsqueeze(1)


def _heads(projected: Tensor, parts: int, num_heads: int) -> tuple[Tensor, ...]:
    """Split concatenated projections, each into ``(batch, head, position, channel)``."""
    divided: Tensor = projected.unflatten(-1, (parts, num_heads, -1)).permute(2, 0, 3, 1, 4)
    return divided.unbind(0)
