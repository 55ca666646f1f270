"""A batch of trees as parent pointers, with depths, distances and ancestors of their nodes.

Dependency trees (each node a word) and phrase trees (words first, then phrases) are one type here. The path length is
the dependency distance of Qi et al. 2020 (MS-SAN), the subtree relation that of subtree masking in Nguyen et al. 2020
(Tree-Structured Attention).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

_Fact = TypeVar("_Fact")


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Trees (or forests) of one batch: ``parents[b, i]`` is the column of the parent of node ``i``.

    A root points to itself, and so does padding, which makes ``gather`` safe. In a phrase tree word ``j`` stands in
    column ``j`` and the phrases follow from column ``num_leaves`` on; in a dependency tree every node is a word.
    Several roots are a forest: the roots then lie two steps apart, as below one virtual root.

    Attributes:
        parents: column of each node's parent.
        mask: ``True`` where a node is real.
        labels: label id of each node, 0 where there is none; ids are those of ``Vocabulary.labels``.
        num_leaves: number of columns that belong to words, padding included.

    Raises:
        ValueError: shapes that differ, a parent that is no column or is padding, parents that form a cycle. Contents
            are checked on the CPU only, where looking at them does not stall a device.

    Example:
        >>> import torch
        >>> heads = torch.tensor([[1, 1, 1]])  # words 0 and 2 hang on word 1, the root
        >>> tree = TreeBatch(heads, torch.ones(1, 3, dtype=torch.bool), None, num_leaves=3)
        >>> tree.distances()[0].tolist()
        [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
        >>> tree.depths()[0].tolist()
        [1, 0, 1]
    """

    parents: Int64[Tensor, "batch node"]
    mask: Bool[Tensor, "batch node"]
    labels: Int64[Tensor, "batch node"] | None = None
    num_leaves: int = field(kw_only=True)
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.parents.dim() != 2 or self.parents.shape != self.mask.shape:
            raise ValueError(
                f"TreeBatch expects parents and mask of one shape (batch, node), "
                f"got {tuple(self.parents.shape)} and {tuple(self.mask.shape)}"
            )
        if self.labels is not None and self.labels.shape != self.parents.shape:
            raise ValueError(
                f"TreeBatch expects labels of shape {tuple(self.parents.shape)}, got {tuple(self.labels.shape)}"
            )
        if not 0 <= self.num_leaves <= self.parents.shape[1]:
            raise ValueError(
                f"TreeBatch expects num_leaves between 0 and its {self.parents.shape[1]} nodes, got {self.num_leaves}"
            )
        if self.parents.device.type == "cpu":
            self._check()

    def ancestors(self) -> Bool[Tensor, "batch node node"]:
        """``[b, i, k]`` is ``True`` if ``k`` lies above ``i`` or is ``i``; ``False`` for padding."""
        return self.remember("ancestors", self._ancestors)

    def subtrees(self) -> Bool[Tensor, "batch node node"]:
        """``[b, i, k]`` is ``True`` if ``k`` lies below ``i`` or is ``i``: the ancestors, transposed."""
        return self.ancestors().mT

    def depths(self) -> Int64[Tensor, "batch node"]:
        """Number of steps up to the root; 0 at a root and at padding."""
        return self.remember("depths", lambda: (self.ancestors().sum(-1) - 1).clamp(min=0))

    def levels(self) -> Int64[Tensor, "batch node"]:
        """Number of steps down to the deepest node of the subtree; 0 at a leaf and at padding.

        A node's children all have smaller levels, so a bottom-up pass may treat one level at a time.
        """
        return self.remember("levels", self._levels)

    def distances(self) -> Int64[Tensor, "batch node node"]:
        """Steps on the path between two nodes: ``depth_i + depth_j - 2 * depth(lowest common ancestor)``.

        Nodes of different trees are joined by a virtual root above all roots, so two roots are 2 apart. Padding is 0.
        """
        return self.remember("distances", lambda: self._distances(self.parents.shape[1]))

    def leaf_distances(self) -> Int64[Tensor, "batch leaf leaf"]:
        """``distances`` between the words only, without computing the rest."""
        return self.remember("leaf_distances", lambda: self._distances(self.num_leaves))

    def to(self, device: torch.device | str) -> "TreeBatch":
        """The same trees on another device."""
        labels = None if self.labels is None else self.labels.to(device)
        return TreeBatch(self.parents.to(device), self.mask.to(device), labels, num_leaves=self.num_leaves)

    def remember(self, name: str, compute: Callable[[], _Fact]) -> _Fact:
        """A cached value by name, built on first use: for what all layers need of the same trees.

        Example:
            >>> tree = TreeBatch(torch.tensor([[0]]), torch.tensor([[True]]), num_leaves=1)
            >>> tree.remember("size", lambda: 1), tree.remember("size", lambda: 2)
            (1, 1)
        """
        if name not in self._known:
            # A tensor made in inference mode could not be used for training later; a cached one must be.
            with torch.inference_mode(False), torch.no_grad():
                self._known[name] = compute()
        found: _Fact = self._known[name]
        return found

    def _doublings(self) -> int:
        """How often the stride must double before every walk upwards has reached its root."""
        return max(self.parents.shape[1] - 1, 0).bit_length()

    def _ancestors(self) -> Tensor:
        """Pointer doubling: within ``2s`` steps of me lies what is within ``s`` steps of me or of my ``s``-th parent.

        Rows are copied whole, so this costs ``n^2 log n`` instead of the ``n^3 log n`` of squaring a matrix.
        """
        batch, nodes = self.parents.shape
        offset = torch.arange(batch, device=self.parents.device)[:, None] * nodes
        above = torch.eye(nodes, dtype=torch.bool, device=self.parents.device).repeat(batch, 1)
        jump = (self.parents + offset).flatten()
        for _ in range(self._doublings()):
            above = above | above.index_select(0, jump)
            jump = jump.index_select(0, jump)
        return above.view(batch, nodes, nodes) & self.mask[:, :, None]

    def _distances(self, rows: int) -> Tensor:
        """Ancestors of one of the two but not of both: each is one step of the path (the common root drops out)."""
        above = self.ancestors()[:, :rows]
        count = above.sum(-1)
        # Under autocast the product would be rounded to 8 bits; in float32 counts are exact.
        with torch.autocast(device_type=above.device.type, enabled=False):
            real = above.float()
            common = (real @ real.mT).long()
        mask = self.mask[:, :rows]
        return (count[:, :, None] + count[:, None, :] - 2 * common) * (mask[:, :, None] & mask[:, None, :])

    def _levels(self) -> Tensor:
        depths = self.depths()
        if depths.shape[1] == 0:
            return depths
        deepest = torch.where(self.subtrees(), depths[:, None, :], -1).amax(-1)
        return (deepest - depths).clamp(min=0)

    def _check(self) -> None:
        nodes = self.parents.shape[1]
        columns = torch.arange(nodes)
        bad = (self.parents < 0) | (self.parents >= nodes)
        if not bad.any():
            real = self.mask.gather(1, self.parents)
            bad = torch.where(self.mask, ~real, self.parents != columns)
        if bad.any():
            row, node = (int(index) for index in bad.nonzero()[0])
            raise ValueError(
                f"TreeBatch expects parents to be real nodes (padding: itself) among columns 0..{nodes - 1}, "
                f"got parent {int(self.parents[row, node])} for node {node} of tree {row}"
            )
        jump = self.parents
        for _ in range(self._doublings()):
            jump = jump.gather(1, jump)
        cyclic = self.parents.gather(1, jump) != jump
        if cyclic.any():
            row, node = (int(index) for index in cyclic.nonzero()[0])
            raise ValueError(f"TreeBatch expects trees, but the parents above node {node} of tree {row} form a cycle")
