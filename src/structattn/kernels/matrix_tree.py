"""All dependency trees: sums by the matrix-tree theorem, exact samples, and the k best trees.

The determinant of a Laplacian loses all precision when the root is weak or the scores are widely spread, and its
inverse even more. Eliminating one node after the other in log space computes the same determinant with sums of positive
terms only. With ``A[h,m]`` the weight of head ``h`` for ``m``, eliminating ``k`` takes the factor ``d = sum_h A[h,k]``
out of the sum over all trees and leaves the weights ``A[h,m] + A[h,k] A[k,m] / d``. With a single root ``r``, ``d``
sums over words only, the factor is ``s = r[k] + d``, and the root row becomes ``(d r[m] + r[k] A[k,m]) / s``.

Reference: Tutte (1948); Koo et al. (2007), Structured prediction models via the matrix-tree theorem; Grassmann, Taksar
and Heyman (1985), Regenerative analysis and steady state distributions for Markov chains (the elimination without
subtraction); Lawler (1972), k best solutions by partition; Zmigrod et al. (2021), Efficient sampling of dependency
structures.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.dual_numbers import log_shares, logsumexp_and_shares, multiply, ones_like
from structattn.kernels.edmonds import find_best_trees
from structattn.kernels.eisner import arc_sizes, prepare_arcs
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.random import categorical, choice_id, sample_keys, uniform

# The kinds of random choices: whether an arc takes a detour through an eliminated node, and the head of that node if no
# arc does.
_DETOUR, _HEAD = range(2)
_HEADS = (-2,)


@dataclass(frozen=True)
class Elimination:
    """The elimination of one node; numbers have the axes ``(order, batch, ...)``, rows are heads, columns modifiers."""

    log_factor: Tensor  # log of the factor taken out of the sum; zero where the node is padding
    weights: Tensor  # log-weights among the nodes that remain
    heads: Tensor  # share of each remaining head in the in-weight of the node
    direct: Tensor  # share of the old arc in each new arc
    via: Tensor  # share of the detour through the node in each new arc
    root: Tensor | None  # share of the root and of the words in the factor; only with a single root


def eliminate(weights: Tensor, active: Bool[Tensor, " batch"], *, single_root: bool) -> Elimination:
    """Remove the last node ``k`` from log-weights ``(order, batch, head 0..k, modifier 1..k)``, where it is active."""
    column, row, remaining = weights[..., :-1, -1:], weights[..., -1:, :-1], weights[..., :-1, :-1]
    root = None
    if single_root:
        inner, heads, go = _word_heads(column[..., 1:, :])
        choice = torch.cat([column[..., :1, :], inner], -2)
        factor, root = logsumexp_and_shares(choice, _HEADS)
        log_root = log_shares(choice, _HEADS)
        heads = torch.cat([root[..., :1, :], heads], -2)
        go = torch.cat([log_root[..., :1, :], go], -2)
        stay = log_root[..., 1:, :].masked_fill(~active[:, None, None], 0)
        remaining = torch.cat([remaining[..., :1, :] + stay, remaining[..., 1:, :]], -2)
    else:
        factor, heads = logsumexp_and_shares(column, _HEADS)
        go = log_shares(column, _HEADS)
    detour = go + row
    loops = torch.ones(detour.shape[-2:], dtype=torch.bool, device=detour.device).tril(-1).triu(-1)
    detour[0].masked_fill_(loops, -torch.inf)
    merged, shares = logsumexp_and_shares(torch.stack([remaining, detour], -3), (-3,))
    log_factor = factor[..., 0, 0].masked_fill(~active, 0)
    direct, via = shares.unbind(-3)
    return Elimination(log_factor, merged.squeeze(-3), heads, direct, via, root)


def _word_heads(column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In-weight of a node from other words, their shares, and the logarithm of the shares.

    Of a node that no word can head they do not matter: equal shares, the limit of in-weights that vanish together.
    """
    if not column.shape[-2]:
        nothing = torch.zeros_like(column).sum(-2, keepdim=True)
        nothing[0] = -torch.inf
        return nothing, column, column
    inner, heads = logsumexp_and_shares(column, _HEADS)
    go = log_shares(column, _HEADS)
    go[0] = go[0].masked_fill(inner[0] == -torch.inf, -math.log(column.shape[-2]))
    return inner, heads, go


