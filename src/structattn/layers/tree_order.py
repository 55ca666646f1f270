"""The order in which a bottom-up pass visits the nodes of many trees at once: level by level.

Integers only, computed once per batch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F

from structattn.data import TreeBatch


@dataclass(frozen=True, eq=False)
class Children:
    """The children of the nodes of one level, in any order, as a cell sees them."""

    #: for each child, the row of its parent among the nodes of the level.
    parents: Int64[Tensor, " child"]
    #: for each child, its place among its siblings, from 0 (the first) to 1 (the last); 0 for an only child.
    places: Float[Tensor, " child"]
    #: number of nodes of the level; as many as children if ``None``.
    num_parents: int | None = None
    #: which rows are children at all, as one column; all if ``None``.
    present: Bool[Tensor, "child 1"] | None = None

    def total(self, values: Float[Tensor, "child dim"]) -> Float[Tensor, "parent dim"]:
        """For each parent the sum over its children."""
        zeros = torch.zeros_like(values)
        if self.num_parents is not None:
            zeros = values.new_zeros(self.num_parents, values.shape[1])
        if self.present is not None:
            values = torch.where(self.present, values, 0.0)
        return zeros.index_add(0, self.parents, values)


#: ``(children's values, children, rows) -> values`` of the nodes of one level; ``rows`` is their slice of all nodes.
Cell = Callable[[tuple[Tensor, ...], Children, slice], tuple[Tensor, ...]]


class TreeOrder:
    """The real nodes of a batch of trees, leaves first, then level by level; siblings in the order of their words.

    The cost of a pass is proportional to the number of nodes, with a few operations per level, however deep the trees.
    """

    # Nodes of a level are sorted by the level of their parents, so that the children of a level are one slice of each
    # level below it.
    def __init__(self, trees: TreeBatch, dtype: torch.dtype) -> None:
        batch, width = trees.parents.shape
        first_word = _first_words(trees).flatten()
        parent = (trees.parents + torch.arange(batch, device=trees.parents.device)[:, None] * width).flatten()
        level = trees.levels().flatten()
        is_root = parent == torch.arange(batch * width, device=parent.device)
        real = trees.mask.flatten().nonzero().squeeze(1)
        num_levels = int(level.max()) + 1 if len(real) else 0
        # Roots go to a level above all others, which no cell reads.
        goal = torch.where(is_root, num_levels, level[parent])

        #: flat indices ``sentence * width + column`` of the real nodes, in order.
        self.nodes: Tensor = real[_argsort(level[real], goal[real])]
        self.width = width
        self.batch = batch
        flow = torch.bincount(
            level[self.nodes] * (num_levels + 1) + goal[self.nodes], minlength=num_levels * (num_levels + 1)
        )
        #: ``[from][to]``: number of nodes of one level with parents in another; the last column is for roots.
        self.flow: list[list[int]] = flow.view(num_levels, num_levels + 1).tolist()
        self.level_sizes: list[int] = [sum(row) for row in self.flow]

        row = torch.empty(batch * width, dtype=torch.int64, device=parent.device)
        row[self.nodes] = torch.arange(len(self.nodes), device=parent.device)
        start = torch.tensor([0, *self.level_sizes], device=parent.device).cumsum(0)
        below = self.nodes[~is_root[self.nodes]]
        places = _places(parent[below], first_word[below], dtype)
        by_goal = goal[below].argsort(stable=True)
        below, places = below[by_goal], places[by_goal]
        rows = row[parent[below]] - start[goal[below]]
        counts = [sum(sizes[to] for sizes in self.flow) for to in range(num_levels)]
        #: for each level, its children.
        self.children: list[Children] = [
            Children(*parts) for parts in zip(rows.split(counts), places.split(counts), self.level_sizes, strict=True)
        ]

    @property
    def leaves(self) -> slice:
        """The nodes without children."""
        return slice(0, self.level_sizes[0] if self.level_sizes else 0)

    def words(self, states: Float[Tensor, "batch word dim"]) -> Float[Tensor, "leaf dim"]:
        """The states of the nodes without children, in order."""
        nodes = self.nodes[self.leaves]
        return states.flatten(0, 1)[nodes // self.width * states.shape[1] + nodes % self.width]

    def run(self, leaves: tuple[Tensor, ...], above: Cell) -> tuple[Tensor, ...]:
        """Run a cell from the leaves to the roots; the values of all nodes, in the order of ``nodes``."""
        if not self.level_sizes:
            return leaves
        done: list[tuple[Tensor, ...]] = []
        waiting: list[list[tuple[Tensor, ...]]] = [[] for _ in range(len(self.level_sizes) + 1)]
        end = 0
        for level, size in enumerate(self.level_sizes):
            if level == 0:
                values = leaves
            else:
                gathered = tuple(torch.cat(parts) for parts in zip(*waiting[level], strict=True))
                values = above(gathered, self.children[level], slice(end, end + size))
            end += size
            done.append(values)
            for goal, parts in enumerate(zip(*(value.split(self.flow[level]) for value in values), strict=True)):
                if self.flow[level][goal]:
                    waiting[goal].append(parts)
            waiting[level] = []
        return tuple(torch.cat(parts) for parts in zip(*done, strict=True))

    def unfold(self, values: Float[Tensor, "real dim"]) -> Float[Tensor, "batch node dim"]:
        """Move rows in the order of ``nodes`` back to the nodes' positions in the batch; zero at padding."""
        whole = values.new_zeros(self.batch * self.width, values.shape[1])
        return whole.index_copy(0, self.nodes, values).view(self.batch, self.width, -1)


