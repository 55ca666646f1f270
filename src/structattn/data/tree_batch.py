"""A batch of trees as parent pointers, with depths, distances and ancestors of their nodes.

Dependency trees (each node a word) and phrase trees (words first, then phrases) are one type here. The path length is
the dependency distance of Qi et al. 2020 (MS-SAN), the subtree relation that of subtree masking in Nguyen et al. 2020
(Tree-Structured Attention).
"""

import functools
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.utils import _pytree

_Class = TypeVar("_Class")
_Fact = TypeVar("_Fact")


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Trees (or forests) of one batch: ``parents[b, i]`` is the column of the parent of node ``i``.

    A root points to itself, and so does padding, which makes ``gather`` safe. In a phrase tree, word ``j`` is in column
    ``j`` and the phrases follow from column ``num_leaves`` on; in a dependency tree every node is a word. Several roots
    form a forest: they are two steps apart, as if below one virtual root.

    Attributes:
        parents: column of each node's parent.
        mask: ``True`` where a node is real.
        labels: label id of each node, 0 where there is none; ids are those of ``Vocabulary.labels``.
        label_codes: ``label_code`` of each node's label, which needs no vocabulary; 0 where there is none.
        num_leaves: number of columns that belong to words, padding included.

    Raises:
        ValueError: if shapes differ, a parent is padding or not a column, or parents form a cycle. Values are checked
            on the CPU only, where reading them does not stall a device.

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
    label_codes: Int64[Tensor, "batch node"] | None = None
    num_leaves: int = field(kw_only=True)
    _height: int | None = field(default=None, init=False, repr=False)
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _is_in_graph: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.parents.dim() != 2 or self.parents.shape != self.mask.shape:
            raise ValueError(
                f"TreeBatch expects parents and mask of one shape (batch, node), "
                f"got {tuple(self.parents.shape)} and {tuple(self.mask.shape)}"
            )
        for name, labels in (("labels", self.labels), ("label_codes", self.label_codes)):
            if labels is not None and labels.shape != self.parents.shape:
                raise ValueError(
                    f"TreeBatch expects {name} of shape {tuple(self.parents.shape)}, got {tuple(labels.shape)}"
                )
        if not 0 <= self.num_leaves <= self.parents.shape[1]:
            raise ValueError(
                f"TreeBatch expects num_leaves between 0 and its {self.parents.shape[1]} nodes, got {self.num_leaves}"
            )
        if self.parents.is_cpu:
            self._check()

    def ancestors(self) -> Bool[Tensor, "batch node node"]:
        """``[b, i, k]`` is ``True`` if ``k`` lies above ``i`` or is ``i``; ``False`` for padding."""
        return self.remember("ancestors", self._ancestors)

    def subtrees(self) -> Bool[Tensor, "batch node node"]:
        """``[b, i, k]`` is ``True`` if ``k`` lies below ``i`` or is ``i``: the ancestors, transposed."""
        return self.ancestors().mT

    @property
    def height(self) -> int:
        """Largest number of steps from a node up to its root; computed on the CPU, before trees change device."""
        if self._height is None:
            depths = self.depths()
            return int(depths.max()) if depths.numel() else 0
        return self._height

    def depths(self) -> Int64[Tensor, "batch node"]:
        """Number of steps up to the root; 0 at a root and at padding."""
        return self.remember("depths", lambda: (self.ancestors().sum(-1) - 1).clamp(min=0))

    def roots(self) -> Bool[Tensor, "batch node"]:
        """Which nodes are roots; a sentence may have several."""
        return self.mask & (self.parents == torch.arange(self.parents.shape[1], device=self.parents.device))

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

    def climbs(self) -> Int64[Tensor, "batch leaf leaf"]:
        """Steps from a word (row) up to what it shares with another (column): its ancestors that the other lacks.

        ``leaf_distances`` are these and their transpose, the steps down. Two roots are one step below what they share.
        """
        return self.remember("climbs", lambda: self._climbs(self.num_leaves))

    def to(self, device: torch.device | str) -> "TreeBatch":
        """The same trees on another device, with their cached values."""
        moved = self.from_tensors({name: tensor.to(device) for name, tensor in self.tensors().items()}, self.facts())
        object.__setattr__(moved, "_height", self._height)
        moved._cache.update({name: fact.to(device) for name, fact in self._cache.items()})
        return moved

    def tensors(self) -> dict[str, Any]:
        """The tensors by name: ``parents``, ``mask``, and ``labels`` and ``label_codes`` if there are any."""
        result = {name: getattr(self, name) for name in ("parents", "mask", "labels", "label_codes")}
        return {name: tensor for name, tensor in result.items() if tensor is not None}

    def facts(self) -> dict[str, Any]:
        """Everything else that a computation may depend on."""
        return {"num_leaves": self.num_leaves}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> "TreeBatch":
        """Trees that were taken apart by ``tensors()`` and ``facts()``; they are not checked again.

        Args:
            tensors: the tensors by name.
            facts: the number of leaves.
        """
        empty: dict[str, Any] = dict.fromkeys(("labels", "label_codes", "_height"))
        return assemble(cls, **{**empty, "_cache": {}, "_is_in_graph": False, **tensors, **facts})

    def remember(self, name: str, compute: Callable[[], _Fact]) -> _Fact:
        """A value cached under a name and computed on first use, for values that all layers need of the same trees.

        Args:
            name: the name.
            compute: computes the value: a tensor, or something with a method ``to`` like that of tensors.

        Returns:
            The value; in a graph of ``torch.compile`` that of this pass.

        Example:
            >>> tree = TreeBatch(torch.tensor([[0]]), torch.tensor([[True]]), num_leaves=1)
            >>> tree.remember("size", lambda: 1), tree.remember("size", lambda: 2)
            (1, 1)
        """
        if torch.compiler.is_compiling():
            if not self._is_in_graph:
                return compute()
            if name not in self._cache:
                with torch.no_grad():
                    self._cache[name] = compute()
        elif name not in self._cache:
            # A tensor made in inference mode could not be used for training later, as a cached one must be.
            with torch.inference_mode(False), torch.no_grad():
                self._cache[name] = compute()
        result: _Fact = self._cache[name]
        return result

    def in_graph(self) -> "TreeBatch":
        """A copy for one pass through a graph, without the values cached in other passes.

        ``torch.compile`` thus makes one graph, whether or not these trees have cached values already.
        """
        result = self.from_tensors(self.tensors(), self.facts())
        object.__setattr__(result, "_is_in_graph", True)
        return result

    def _doublings(self) -> int:
        """How often the stride must double before every walk upwards has reached its root."""
        if torch.compiler.is_compiling():  # one graph for trees of any size, up to 2^17 nodes
            return 17
        return max(self.parents.shape[1] - 1, 0).bit_length()

    def _ancestors(self) -> Tensor:
        """Pointer doubling: ancestors within ``2s`` steps are within ``s`` of the node or of its ``s``-th ancestor.

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
        """Count the ancestors of just one of the two: each is one step of the path (the common root drops out)."""
        climbs = self._climbs(rows)
        return climbs + climbs.mT

    def _climbs(self, rows: int) -> Tensor:
        above = self.ancestors()[:, :rows]
        # Counts must be exact: autocast would round a product of float32 to 8 bits, but it leaves float64 alone.
        real = above.double()
        common = (real @ real.mT).long()
        mask = self.mask[:, :rows]
        return (above.sum(-1)[:, :, None] - common) * (mask[:, :, None] & mask[:, None, :])

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
        steps = (jump != columns).long()
        for _ in range(self._doublings()):
            steps = steps + steps.gather(1, jump)
            jump = jump.gather(1, jump)
        cyclic = self.parents.gather(1, jump) != jump
        if cyclic.any():
            row, node = (int(index) for index in cyclic.nonzero()[0])
            raise ValueError(f"TreeBatch expects trees, but the parents above node {node} of tree {row} form a cycle")
        object.__setattr__(self, "_height", int(steps.max()) if steps.numel() else 0)


@functools.lru_cache(maxsize=4096)
def label_code(label: str) -> int:
    """A number for an arc label, the same in every batch: ``crc32(main label) * 2^31 + crc32(label)``, each of 31 bits.

    The main label ends at the first colon: the codes of ``nsubj:pass`` and ``nsubj`` agree in their upper bits.
    """
    main, whole = (zlib.crc32(text.encode()) % 2**31 for text in (label.partition(":")[0], label))
    return main * 2**31 + whole


@runtime_checkable
class Batch(Protocol):
    """A batch that can be taken apart into named tensors and plain facts, and put together again."""

    def tensors(self) -> dict[str, Any]:
        """All tensors by name."""
        ...

    def facts(self) -> dict[str, Any]:
        """Everything else that a computation may depend on, as JSON values."""
        ...

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> "Batch":
        """The batch of these tensors, which are not checked."""
        ...


def register_batch(cls: type[Batch]) -> None:
    """Make a class of batches a pytree: its tensors are the leaves, their names and the facts are the structure."""

    def flatten(batch: Batch) -> tuple[list[Any], str]:
        tensors = batch.tensors()
        return [*tensors.values()], json.dumps([[*tensors], batch.facts()], sort_keys=True)

    def flatten_with_keys(batch: Batch) -> tuple[list[tuple[Any, Any]], str]:
        leaves, context = flatten(batch)
        return [(_pytree.MappingKey(name), leaf) for name, leaf in zip(batch.tensors(), leaves, strict=True)], context

    def unflatten(leaves: Any, context: str) -> Batch:
        names, facts = json.loads(context)
        return cls.from_tensors(dict(zip(names, leaves, strict=True)), facts)

    _pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        to_dumpable_context=lambda context: context,
        from_dumpable_context=lambda context: context,
        flatten_with_keys_fn=flatten_with_keys,
    )


def assemble(cls: type[_Class], **fields: Any) -> _Class:
    """A frozen dataclass with these fields, unchecked: a pytree may contain anything in place of a tensor."""
    instance = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def take_part(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


register_batch(TreeBatch)
