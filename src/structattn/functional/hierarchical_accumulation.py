"""Hierarchical accumulation: the value of a phrase from all leaves and phrases below it, in closed form.

Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation", section 4.1. The published code builds a
tensor of (phrases + 1) x leaves x channels per head and takes means over it twice. The whole map is linear in leaves,
phrases and embeddings. The phrases over a leaf form a chain, so the phrases on the path from one of them down to the
leaf are those from the root down to the leaf minus those above the first. This takes two sums of phrases, one per leaf
and one per phrase, and no matrix depends on a head.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from structattn.functional.products import take_rows
from structattn.functional.torch_state import full_precision
from structattn.functional.tree_operator import TreeOperator


def hierarchical_accumulation(
    leaves: Float[Tensor, "batch head leaf channel"],
    nodes: Float[Tensor, "batch head phrase channel"],
    weights: Float[Tensor, "batch head leaf"],
    spans: Int64[Tensor, "batch phrase 2"],
    parents: Int64[Tensor, "batch phrase"],
    *,
    vertical: Float[Tensor, "height half"] | None = None,
    horizontal: Float[Tensor, "position half"] | None = None,
    mode: str = "paper",
) -> Float[Tensor, "batch head phrase channel"]:
    r"""The mean over a phrase's leaves of the weighted mean of everything on the path down to the leaf.

    With ``path(i, j)`` the phrases from ``i`` down to leaf ``j``, both ends included, and ``V_ij`` their number,

    ``Nbar_i = 1 / len_i  sum_{j in span(i)} w_j / (V_ij + 1) (L_j + sum_{t in path(i, j)} (N_t + E_tj))``,
    ``E_tj = [vertical[V_tj]; horizontal[j - s_t + 1]]``

    (Nguyen et al. 2020, equations 4 to 9: interpolation, upward cumulative average, weighted aggregation, hierarchical
    embeddings; the index shift of equation 9 is read as intended). With ``M`` and ``D`` of :class:`TreeOperator` and
    ``A_ij = M_ij / (len_i (V_ij + 1))``: ``Nbar = A (w * (L + M^T N)) - (A w) * ((D - I)^T N) + P_v E_v + P_h E_h``,
    where ``P_v`` and ``P_h`` count how often each embedding occurs. The weights are not normalised.

    The phrases above a phrase cancel in this difference, up to rounding relative to their sum.

    ``mode="ref"`` follows the published code: it divides by ``V_ij`` (the leaf is added but not counted), and uses the
    depth of the phrase, counted from the root, as its vertical index.

    Args:
        leaves: ``L``, the values of the leaves.
        nodes: ``N``, the values of the phrases, in any order.
        weights: ``w``, one per leaf and head.
        spans: half-open leaf intervals of the phrases; padding is an empty interval, and gets zeros.
        parents: index of each phrase's parent; a root is its own parent, or has -1.
        vertical: a table of half the channels; row 0 is never used, and larger indices use the last row.
        horizontal: a table of the other half; row 0 is never used, and larger indices use the last row.
        mode: ``"paper"`` or ``"ref"``.

    Raises:
        ValueError: for an unknown mode, tables that are not half as wide as the values, or malformed trees.

    Example:
        >>> leaves = torch.tensor([[[[2.0, 0.0], [0.0, 4.0], [6.0, 2.0]]]])
        >>> nodes = torch.tensor([[[[1.0, 1.0], [3.0, -1.0]]]])
        >>> spans, parents = torch.tensor([[[0, 3], [1, 3]]]), torch.tensor([[0, 0]])
        >>> hierarchical_accumulation(leaves, nodes, torch.tensor([[[1.0, 0.5, 2.0]]]), spans, parents)
        tensor([[[[2.9444, 0.8333],
                  [4.8750, 0.8750]]]])
    """
    dtype = torch.promote_types(leaves.dtype, torch.float32)
    with torch.no_grad():
        operator = TreeOperator.from_spans(spans, parents, leaves.shape[2], mode=mode, dtype=dtype)
    return accumulate(leaves, nodes, weights, operator, vertical=vertical, horizontal=horizontal)


def accumulate(
    leaves: Float[Tensor, "batch head leaf channel"],
    nodes: Float[Tensor, "batch head phrase channel"],
    weights: Float[Tensor, "batch head leaf"],
    trees: TreeOperator,
    *,
    vertical: Float[Tensor, "height half"] | None = None,
    horizontal: Float[Tensor, "position half"] | None = None,
) -> Float[Tensor, "batch head phrase channel"]:
    """`hierarchical_accumulation` for trees as an operator, so that layers and heads can share it.

    Sums of many small numbers, and their differences, are never computed in half precision, even under autocast.

    Args:
        leaves: ``L``, the values of the leaves.
        nodes: ``N``, the values of the phrases.
        weights: ``w``, one per leaf and head.
        trees: the operator of the batch.
        vertical: a table of half the channels; row 0 is never used, and larger indices use the last row.
        horizontal: a table of the other half; row 0 is never used, and larger indices use the last row.

    Raises:
        ValueError: for tables that are not half as wide as the values, or without a usable row.

    Example:
        >>> trees = TreeOperator(torch.ones(1, 1, 2, dtype=torch.bool), torch.ones(1, 1, 1, dtype=torch.bool))
        >>> accumulate(torch.ones(1, 1, 2, 4), torch.zeros(1, 1, 1, 4), torch.ones(1, 1, 2), trees)
        tensor([[[[0.5000, 0.5000, 0.5000, 0.5000]]]])
    """
    channels = nodes.shape[-1]
    for name, table in (("vertical", vertical), ("horizontal", horizontal)):
        if table is not None and (2 * table.shape[1] != channels or table.shape[0] < 2):
            raise ValueError(
                f"{name} expects a table of at least 2 rows and half of {channels} channels, got {tuple(table.shape)}"
            )
    with full_precision(nodes):
        return _accumulate(leaves, nodes, weights, trees, vertical, horizontal).to(nodes.dtype)


def _accumulate(
    leaves: Tensor,
    nodes: Tensor,
    weights: Tensor,
    trees: TreeOperator,
    vertical: Tensor | None,
    horizontal: Tensor | None,
) -> Tensor:
    """The result of ``accumulate``, in the dtype of the operator."""
    batch, heads, phrases, channels = nodes.shape
    if vertical is not None and trees.mode == "ref":
        met = take_rows(vertical, trees.depths.clamp(max=len(vertical) - 1))
        nodes = nodes + F.pad(met, (0, channels // 2)).unsqueeze(1)
    # Heads are placed side by side, so that all of them share the matrices of the trees.
    leaves, nodes, weights = (
        part.to(trees.operator.dtype).transpose(1, 2) for part in (leaves, nodes, weights.unsqueeze(-1))
    )
    below_root = torch.baddbmm(leaves.flatten(2), trees.cover.mT, nodes.flatten(2))
    weighted = below_root.unflatten(2, (heads, channels)) * weights
    total = (trees.operator @ weighted.flatten(2)).unflatten(2, (heads, channels))
    above = (trees.above @ nodes.flatten(2)).unflatten(2, (heads, channels))
    total = torch.addcmul(total, (trees.operator @ weights.squeeze(-1)).unsqueeze(-1), above, value=-1)
    if horizontal is not None or (vertical is not None and trees.mode == "paper"):
        flat = weights.squeeze(-1)
        halves = [total.new_zeros(()).expand(batch, phrases, heads, channels // 2)] * 2
        if vertical is not None and trees.mode == "paper":
            # From phrase to leaf the index counts down to one: a sum over the first rows of the table.
            halves[0] = trees.by_height(flat, _rows(vertical, trees.by_height.width, flat.dtype).cumsum(0))
        if horizontal is not None:
            halves[1] = trees.by_place(flat, _rows(horizontal, trees.by_place.width, flat.dtype))
        total = total + torch.cat(halves, dim=-1)
    return total.transpose(1, 2)


def _rows(table: Tensor, number: int, dtype: torch.dtype) -> Tensor:
    """The rows for the indices 1 to ``number``, the last of the table standing in for all beyond it."""
    return take_rows(table, torch.arange(1, number + 1, device=table.device).clamp(max=len(table) - 1)).to(dtype)
