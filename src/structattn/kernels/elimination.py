"""The matrix-tree theorem by eliminating one node after the other, exact at any spread of the scores.

The determinant of a Laplacian loses all precision when the root is weak or the scores are widely spread, and its
inverse even more. Eliminating nodes in log space computes the same determinant with sums of positive terms only.

With ``A[h,m]`` the weight of head ``h`` for ``m``, eliminating ``k`` takes the factor ``d = sum_h A[h,k]`` out of the
sum over all trees and leaves the weights ``A[h,m] + A[h,k] A[k,m] / d``. With a single root ``r``, ``d`` sums over
words only, the factor is ``s = r[k] + d``, and the root row becomes ``(d r[m] + r[k] A[k,m]) / s``.

Reference: Tutte (1948); Koo et al. (2007), Structured prediction models via the matrix-tree theorem; Grassmann, Taksar
and Heyman (1985), Regenerative analysis and steady state distributions for Markov chains (the elimination without
subtraction).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.numbers import log_shares, logsumexp_and_shares, multiply, one_like


@dataclass(frozen=True)
class Elimination:
    """The elimination of one node; numbers have the axes ``(order, batch, ...)``, rows are heads, columns modifiers.

    Attributes:
        log_factor: log of the factor taken out of the sum; zero where the node is padding.
        weights: log-weights among the nodes that remain.
        heads: share of each remaining head in the in-weight of the node.
        direct: share of the old arc in each new arc; the rest is ``via``.
        via: share of the detour through the node in each new arc.
        root: share of the root and of the words in the factor; only with a single root.
    """

    log_factor: Tensor
    weights: Tensor
    heads: Tensor
    direct: Tensor
    via: Tensor
    root: Tensor | None


_HEADS = (-2,)


def eliminate(weights: Tensor, active: Bool[Tensor, " batch"], *, single_root: bool) -> Elimination:
    """Remove the last node ``k`` from the graph.

    Args:
        weights: log-weights ``(order, batch, head 0..k, modifier 1..k)``.
        active: where the node is a word; elsewhere nothing happens.
        single_root: whether exactly one word has the root as its head.
    """
    column, row, rest = weights[..., :-1, -1:], weights[..., -1:, :-1], weights[..., :-1, :-1]
    root = None
    if single_root:
        inner, heads, go = _word_heads(column[..., 1:, :])
        choice = torch.cat([column[..., :1, :], inner], -2)
        factor, root = logsumexp_and_shares(choice, _HEADS)
        log_root = log_shares(choice, _HEADS)
        heads = torch.cat([root[..., :1, :], heads], -2)
        go = torch.cat([log_root[..., :1, :], go], -2)
        stay = log_root[..., 1:, :].masked_fill(~active[:, None, None], 0)
        rest = torch.cat([rest[..., :1, :] + stay, rest[..., 1:, :]], -2)
    else:
        factor, heads = logsumexp_and_shares(column, _HEADS)
        go = log_shares(column, _HEADS)
    detour = go + row
    loops = torch.ones(detour.shape[-2:], dtype=torch.bool, device=detour.device).tril(-1).triu(-1)
    detour[0].masked_fill_(loops, -torch.inf)
    merged, shares = logsumexp_and_shares(torch.stack([rest, detour], -3), (-3,))
    log_factor = factor[..., 0, 0].masked_fill(~active, 0)
    direct, via = shares.unbind(-3)
    return Elimination(log_factor, merged.squeeze(-3), heads, direct, via, root)


def restore(used: Tensor, gone: Elimination) -> Tensor:
    """Marginals of the arcs before an elimination, from those after it: the adjoint of `eliminate`.

    Args:
        used: numbers ``(order, batch, head 0..k-1, modifier 1..k-1)``.
        gone: the elimination.
    """
    direct, via = multiply(gone.direct, used), multiply(gone.via, used)
    from_node = via.sum(-2, keepdim=True)
    to_node = via.sum(-1, keepdim=True)
    if gone.root is None:
        rest = one_like(to_node[..., :1, :]) - to_node.sum(-2, keepdim=True)
        column = to_node + multiply(gone.heads, rest)
    else:
        heads = gone.heads[..., 1:, :]
        by_root = to_node[..., :1, :]
        by_words = to_node[..., 1:, :] * (heads[:1].sum(-2, keepdim=True) > 0)
        stayed = direct[..., :1, :].sum(-1, keepdim=True)
        factor = one_like(by_root) - by_root - stayed
        by_root = by_root + multiply(gone.root[..., :1, :], factor)
        rest = stayed + multiply(gone.root[..., 1:, :], factor) - by_words.sum(-2, keepdim=True)
        column = torch.cat([by_root, by_words + multiply(heads, rest)], -2)
    corner = torch.zeros_like(column[..., :1, :])
    return torch.cat([torch.cat([direct, from_node], -2), torch.cat([column, corner], -2)], -1)


def eliminations(
    weights: Float[Tensor, "order batch head word"], lengths: Int[Tensor, " batch"], *, single_root: bool
) -> tuple[Float[Tensor, "order batch"], Iterator[tuple[int, Elimination]]]:
    """Eliminate every node, then yield the steps in reverse order.

    The graph is stored at every ``sqrt(n)``-th step and the steps between are recomputed, so that memory grows with
    ``n^2.5`` instead of ``n^3``.

    Args:
        weights: log-weights of head ``0..n`` for modifier ``1..n``.
        lengths: number of words of each sentence.
        single_root: whether exactly one word has the root as its head.

    Returns:
        The log-partition, and pairs ``(node, elimination)`` for nodes ``1, 2, ..., n``.
    """
    num_words = weights.shape[-1]
    block = math.isqrt(num_words) + 1
    log_partition = weights.new_zeros(weights.shape[:2])
    kept = []
    for node in range(num_words, 0, -1):
        if (num_words - node) % block == 0:
            kept.append((node, weights))
        gone = eliminate(weights, lengths >= node, single_root=single_root)
        log_partition = log_partition + gone.log_factor
        weights = gone.weights

    def backwards() -> Iterator[tuple[int, Elimination]]:
        for start, graph in reversed(kept):
            steps = []
            for node in range(start, max(start - block, 0), -1):
                gone = eliminate(graph, lengths >= node, single_root=single_root)
                steps.append((node, gone))
                graph = gone.weights
            yield from reversed(steps)

    return log_partition, backwards()


def by_elimination(
    weights: Float[Tensor, "order batch head word"], lengths: Int[Tensor, " batch"], *, single_root: bool
) -> tuple[Float[Tensor, "order batch"], Float[Tensor, "order batch head word"]]:
    """Log-partition and marginals at any spread, with the derivatives that the weights carry.

    Args:
        weights: log-weights as numbers (`kernels.numbers.make_dual`), row = head, column = word.
        lengths: number of words of each sentence.
        single_root: whether exactly one word has the root as its head.
    """
    log_partition, steps = eliminations(weights, lengths, single_root=single_root)
    used = weights.new_zeros(*weights.shape[:2], 1, 0)
    for _, gone in steps:
        used = restore(used, gone)
    used = used * (log_partition[0] > -torch.inf)[:, None, None]
    # Probabilities were subtracted, so rounding may leave -1e-17 or 1 + 2e-16: take the nearest probabilities.
    probability = used[0].clamp(min=0)
    total = probability.sum(-2, keepdim=True)
    return log_partition, torch.cat([(probability / total.where(total > 0, 1)).unsqueeze(0), used[1:]])


def _word_heads(column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In-weight of a node from other words, their shares, and the logarithm of the shares.

    A node that no word can head is attached to the root. Then its in-weights do not matter, and any shares are valid
    for the detours through it (as the limit of in-weights that go to zero together): they are taken to be equal.
    """
    if not column.shape[-2]:
        nothing = torch.zeros_like(column).sum(-2, keepdim=True)
        nothing[0] = -torch.inf
        return nothing, column, column
    inner, heads = logsumexp_and_shares(column, _HEADS)
    go = log_shares(column, _HEADS)
    go[0] = go[0].masked_fill(inner[0] == -torch.inf, -math.log(column.shape[-2]))
    return inner, heads, go
