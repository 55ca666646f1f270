"""All dependency trees: sums by the matrix-tree theorem, best trees by Edmonds' algorithm, and exact samples.

Reference: Tutte (1948); Koo et al. (2007), Structured prediction models via the matrix-tree theorem; Lawler (1972), k
best solutions by partition; Zmigrod et al. (2021), Efficient sampling of dependency structures.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.arborescence import maximum_spanning_trees
from structattn.kernels.elimination import by_elimination, eliminations
from structattn.kernels.family import Family
from structattn.kernels.heads import prepared, sizes_of
from structattn.kernels.operators import Operators
from structattn.kernels.random import place, sample_keys, uniform
from structattn.kernels.selection import categorical

# The random choices of a tree, see `kernels.random.place`: whether an arc takes a detour through an eliminated node,
# and the head of that node if no arc does.
_DETOUR, _HEAD = range(2)


@dataclass(frozen=True)
class SpanningTreeSelector:
    """Best and random spanning trees.

    Among equal trees, each contraction prefers the head with the lowest id, then the word that comes first.

    Attributes:
        num_words: number of words of the longest sentence.
        single_root: whether exactly one word has the root as its head.
    """

    num_words: int
    single_root: bool

    def best(
        self, scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], *, count: int
    ) -> tuple[Float[Tensor, "{count} batch"], Bool[Tensor, "{count} batch part"]]:
        """The ``count`` best trees, by partitioning the remaining trees after each one (Lawler, 1972)."""
        arcs = scores.unflatten(-1, (self.num_words, self.num_words + 1))
        if count == 1:
            heads, found = maximum_spanning_trees(arcs, lengths, single_root=self.single_root)
            return _scores(arcs, heads, lengths, found)[None], _arcs(heads[None], lengths, found[None])
        options = torch.ones_like(arcs, dtype=torch.bool).unsqueeze(1)
        heads, values = self._solve(arcs, lengths, options)
        batch = torch.arange(len(scores), device=scores.device)
        best = []
        for rank in range(count):
            if not values.shape[1]:
                best.append((values.new_full((len(scores),), -torch.inf), heads.new_zeros(len(scores), self.num_words)))
                continue
            value, slot = values.max(1)
            tree = heads[batch, slot]
            best.append((value, tree))
            if rank == count - 1:
                break
            without = values.scatter(1, slot[:, None], -torch.inf)
            parts_left = _partition(options[batch, slot], tree)
            new_heads, new_values = self._solve(arcs, lengths, parts_left)
            # Nothing is left to choose for padding, nor where there was no tree.
            real = (torch.arange(self.num_words, device=scores.device) < lengths[:, None]) & (value > -torch.inf)[
                :, None
            ]
            new_values = new_values.masked_fill(~real, -torch.inf)
            values = torch.cat([without, new_values], 1)
            kept = values.sort(dim=1, descending=True, stable=True).indices[:, : count - rank - 1]
            values = values.gather(1, kept)
            heads = torch.cat([heads, new_heads], 1)[batch[:, None], kept]
            options = torch.cat([options, parts_left], 1)[batch[:, None], kept]
        values, trees = (torch.stack(column) for column in zip(*best, strict=True))
        return values, _arcs(trees, lengths, values > -torch.inf)

    def draw(
        self,
        scores: Float[Tensor, "batch part"],
        lengths: Int[Tensor, " batch"],
        streams: Int[Tensor, " batch"],
        *,
        count: int,
    ) -> Bool[Tensor, "{count} batch part"]:
        """``count`` exact samples, by undoing the eliminations of the matrix-tree theorem.

        Random walks (Wilson, 1996) also sample exactly, but can walk forever around a cycle of strong arcs. Here each
        step costs the same: given a tree over the nodes ``0 .. k-1`` of the reduced graph, every arc is an old arc or a
        detour through ``k``. The ends of detours become children of ``k``; the start of the topmost detour becomes its
        head. Trees with the same detours have the same total weight before and after (the weighted Cayley formula), so
        the sample stays exact.
        """
        weights = scores.unflatten(-1, (self.num_words, self.num_words + 1)).transpose(-1, -2).unsqueeze(0)
        log_partition, steps = eliminations(weights, lengths, single_root=self.single_root)
        keys = sample_keys(streams, count)
        heads = torch.zeros(count, len(scores), 0, dtype=torch.int64, device=scores.device)
        for node, gone in steps:
            places = place(_DETOUR, 0, node) + place(0, 1, 0) * torch.arange(1, node, device=scores.device)
            via = gone.via[0].expand(count, -1, -1, -1).gather(-2, heads.unsqueeze(-2)).squeeze(-2)
            detour = uniform(keys.unsqueeze(-1), places) < via
            shares = gone.heads[0, ..., 0]
            if self.single_root and node > 1:
                shares = torch.cat([torch.zeros_like(shares[:, :1]), shares[:, 1:]], 1)
            own_place = torch.tensor(place(_HEAD, 0, node), device=scores.device)
            alone = categorical(shares, uniform(keys.T, own_place)).T
            head = torch.where(detour.any(-1), _start_of_top_detour(heads, detour), alone)
            heads = torch.cat([heads.masked_fill(detour, node), head.unsqueeze(-1)], -1)
        return _arcs(heads, lengths, (log_partition > -torch.inf).expand(count, -1))

    def _solve(
        self,
        arcs: Float[Tensor, "batch word head_id"],
        lengths: Tensor,
        options: Bool[Tensor, "batch choice word head_id"],
    ) -> tuple[Int[Tensor, "batch choice word"], Float[Tensor, "batch choice"]]:
        """The best tree among the arcs of each choice, and its score."""
        choices = options.shape[1]
        allowed = arcs.unsqueeze(1).masked_fill(~options, -torch.inf).flatten(0, 1)
        repeated = lengths.repeat_interleave(choices)
        heads, found = maximum_spanning_trees(allowed, repeated, single_root=self.single_root)
        values = _scores(allowed, heads, repeated, found)
        return heads.view(len(arcs), choices, self.num_words), values.view(len(arcs), choices)


def _partition(
    options: Bool[Tensor, "batch word head_id"], heads: Int[Tensor, "batch word"]
) -> Bool[Tensor, "batch choice word head_id"]:
    """All trees but one, in disjoint sets: set ``w`` agrees with it before word ``w`` and differs there."""
    words = heads.shape[1]
    chosen = torch.nn.functional.one_hot(heads, words + 1).bool().unsqueeze(1)
    choice = torch.arange(words, device=heads.device)
    before = (choice < choice[:, None])[..., None]
    here = (choice == choice[:, None])[..., None]
    return options.unsqueeze(1) & (chosen | ~before) & ~(chosen & here)


def _start_of_top_detour(heads: Int[Tensor, "count batch word"], detour: Bool[Tensor, "count batch word"]) -> Tensor:
    """Head of the first word that has a detour while no word above it has one."""
    if not heads.shape[-1]:
        return heads.new_zeros(heads.shape[:-1])
    root = torch.zeros_like(detour[..., :1])
    parent = torch.cat([torch.zeros_like(heads[..., :1]), heads], -1)
    above = torch.cat([root, detour], -1).gather(-1, parent)
    for _ in range(parent.shape[-1].bit_length()):
        above = above | above.gather(-1, parent)
        parent = parent.gather(-1, parent)
    top = (detour & ~above[..., 1:]).int().argmax(-1, keepdim=True)
    return heads.gather(-1, top).squeeze(-1)


def _scores(arcs: Tensor, heads: Int[Tensor, "batch word"], lengths: Tensor, found: Tensor) -> Tensor:
    """Sum of the arc scores of each tree; ``-inf`` where there is none."""
    values = arcs.gather(-1, heads.unsqueeze(-1)).squeeze(-1)
    real = torch.arange(heads.shape[-1], device=arcs.device) < lengths[:, None]
    return values.masked_fill(~real, 0).sum(-1).masked_fill(~found, -torch.inf)


def _arcs(heads: Int[Tensor, "count batch word"], lengths: Tensor, found: Bool[Tensor, "count batch"]) -> Tensor:
    words = heads.shape[-1]
    real = (torch.arange(words, device=heads.device) < lengths[:, None]) & found[..., None]
    arcs = torch.zeros(*heads.shape, words + 1, dtype=torch.bool, device=heads.device)
    return arcs.scatter_(-1, heads.unsqueeze(-1), real.unsqueeze(-1)).flatten(-2)


def _program(numbers: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    num_words, single_root = sizes
    weights = numbers.unflatten(-1, (num_words, num_words + 1)).transpose(-1, -2)
    log_partition, used = by_elimination(weights, lengths, single_root=bool(single_root))
    return log_partition, used.transpose(-1, -2).flatten(-2)


OPERATORS = Operators(
    Family(
        name="spanning_tree",
        sizes=sizes_of,
        prepare=prepared,
        program=_program,
        selector=lambda sizes: SpanningTreeSelector(sizes[0], bool(sizes[1])),
        row_axes=lambda scores: [1],
    )
)