def restore(used: Tensor, step: Elimination) -> Tensor:
    """Marginals ``(order, batch, head, modifier)`` before an elimination, from those after it: its adjoint."""
    direct, via = multiply(step.direct, used), multiply(step.via, used)
    from_node = via.sum(-2, keepdim=True)
    to_node = via.sum(-1, keepdim=True)
    if step.root is None:
        alone = ones_like(to_node[..., :1, :]) - to_node.sum(-2, keepdim=True)
        column = to_node + multiply(step.heads, alone)
    else:
        heads = step.heads[..., 1:, :]
        by_root = to_node[..., :1, :]
        by_words = to_node[..., 1:, :] * (heads[:1].sum(-2, keepdim=True) > 0)
        stayed = direct[..., :1, :].sum(-1, keepdim=True)
        factor = ones_like(by_root) - by_root - stayed
        by_root = by_root + multiply(step.root[..., :1, :], factor)
        alone = stayed + multiply(step.root[..., 1:, :], factor) - by_words.sum(-2, keepdim=True)
        column = torch.cat([by_root, by_words + multiply(heads, alone)], -2)
    corner = torch.zeros_like(column[..., :1, :])
    return torch.cat([torch.cat([direct, from_node], -2), torch.cat([column, corner], -2)], -1)


def eliminate_all(
    weights: Float[Tensor, "order batch head word"], lengths: Int[Tensor, " batch"], *, single_root: bool
) -> tuple[Float[Tensor, "order batch"], Iterator[tuple[int, Elimination]]]:
    """The log-partition, and the eliminations of nodes ``1, 2, ..., n``, in the reverse of the order of their making.

    The graph is stored at every ``sqrt(n)``-th step and the steps between are recomputed: ``n^2.5`` numbers, not n^3.
    """
    num_words = weights.shape[-1]
    block = math.isqrt(num_words) + 1
    log_partition = weights.new_zeros(weights.shape[:2])
    graphs = []
    for node in range(num_words, 0, -1):
        if (num_words - node) % block == 0:
            graphs.append((node, weights))
        step = eliminate(weights, lengths >= node, single_root=single_root)
        log_partition = log_partition + step.log_factor
        weights = step.weights

    def backwards() -> Iterator[tuple[int, Elimination]]:
        for start, graph in reversed(graphs):
            steps = []
            for node in range(start, max(start - block, 0), -1):
                step = eliminate(graph, lengths >= node, single_root=single_root)
                steps.append((node, step))
                graph = step.weights
            yield from reversed(steps)

    return log_partition, backwards()


def sum_trees(
    weights: Float[Tensor, "order batch head word"], lengths: Int[Tensor, " batch"], *, single_root: bool
) -> tuple[Float[Tensor, "order batch"], Float[Tensor, "order batch head word"]]:
    """Log-partition and marginals at any spread, with the derivatives that the log-weights carry."""
    log_partition, steps = eliminate_all(weights, lengths, single_root=single_root)
    used = weights.new_zeros(*weights.shape[:2], 1, 0)
    for _, step in steps:
        used = restore(used, step)
    used = used * (log_partition[0] > -torch.inf)[:, None, None]
    # Probabilities were subtracted, so rounding may leave -1e-17 or 1 + 2e-16: take the nearest probabilities.
    probability = used[0].clamp(min=0)
    total = probability.sum(-2, keepdim=True)
    return log_partition, torch.cat([(probability / total.where(total > 0, 1)).unsqueeze(0), used[1:]])


