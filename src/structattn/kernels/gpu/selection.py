"""Choosing from a chart: from the whole sentence down, a cell takes the first of its best splits, or a random split.

The kernels proceed from wide to narrow spans: where a cell is marked, they find its split and mark the cells below. No
cell of a structure has two parents, so no two lanes mark the same cell. Random numbers are those of `kernels.random`,
and the first split at which the cumulative sum of the shares exceeds the number is taken: the same as on the CPU,
unless the number is within rounding (some 1e-16) of the border between two splits.

Reference: Goodman (1999), Semiring parsing; Finkel et al. (2006), Solving the problem of cascading errors (sampling).
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.chart_tables import read

_STEP = tl.constexpr(0x9E3779B97F4A7C15)
_FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
_SECOND = tl.constexpr(0x94D049BB133111EB)
# Larger than any split or node.
LARGE = tl.constexpr(2147483647)


@triton.jit
def _mix(bits):
    bits = (bits ^ (bits >> 30)) * _FIRST
    bits = (bits ^ (bits >> 27)) * _SECOND
    return bits ^ (bits >> 31)


@triton.jit
def sample_key(streams, sentence, sample):
    """The key of a sample of a sentence, as in `kernels.random.sample_keys`; None if nothing is random."""
    if streams is None:
        return None
    else:
        step = tl.full([1, 1], _STEP, tl.uint64)
        stream = tl.load(streams + sentence + tl.full([1, 1], 0, tl.int32)).to(tl.uint64)
        return _mix(_mix(stream) + (sample + 1).to(tl.uint64) * step)


@triton.jit
def uniform(key, kind: tl.constexpr, first, second):
    """A number in ``[0, 1)`` for a kind of choice at two positions, as in `kernels.random.uniform`, or None."""
    if key is None:
        return None
    else:
        choice = 8 * first.to(tl.int64) + (second.to(tl.int64) << 31) + kind
        bits = _mix(key + (choice + 1).to(tl.uint64) * tl.full([1, 1], _STEP, tl.uint64))
        return (bits >> 11).to(tl.int64).to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def begin_choice(SIZE: tl.constexpr):
    """The state before any choice: the best so far, the sum of all shares so far, the choice, the last possible one."""
    nothing = tl.full([1, SIZE], -1, tl.int32)
    return (tl.full([1, SIZE], -float("inf"), tl.float64), tl.full([1, SIZE], 0.0, tl.float64), nothing, nothing)


@triton.jit
def consider(state, terms, total, number, alternative):
    """The state after further alternatives (their ids, int32), along the first axis and in their order.

    ``terms`` are their numbers, ``total`` the sum of all; ``number`` is uniform, or None for the first best.
    """
    best, sum_of_shares, choice, last = state
    if number is None:
        top = tl.max(terms[2], 0, keep_dims=True)
        first = tl.min(tl.where(terms[2] == top, alternative, LARGE), 0, keep_dims=True)
        return (tl.maximum(best, top), sum_of_shares, tl.where(top > best, first, choice), last)
    else:
        shares = terms[0]
        if total[2] is not None:
            shares *= numbers.power_of_two(terms[2] - total[2])
        reached = sum_of_shares + tl.cumsum(shares, 0)
        over = (shares > 0.0) & (reached > number * total[0])
        first = tl.min(tl.where(over, alternative, LARGE), 0, keep_dims=True)
        choice = tl.where((choice < 0) & (first < LARGE), first, choice)
        # If rounding leaves none, the last possible one.
        last = tl.maximum(last, tl.max(tl.where(shares > 0.0, alternative, -1), 0, keep_dims=True))
        return (best, sum_of_shares + tl.sum(shares, 0, keep_dims=True), choice, last)


@triton.jit
def decide(state):
    """The choice; -1 where nothing is possible."""
    _, _, choice, last = state
    return tl.where(choice < 0, last, choice)


@triton.jit
def choose(left, right, total, number, width, start, first, stop, gap: tl.constexpr, mask, SPLITS: tl.constexpr):
    """A split ``k``, ``first <= k < stop``, of ``left[k, start] * right[width - k - gap, start + k + gap]``.

    ``total`` is the sum of all; ``number`` is uniform, or None for the first best split; ``start`` is ``(1, lane)``.
    """
    state = begin_choice(start.shape[1])
    for base in range(first, stop, SPLITS):
        k = base + tl.arange(0, SPLITS)[:, None]
        inside = mask & (k < stop)
        terms = numbers.multiply(read(left, k, start, inside), read(right, width - k - gap, start + k + gap, inside))
        state = consider(state, terms, total, number, k)
    return decide(state)


@triton.jit
def locate_structure(streams, parts, batch, cells):
    """The sentence of a program of a descent, where the parts of its structure go, and the key of its random numbers.

    ``parts`` are ``(count, batch, cells)``: the first structures of all sentences come first.
    """
    number = tl.program_id(0).to(tl.int64)
    sentence = number % batch
    return sentence, parts + number * cells, sample_key(streams, sentence, number // batch)


@triton.jit
def chooses(streams, flag, EXTENDED: tl.constexpr):
    """Whether to choose from these numbers: always for a best structure, for random ones only if they sufficed."""
    return True if streams is None else numbers.are_used(flag, EXTENDED)


@triton.jit
def clear(memory, count, SIZE: tl.constexpr, blank=0.0):
    """Writes zeros, or another number, to memory of any dtype."""
    for first in range(0, count, SIZE):
        offset = first + tl.arange(0, SIZE)
        tl.store(
            memory + offset, (tl.zeros([SIZE], tl.float32) + blank).to(memory.dtype.element_ty), mask=offset < count
        )


@triton.jit
def mark(memory, offset, mask):
    """Writes ones to memory of any dtype where the mask is true."""
    tl.store(memory + offset, tl.full(offset.shape, 1.0, tl.float32).to(memory.dtype.element_ty), mask=mask)


@triton.jit
def is_marked(memory, offset, mask):
    """Where there are ones."""
    return mask & (tl.load(memory + offset, mask=mask, other=0).to(tl.float32) > 0.0)


@triton.jit
def any_of(mask):
    """Whether a mask ``(1, lane)`` is true anywhere."""
    return tl.max(tl.max(mask.to(tl.int32), 1), 0) > 0
