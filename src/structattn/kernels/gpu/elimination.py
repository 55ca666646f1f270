"""The matrix-tree theorem without subtractions: nodes are eliminated one after the other, and restored.

With ``A[m,h]`` the weight of head ``h`` for word ``m``, eliminating ``k`` takes the factor ``d = sum_h A[k,h]`` out of
the sum over all trees and leaves the weights ``A[m,h] + s[h] A[m,k]``, where ``s[h] = A[k,h] / d`` is the share of the
detours through ``k`` that start at ``h``. With a single root, its row ``r`` is separate: ``d`` sums over words, the
factor is ``f = r[k] + d``, and the row becomes ``(d r[m] + r[k] A[m,k]) / f``.

The weight of a remaining arc is a sum of positive terms, the old arc and the detours, and each has a share of its
probability. Nodes are therefore restored with the *outsides* of `kernels.gpu.numbers`; ``oA`` are those of ``A``. The
quantity subtracted on the way is an expected number of arcs: the probability of ``A[k,h]`` is
``e[h] + s[h] (1 - sum_j e[j])``, with ``e[h]`` the expected number of detours through ``k`` from ``h``; with a single
root, the 1 is replaced by the probability of ``d`` in ``f``.

Tables have a row for each word and a column for each head. There is no word 0, so its row is free: in ``A`` it contains
the sum over all trees and ``d``, and in ``oA``, alternating with the column of the root, the outsides of the row of a
single root.

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem; Grassmann, Taksar and Heyman
(1985), Regenerative analysis and steady state distributions for Markov chains.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.tables import ones, read, write, zeros


@triton.jit
def shares(A, inner, k, head, real, SINGLE: tl.constexpr):
    """The shares of the detours through ``k`` that start at given heads.

    They are settled, so that no detour has a larger exponent than the arc that it becomes a part of. A node that no
    word can head is attached to the single root; then its in-weights may go to zero together.
    """
    share = numbers.settle(numbers.multiply(read(A, k, head, real), numbers.inverse(inner)))
    if SINGLE:
        equal = numbers.settle(numbers.scaled(ones(A, 1, 1), 1.0 / tl.maximum(k - 1, 1).to(tl.float64)))
        share = numbers.either(inner[0] > 0.0, share, numbers.where(real, equal))
    return share


@triton.jit
def root_shares(R, inner, k):
    """With a single root: its arc to ``k``, the factor taken out of the sum, and the shares of words and arc in it."""
    here = tl.full([1, 1], 0, tl.int32) + k
    from_root = read(R, here, here, here > 0)
    factor = numbers.settle(numbers.add(from_root, inner))
    inverse = numbers.inverse(factor)
    stay, go = numbers.multiply(inner, inverse), numbers.multiply(from_root, inverse)
    return from_root, factor, numbers.settle(stay), numbers.settle(go)


@triton.jit
def eliminate(A, R, length, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Eliminates one node after the other, the last one first.

    Args:
        A: weights of the arcs; in the end, each is its weight in the graph in which one of its ends is the last node.
        R: with a single root, a row for each node: the weights of the root's arcs when that node is eliminated, given
            for the first elimination.
        length: of the sentence.
        SINGLE: whether exactly one word has the root as its head.
        SPLITS: rows of a tile.
        LANES: columns of a tile.

    Returns:
        The sum over all trees.
    """
    lowest: tl.constexpr = 1 if SINGLE else 0
    here = tl.full([1, 1], 0, tl.int32)
    total = ones(A, 1, 1)
    for step in range(length):
        k = length - step
        inner = zeros(A, 4 * LANES, 1)
        for first in range(lowest, k, 4 * LANES):
            head = first + tl.arange(0, 4 * LANES)[:, None]
            inner = numbers.add(inner, read(A, k, head, head < k))
        inner = numbers.settle(numbers.fold(inner))
        write(A, 0, here + k, inner, here == 0)
        for first in range(1, k, SPLITS):
            word = first + tl.arange(0, SPLITS)[:, None]
            onward = read(A, word, k, word < k)
            for begin in range(lowest, k, LANES):
                head = begin + tl.arange(0, LANES)[None, :]
                real = (word < k) & (head < k) & (word != head)
                detour = numbers.multiply(shares(A, inner, k, head, head < k, SINGLE), onward)
                write(A, word, head, numbers.settle(numbers.add(read(A, word, head, real), detour)), real)
        if SINGLE:
            _, factor, stay, go = root_shares(R, inner, k)
            for begin in range(1, k, LANES):
                word = begin + tl.arange(0, LANES)[None, :]
                stayed = numbers.multiply(read(R, k, word, word < k), stay)
                moved = numbers.multiply(read(A, word, k, word < k), go)
                write(R, k - 1, word, numbers.settle(numbers.add(stayed, moved)), word < k)
            total = numbers.settle(numbers.multiply(total, factor))
        else:
            total = numbers.settle(numbers.multiply(total, inner))
        numbers.barrier()
    write(A, 0, here, total, here == 0)
    return total


@triton.jit
def _root_row(k, word):
    """Row and column of the outside of an arc from a single root once ``k`` is restored.

    They alternate with ``k``, because values that are still read and summed must not be overwritten.
    """
    odd = k % 2
    return word * odd, word * (1 - odd)


