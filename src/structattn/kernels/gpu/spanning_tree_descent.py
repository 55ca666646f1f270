"""Random dependency trees, by undoing the eliminations of `kernels.gpu.elimination`.

When ``k`` is restored, an arc from ``h`` to ``m`` is an old arc or a detour through ``k``. Its weight in the graph
without ``k`` is ``A[m,h] + sum_{j >= k} s_j[h] A[m,j]``, a sum of positive terms that are all still in memory. For a
new arc, all terms are therefore computed at once, and with them the first node through which it takes a detour. The
ends of detours through ``k`` become its children, and the start of the topmost of them, the one below no other, becomes
its head; the argument is in `kernels.spanning_tree`. The state of a word is its head and the node of its next detour.

Reference: Zmigrod et al. (2021), Efficient sampling of dependency structures.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.elimination import root_shares, shares
from structattn.kernels.gpu.selection import LARGE, any_of, begun, clear, considered, decided, mark, uniform
from structattn.kernels.gpu.tables import ones, read

# The random choices of a tree, as in `kernels.spanning_tree`.
_DETOUR, _HEAD = tl.constexpr(0), tl.constexpr(1)


@triton.jit
def _next_detour(tables, key, word, head, first, length, mask, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """The first node, from a given one on, through which arcs take a detour, or one past the last.

    Args:
        tables: the output of `elimination.eliminate`, the weights it was given, and those of a single root.
        key: of the random numbers.
        word: ends of the arcs, ``(1, lane)``.
        head: their starts, ``(1, lane)``.
        first: of the nodes.
        length: of the sentence.
        mask: which arcs exist.
        SINGLE: whether exactly one word has the root as its head.
        SPLITS: how many nodes are considered at a time, the last ones first.
    """
    A, W, R = tables
    found = word * 0 + length + 1
    later = read(W, word, head, mask & (head > 0) if SINGLE else mask)
    for step in range(0, length + 1 - first, SPLITS):
        node = length - step - tl.arange(0, SPLITS)[:, None]
        real = mask & (node >= first)
        inner = read(A, node * 0, node, node >= first)
        onward = read(A, word, node, real)
        detour = numbers.multiply(shares(A, inner, node, head, real, SINGLE), onward)
        whole = numbers.add(later, numbers.running_sums(detour))
        later = numbers.settle(numbers.add(later, numbers.fold(detour)))
        if SINGLE:
            _, _, stay, go = root_shares(R, inner, node)
            moved = numbers.multiply(onward, go)
            stayed = numbers.multiply(read(R, node, word, real), stay)
            whole = numbers.either(head == 0, numbers.add(stayed, moved), whole)
            detour = numbers.either(head == 0, moved, detour)
        taken = real & (uniform(key, _DETOUR, word, node) < numbers.ratio(detour, whole))
        nearest = tl.min(tl.where(taken, node, LARGE), 0, keep_dims=True)
        found = tl.where(nearest < LARGE, nearest, found)
    return found


@triton.jit
def _top_start(heads, detours, k, LANES: tl.constexpr):
    """The head of the first word with a detour through ``k`` that is below no other; -1 if there is none."""
    top = tl.full([1, 1], LARGE, tl.int32)
    for begin in range(1, k, LANES):
        word = begin + tl.arange(0, LANES)[None, :]
        over = (tl.load(detours + word, mask=word < k, other=0) == k) & (word < k)
        above = tl.where(over, tl.load(heads + word, mask=over, other=0), 0)
        while any_of(above > 0):
            below = tl.load(detours + above, mask=above > 0, other=0) == k
            over = over & (below == 0)
            above = tl.where(over, tl.load(heads + above, mask=above > 0, other=0), 0)
        top = tl.minimum(top, tl.min(tl.where(over, word, LARGE), 1, keep_dims=True))
    return tl.load(heads + top, mask=top < LARGE, other=-1)


@triton.jit
def _head_alone(A, key, k, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """The head of a node through which no arc takes a detour; with a single root, another word if there is one."""
    here = tl.full([1, 1], 0, tl.int32)
    inner = read(A, 0, here + k, here == 0)
    number = uniform(key, _HEAD, here, here + k)
    state = begun(1)
    for first in range(1 if SINGLE else 0, k, SPLITS):
        head = first + tl.arange(0, SPLITS)[:, None]
        known = shares(A, inner, k, head, head < k, SINGLE)
        state = considered(state, known, ones(A, 1, 1), number, head)
    return tl.maximum(decided(state), 0)


@triton.jit
def _known(known, k, size):
    """Where heads and nodes of next detours are read when ``k`` is restored: not where they are written to."""
    heads = known + (k % 2) * 2 * size
    return heads, heads + size


@triton.jit
def descend(parts, known, tables, key, length, words, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Writes the arcs of one tree; zeros if no tree is possible."""
    A, _, _ = tables
    size = words + 1
    here = tl.full([1, 1], 0, tl.int32)
    clear(parts, words * size, SPLITS * LANES)
    possible = numbers.possible(read(A, 0, here, here == 0))
    length = tl.where(any_of(possible), length, 0)
    for k in range(1, length + 1):
        heads, detours = _known(known, k, size)
        new_heads, new_detours = _known(known, k + 1, size)
        start = _top_start(heads, detours, k, LANES)
        alone = _head_alone(A, key, k, SINGLE, SPLITS)
        own_head = tl.where(start < 0, alone, start)
        for begin in range(1, k + 1, LANES):
            word = begin + tl.arange(0, LANES)[None, :]
            detour = tl.load(detours + word, mask=word < k, other=k)
            moved = (word <= k) & (detour == k)
            head = tl.load(heads + word, mask=word < k, other=0)
            head = tl.where(word == k, own_head, tl.where(moved, k, head))
            if any_of(moved):
                detour = tl.where(
                    moved, _next_detour(tables, key, word, head, k + 1, length, moved, SINGLE, SPLITS), detour
                )
            tl.store(new_heads + word, head, mask=word <= k)
            tl.store(new_detours + word, detour, mask=word <= k)
        numbers.barrier()
    heads, _ = _known(known, length + 1, size)
    for begin in range(1, length + 1, LANES):
        word = begin + tl.arange(0, LANES)[None, :]
        head = tl.load(heads + word, mask=word <= length, other=0)
        mark(parts, (word - 1) * size + head, word <= length)