@dataclass(frozen=True)
class SpanningTreeSelector:
    """Best and random trees. Among equals, a contraction prefers the lowest id of a head, then the first word."""

    num_words: int
    single_root: bool

    def best(
        self, scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], *, count: int
    ) -> tuple[Float[Tensor, "{count} batch"], Bool[Tensor, "{count} batch part"]]:
        """The ``count`` best trees, by partitioning the remaining trees after each one (Lawler, 1972)."""
        arcs = scores.unflatten(-1, (self.num_words, self.num_words + 1))
        if count == 1:
            heads, exists = find_best_trees(arcs, lengths, single_root=self.single_root)
            return _sum_scores(arcs, heads, lengths, exists)[None], _mark_arcs(heads[None], lengths, exists[None])
        options = torch.ones_like(arcs, dtype=torch.bool).unsqueeze(1)
        heads, values = self._solve(arcs, lengths, options)
        batch = torch.arange(len(scores), device=scores.device)
        words = torch.arange(self.num_words, device=scores.device)
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
            new_options = _partition(options[batch, slot], tree)
            new_heads, new_values = self._solve(arcs, lengths, new_options)
            # Nothing is left to choose for padding, nor where there was no tree.
            real = (words < lengths[:, None]) & (value > -torch.inf)[:, None]
            values = torch.cat([without, new_values.masked_fill(~real, -torch.inf)], 1)
            order = values.sort(dim=1, descending=True, stable=True).indices[:, : count - rank - 1]
            values = values.gather(1, order)
            heads = torch.cat([heads, new_heads], 1)[batch[:, None], order]
            options = torch.cat([options, new_options], 1)[batch[:, None], order]
        values, trees = (torch.stack(column) for column in zip(*best, strict=True))
        return values, _mark_arcs(trees, lengths, values > -torch.inf)

    def draw(
        self,
        scores: Float[Tensor, "batch part"],
        lengths: Int[Tensor, " batch"],
        streams: Int[Tensor, " batch"],
        *,
        count: int,
    ) -> Bool[Tensor, "{count} batch part"]:
        """``count`` exact samples, by undoing the eliminations of the matrix-tree theorem."""
        # Random walks (Wilson, 1996) also sample exactly, but can walk forever around a cycle of strong arcs. Here each
        # step costs the same: given a tree over the nodes ``0 .. k-1`` of the reduced graph, every arc is an old arc or
        # a detour through ``k``. The ends of detours become children of ``k``; the start of the topmost detour becomes
        # its head. Trees with the same detours have the same total weight before and after (the weighted Cayley
        # formula), so the sample stays exact.
        weights = scores.unflatten(-1, (self.num_words, self.num_words + 1)).transpose(-1, -2).unsqueeze(0)
        log_partition, steps = eliminate_all(weights, lengths, single_root=self.single_root)
        keys = sample_keys(streams, count)
        heads = torch.zeros(count, len(scores), 0, dtype=torch.int64, device=scores.device)
        for node, step in steps:
            detours = choice_id(_DETOUR, 0, node) + choice_id(0, 1, 0) * torch.arange(1, node, device=scores.device)
            via = step.via[0].expand(count, -1, -1, -1).gather(-2, heads.unsqueeze(-2)).squeeze(-2)
            detour = uniform(keys.unsqueeze(-1), detours) < via
            shares = step.heads[0, ..., 0]
            if self.single_root and node > 1:
                shares = torch.cat([torch.zeros_like(shares[:, :1]), shares[:, 1:]], 1)
            choice = torch.tensor(choice_id(_HEAD, 0, node), device=scores.device)
            alone = categorical(shares, uniform(keys.T, choice)).T
            head = torch.where(detour.any(-1), _start_of_top_detour(heads, detour), alone)
            heads = torch.cat([heads.masked_fill(detour, node), head.unsqueeze(-1)], -1)
        return _mark_arcs(heads, lengths, (log_partition > -torch.inf).expand(count, -1))

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
        heads, exists = find_best_trees(allowed, repeated, single_root=self.single_root)
        values = _sum_scores(allowed, heads, repeated, exists)
        return heads.view(len(arcs), choices, self.num_words), values.view(len(arcs), choices)


def _partition(
    options: Bool[Tensor, "batch word head_id"], heads: Int[Tensor, "batch word"]
) -> Bool[Tensor, "batch choice word head_id"]:
    """All trees but one, in disjoint sets: set ``w`` agrees with it before word ``w`` and differs there."""
    words = heads.shape[1]
    tree = torch.nn.functional.one_hot(heads, words + 1).bool().unsqueeze(1)
    choice = torch.arange(words, device=heads.device)
    earlier = (choice < choice[:, None])[..., None]
    at_choice = (choice == choice[:, None])[..., None]
    return options.unsqueeze(1) & (tree | ~earlier) & ~(tree & at_choice)


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


def _sum_scores(arcs: Tensor, heads: Int[Tensor, "batch word"], lengths: Tensor, exists: Tensor) -> Tensor:
    """Sum of the arc scores of each tree; ``-inf`` where there is none."""
    values = arcs.gather(-1, heads.unsqueeze(-1)).squeeze(-1)
    real = torch.arange(heads.shape[-1], device=arcs.device) < lengths[:, None]
    return values.masked_fill(~real, 0).sum(-1).masked_fill(~exists, -torch.inf)


def _mark_arcs(heads: Int[Tensor, "count batch word"], lengths: Tensor, exists: Bool[Tensor, "count batch"]) -> Tensor:
    words = heads.shape[-1]
    real = (torch.arange(words, device=heads.device) < lengths[:, None]) & exists[..., None]
    arcs = torch.zeros(*heads.shape, words + 1, dtype=torch.bool, device=heads.device)
    return arcs.scatter_(-1, heads.unsqueeze(-1), real.unsqueeze(-1)).flatten(-2)


def _program(numbers: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    num_words, single_root = sizes
    weights = numbers.unflatten(-1, (num_words, num_words + 1)).transpose(-1, -2)
    log_partition, used = sum_trees(weights, lengths, single_root=bool(single_root))
    return log_partition, used.transpose(-1, -2).flatten(-2)


OPERATORS = Operators(
    Family(
        name="spanning_tree",
        sizes=arc_sizes,
        prepare=prepare_arcs,
        program=_program,
        selector=lambda sizes: SpanningTreeSelector(sizes[0], bool(sizes[1])),
        row_axes=lambda scores: [1],
    )
)
