"""Attention over the words and phrases of a tree, in which a phrase's value is accumulated from all nodes below it.

Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation", sections 4.1 to 4.3.
"""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.data import SentenceBatch, TreeBatch
from structattn.functional import TreeOperator, accumulate, attention
from structattn.functional.masked_attention import masked_states
from structattn.layers.batch_argument import resolve_batch
from structattn.layers.linear import glorot_linear
from structattn.priors import Prior, Subtree

_SUBTREE = Subtree()


class HierarchicalAccumulation(nn.Module):
    r"""The values of phrases from all leaves and phrases below them, with learnt leaf weights and embeddings.

    ``Nbar = V(U(F(L, N) + E), w)`` with ``w = X_leaf U_s^T + b`` (Nguyen et al. 2020, equations 4 to 9; see
    :func:`structattn.functional.hierarchical_accumulation` for the closed form). The weights are one number per leaf
    and head, not normalised; both embedding tables are shared by the heads.

    Args:
        head_dim: channels of a head; even.
        num_heads: number of heads.
        max_vertical: largest number of phrases on a downward path that has an embedding of its own; 0 for no such
            embeddings.
        max_horizontal: largest place in a phrase that has an embedding of its own; 0 for no such embeddings.
        mode: ``"paper"``, or ``"ref"`` for the arithmetic of the published code.

    Raises:
        ValueError: for an odd ``head_dim``, a negative maximum, or an unknown mode.

    Example:
        >>> accumulation = HierarchicalAccumulation(16, 4, 50, 100)
        >>> sum(parameter.numel() for parameter in accumulation.parameters())
        1476
        >>> trees = TreeBatch(torch.tensor([[2, 2, 2]]), torch.ones(1, 3, dtype=torch.bool), None, num_leaves=2)
        >>> states, leaves, nodes = torch.ones(1, 2, 64), torch.ones(1, 4, 2, 16), torch.ones(1, 4, 1, 16)
        >>> accumulation(states, leaves, nodes, trees).shape
        torch.Size([1, 4, 1, 16])
    """

    def __init__(
        self,
        head_dim: int,
        num_heads: int,
        max_vertical: int = 50,
        max_horizontal: int = 100,
        mode: str = "paper",
    ) -> None:
        super().__init__()
        if head_dim % 2 or min(max_vertical, max_horizontal) < 0:
            raise ValueError(
                f"HierarchicalAccumulation expects an even head_dim and maxima of at least 0, "
                f"got {head_dim}, {max_vertical} and {max_horizontal}"
            )
        if mode not in ("paper", "ref"):
            raise ValueError(f"HierarchicalAccumulation expects mode to be paper or ref, got {mode!r}")
        self.mode = mode
        self.leaf_weights = glorot_linear(head_dim * num_heads, num_heads)
        self.vertical = _table(max_vertical, head_dim // 2)
        self.horizontal = _table(max_horizontal, head_dim // 2)

    def forward(
        self,
        states: Float[Tensor, "batch leaf dim"],
        leaves: Float[Tensor, "batch head leaf channel"],
        nodes: Float[Tensor, "batch head phrase channel"],
        trees: TreeBatch,
    ) -> Float[Tensor, "batch head phrase channel"]:
        """Accumulate.

        Args:
            states: states of the leaves, from which their weights are computed.
            leaves: values of the leaves.
            nodes: values of the phrases.
            trees: leaves first, then phrases.
        """
        weights = self.leaf_weights(states).transpose(1, 2)
        operator = self._operator(trees, leaves.dtype)
        return accumulate(leaves, nodes, weights, operator, vertical=self.vertical, horizontal=self.horizontal)

    def prepare_batch(self, side: SentenceBatch, device: torch.device) -> None:
        """Build what ``forward`` needs of the trees ahead of time, in a process that prepares batches; they cache it.

        Args:
            side: sentences, with or without phrase trees.
            device: where the batch will be used: some of it is needed on a CPU only.

        Example:
            >>> import structattn as sa
            >>> tree = sa.ConstituencyTree.from_brackets("(S (A a) (B b))")
            >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary([]))
            >>> HierarchicalAccumulation(16, 4).prepare_batch(batch, torch.device("cpu"))
            >>> batch.constituency.remember("operator paper torch.float32", lambda: None).operator
            tensor([[[0.2500, 0.2500]]])
        """
        if side.constituency is None:
            return
        operator = self._operator(side.constituency, self.leaf_weights.weight.dtype)
        if device.type == "cpu" and self.vertical is not None and self.mode == "paper":
            _ = operator.by_height
        if device.type == "cpu" and self.horizontal is not None:
            _ = operator.by_place

    def _operator(self, trees: TreeBatch, dtype: torch.dtype) -> TreeOperator:
        return tree_operator(trees, mode=self.mode, dtype=torch.promote_types(dtype, torch.float32))


def tree_operator(trees: TreeBatch, *, mode: str = "paper", dtype: torch.dtype = torch.float32) -> TreeOperator:
    """The operator of a batch of phrase trees, built once and shared by all layers."""

    def build() -> TreeOperator:
        below = trees.subtrees()[:, trees.num_leaves :]
        return TreeOperator(below[:, :, : trees.num_leaves], below[:, :, trees.num_leaves :], mode=mode, dtype=dtype)

    return trees.remember(f"operator {mode} {dtype}", build)


class TreeAttention(nn.Module):
    r"""Multi-head attention over words and phrases, with accumulated values of phrases and the subtree mask.

    Queries, keys and values come from the same maps for words and phrases; then the values of the phrases are
    accumulated, ``V_N <- Nbar(V_L, V_N)``, while their keys stay as they are, and
    ``O = softmax(mask(Q K^T / sqrt(head_dim))) [V_L; Nbar] W^O`` (Nguyen et al. 2020, section 4.3).

    Args:
        dim: width of the states.
        num_heads: number of heads.
        prior: the attention bias of the heads, over words and phrases; by default a phrase attends to its subtree and a
            word to all words. With ``None`` every node attends to every node.
        accumulation: ``(leaf states, leaf values, phrase values, trees) -> phrase values``; a
            :class:`HierarchicalAccumulation` with its default sizes if ``None``.
        dropout: applied to the weights.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads``.
        MissingStructure: in ``forward``, if a sentence has no phrase tree.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (N dogs) (VP (V bark)))")
        >>> batch = sa.collate([sa.Sentence(tree.words, constituency=tree)], sa.Vocabulary(["bark", "dogs"]))
        >>> output, weights = TreeAttention(8, 2)(torch.ones(1, 4, 8), batch, need_weights=True)
        >>> output.shape, weights[0, 0].ne(0).int().tolist()
        (torch.Size([1, 4, 8]), [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]])
    """

    weights_axes: ClassVar[str] = "head query key"
    attends_to_phrases: ClassVar[str] = "self"

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        prior: Prior | None = _SUBTREE,
        accumulation: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.prior = prior
        if num_heads < 1 or dim % num_heads:
            raise ValueError(f"TreeAttention expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        self.accumulation = (
            HierarchicalAccumulation(dim // num_heads, num_heads) if accumulation is None else accumulation
        )
        self.project = glorot_linear(dim, 3 * dim, blocks=3)
        self.output = glorot_linear(dim, dim)
        self.dropout = dropout

    def forward(
        self,
        states: Float[Tensor, "batch node dim"],
        batch: SentenceBatch | Bool[Tensor, "batch node"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch node dim"], Float[Tensor, "batch head node node"] | None]:
        """Attend.

        Args:
            states: states of the words, then of the phrases.
            batch: the sentences; a mask is not enough, as it has no trees.
            need_weights: also return the weights, as they are before dropout.

        Raises:
            MissingStructure: if a sentence has no phrase tree, or there is no batch.
        """
        batch, trees = _require_trees(states, batch, self)
        if states.shape[:2] != trees.mask.shape:
            raise ValueError(
                f"TreeAttention got states of {states.shape[0]} trees with {states.shape[1]} nodes, "
                f"but the batch has {trees.mask.shape[0]} with {trees.mask.shape[1]}"
            )
        states = masked_states(states, trees.mask)
        projected = self.project(states).unflatten(-1, (3, self.num_heads, -1))
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        leaves, nodes = values.split([trees.num_leaves, values.shape[2] - trees.num_leaves], dim=2)
        nodes = self.accumulation(states[:, : trees.num_leaves], leaves, nodes, trees)
        allowed, bias = self._attention_bias(batch, trees)
        heads, weights = attention(
            queries,
            keys,
            torch.cat((leaves, nodes), dim=2),
            allowed,
            bias,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        return masked_states(self.output(heads.transpose(1, 2).flatten(2)), trees.mask), weights

    def allowed_keys(
        self,
        states: Float[Tensor, "batch node dim"],
        batch: SentenceBatch | Bool[Tensor, "batch node"] | None = None,
    ) -> Bool[Tensor, "batch #head node node"]:
        """Which keys each query may attend to. Padding is neither query nor key.

        Args:
            states: states of the words, then of the phrases.
            batch: the sentences; a mask is not enough, as it has no trees.

        Raises:
            MissingStructure: if a sentence has no phrase tree, or there is no batch.
        """
        return self._attention_bias(*_require_trees(states, batch, self))[0]

    def _attention_bias(self, batch: SentenceBatch, trees: TreeBatch) -> tuple[Tensor, Tensor | None]:
        allowed = trees.mask[:, None, :, None] & trees.mask[:, None, None, :]
        if self.prior is None:
            return allowed, None
        prior = self.prior(batch)
        for part in (prior.allowed, prior.bias):
            if part is not None and part.shape[-1] not in (1, trees.mask.shape[1]):
                raise ValueError(
                    f"TreeAttention has {trees.mask.shape[1]} words and phrases, but its prior "
                    f"({self.prior.name}) is for {part.shape[-1]}"
                )
        return allowed if prior.allowed is None else allowed & prior.allowed, prior.bias


def _require_trees(
    states: Tensor, batch: SentenceBatch | Tensor | None, layer: nn.Module
) -> tuple[SentenceBatch, TreeBatch]:
    if not isinstance(batch, SentenceBatch):
        batch = resolve_batch(states, batch, wanted_by=layer)
    return batch, batch.require("constituency", wanted_by="TreeAttention")


def _table(size: int, dim: int) -> nn.Parameter | None:
    """One row for each index from 1 on, after a row of zeros for no index."""
    if size == 0:
        return None
    table = torch.randn(size + 1, dim)
    table[0] = 0.0
    return nn.Parameter(table)