class TreeSweep:
    """The same pass over all columns of the batch, once for each level: no shape depends on the trees.

    For graphs, where it is the same loop for any depth, and for accelerators, which need not wait for shapes.
    """

    def __init__(self, trees: TreeBatch, dtype: torch.dtype) -> None:
        self.batch, self.width = trees.parents.shape
        # A graph that starts here may break before the rounds, which are then counted in _rounds.
        self._height = None if torch.compiler.is_compiling() or trees.parents.is_meta else trees.height
        column = torch.arange(self.width, device=trees.parents.device)
        self._real = trees.mask.flatten().unsqueeze(1)
        self._level = trees.levels().flatten().unsqueeze(1)
        is_child = (trees.mask & (trees.parents != column)).flatten().unsqueeze(1)
        first_word = _first_words(trees)
        siblings = (trees.parents[:, :, None] == trees.parents[:, None, :]) & is_child.view(-1, 1, self.width)
        earlier = first_word[:, None, :] < first_word[:, :, None]
        tied = (first_word[:, None, :] == first_word[:, :, None]) & (column < column[:, None])
        number, count = (siblings & (earlier | tied)).sum(-1), siblings.sum(-1)
        places = number.to(dtype) / (count - 1).clamp(min=1).to(dtype)
        offset = torch.arange(self.batch, device=trees.parents.device)[:, None] * self.width
        self._children = Children((trees.parents + offset).flatten(), places.flatten(), present=is_child)

        #: all nodes, with or without children.
        self.nodes = self.leaves = slice(None)

    def words(self, states: Float[Tensor, "batch word dim"]) -> Float[Tensor, "row dim"]:
        """The states of all nodes, zero at phrases."""
        return F.pad(states, (0, 0, 0, self.width - states.shape[1])).flatten(0, 1)

    def run(self, leaves: tuple[Tensor, ...], above: Cell) -> tuple[Tensor, ...]:
        """Run a cell from the leaves to the roots; its values for nodes without children are not used."""
        level, children = self._level, self._children

        def is_below(step: Tensor, *values: Tensor) -> Tensor:
            return step <= level.amax()

        def rise(step: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
            # A node keeps the values that it gets in the round of its own level.
            results = above(values, children, slice(None))
            return step + 1, *(torch.where(level == step, new, old) for new, old in zip(results, values, strict=True))

        risen: tuple[Tensor, ...] = (torch.ones((), dtype=torch.int64, device=level.device), *leaves)
        if not torch.compiler.is_compiling():
            for _ in range(self._rounds()):
                risen = rise(*risen)
            return risen[1:]
        risen = while_loop(is_below, rise, risen)
        return risen[1:]

    def _rounds(self) -> int:
        if self._level.is_meta:
            return 1  # one round determines all shapes
        return int(self._level.amax()) if self._height is None else self._height

    def unfold(self, values: Float[Tensor, "row dim"]) -> Float[Tensor, "batch node dim"]:
        """The values at the nodes' positions in the batch; zero at padding."""
        return torch.where(self._real, values, 0.0).view(self.batch, self.width, -1)


def tree_order(trees: TreeBatch, dtype: torch.dtype) -> TreeOrder | TreeSweep:
    """How to visit the nodes: level by level on the CPU, by sweeps in a graph and on an accelerator."""
    by_level = trees.parents.is_cpu and not torch.compiler.is_compiling()
    return TreeOrder(trees, dtype) if by_level else TreeSweep(trees, dtype)


def _first_words(trees: TreeBatch) -> Tensor:
    """The first word below each node, itself included, which puts siblings in reading order."""
    if not trees.num_leaves:
        return torch.zeros_like(trees.parents)
    words_below = trees.subtrees()[:, :, : trees.num_leaves]
    return words_below.to(torch.uint8).argmax(-1)


def _places(parent: Tensor, first_word: Tensor, dtype: torch.dtype) -> Tensor:
    """The place of each child among its siblings, from 0 to 1."""
    sequence = _argsort(parent, first_word)
    sorted_parent = parent[sequence]
    _, group, count = torch.unique_consecutive(sorted_parent, return_inverse=True, return_counts=True)
    number = torch.arange(len(parent), device=parent.device) - (count.cumsum(0) - count)[group]
    places = torch.empty(len(parent), dtype=dtype, device=parent.device)
    places[sequence] = number.to(dtype) / (count[group] - 1).clamp(min=1).to(dtype)
    return places


def _argsort(major: Tensor, minor: Tensor) -> Tensor:
    """Indices that sort by the first key, then by the second, then by position."""
    by_minor = minor.argsort(stable=True)
    return by_minor[major[by_minor].argsort(stable=True)]