@triton.jit
def read_root_row(oA, k, word, mask):
    """Outsides of the arcs from a single root once ``k`` is restored."""
    row, column = _root_row(k, word)
    return read(oA, row, column, mask)


@triton.jit
def _write_root_row(oA, k, word, number, mask):
    row, column = _root_row(k, word)
    write(oA, row, column, number, mask)


@triton.jit
def _starts(A, oA, inner, k, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Writes the outsides of the shares of the detours through ``k`` where those of its own arcs will be.

    Returns:
        The expected number of detours through ``k``.
    """
    lowest: tl.constexpr = 1 if SINGLE else 0
    detours = numbers.zero(1, LANES, True, oA[3] is not None, False)
    for begin in range(lowest, k, LANES):
        head = begin + tl.arange(0, LANES)[None, :]
        share = shares(A, inner, k, head, head < k, SINGLE)
        pulled = numbers.zero(SPLITS, LANES, True, oA[3] is not None, False)
        for first in range(1, k, SPLITS):
            word = first + tl.arange(0, SPLITS)[:, None]
            real = (word < k) & (head < k) & (word != head)
            onward = read(A, word, k, word < k)
            pulled = numbers.plus_fraction(pulled, numbers.pull(read(oA, word, head, real), onward, share))
        own = numbers.fold_fractions(pulled, share[2])
        write(oA, k, head, own, head < k)
        detours = numbers.plus_fraction(detours, numbers.multiply(own, share))
    return numbers.sum_of_lanes(detours)


@triton.jit
def _ends(A, R, oA, inner, k, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Writes the outsides of the arcs with head ``k``; with a single root also those of its row before the elimination.

    Returns:
        With a single root, the probability that its arc stays, and the outside of the share of the arc through ``k``.
    """
    lowest: tl.constexpr = 1 if SINGLE else 0
    stayed = numbers.zero(1, LANES, True, oA[3] is not None, False)
    moved = numbers.zero(1, LANES, True, oA[3] is not None, False)
    for begin in range(1, k, LANES):
        word = begin + tl.arange(0, LANES)[None, :]
        onward = read(A, word, k, word < k)
        pulled = numbers.zero(SPLITS, LANES, True, oA[3] is not None, False)
        for first in range(lowest, k, SPLITS):
            head = first + tl.arange(0, SPLITS)[:, None]
            real = (word < k) & (head < k) & (word != head)
            share = shares(A, inner, k, head, head < k, SINGLE)
            pulled = numbers.plus_fraction(pulled, numbers.pull(read(oA, word, head, real), share, onward))
        own = numbers.fold_fractions(pulled, onward[2])
        if SINGLE:
            _, _, stay, go = root_shares(R, inner, k)
            before, after = read(R, k, word, word < k), read_root_row(oA, k - 1, word, word < k)
            kept = numbers.pull(after, stay, before)
            _write_root_row(oA, k, word, kept, word < k)
            stayed = numbers.plus_fraction(stayed, numbers.multiply(kept, before))
            moved = numbers.plus_fraction(moved, numbers.pull(after, onward, go))
            own = numbers.plus_fraction(own, numbers.pull(after, go, onward))
        write(oA, word, k, own, word < k)
    return numbers.sum_of_lanes(stayed), numbers.sum_of_lanes(moved)


@triton.jit
def restore(A, R, oA, length, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Restores one node after the other, the first one first, and writes the outside of each arc.

    Args:
        A: as left by `eliminate`.
        R: as left by `eliminate`.
        oA: the outsides of the arcs; for those from a single root see `read_root_row`.
        length: of the sentence.
        SINGLE: whether exactly one word has the root as its head.
        SPLITS: rows of a tile.
        LANES: columns of a tile.
    """
    lowest: tl.constexpr = 1 if SINGLE else 0
    here = tl.full([1, 1], 0, tl.int32)
    sure = numbers.one(1, 1, True, oA[3] is not None, False)
    for k in range(1, length + 1):
        inner = read(A, 0, here + k, here == 0)
        detours = _starts(A, oA, inner, k, SINGLE, SPLITS, LANES)
        stayed, moved = _ends(A, R, oA, inner, k, SINGLE, SPLITS, LANES)
        if SINGLE:
            from_root, factor, _, go = root_shares(R, inner, k)
            of_share = (moved[0], moved[1], go[2])
            own = numbers.pull_only(of_share, go, numbers.inverse(factor), from_root)
            last = numbers.multiply_fractions(sure, numbers.reciprocal(from_root), from_root[2])
            _write_root_row(oA, k, here + k, numbers.either(here + k == 1, last, own), here == 0)
            rest = numbers.plus_fraction(stayed, numbers.scaled(detours, -1.0))
        else:
            rest = numbers.plus_fraction(sure, numbers.scaled(detours, -1.0))
        outside = numbers.multiply_fractions(rest, numbers.reciprocal(inner), inner[2])
        numbers.barrier()
        for begin in range(lowest, k, LANES):
            head = begin + tl.arange(0, LANES)[None, :]
            arc = read(A, k, head, head < k)
            share = shares(A, inner, k, head, head < k, SINGLE)
            detour = numbers.pull_only(read(oA, k, head, head < k), share, numbers.inverse(inner), arc)
            whole = numbers.plus_fraction(detour, numbers.pull(outside, ones(A, 1, LANES), arc))
            write(oA, k, head, whole, head < k)
        numbers.barrier()
