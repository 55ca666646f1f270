"""Choosing from the chart of Eisner's algorithm: a best tree, or a random one, from the whole sentence down.

A span to the right, ``CR[w,s]``, is split into ``IR[k,s] CR[w-k,s+k]``, and one to the left into
``CL[k,s] IL[w-k,s+k]``: each has an arc, which is marked in the result. Below an arc is ``X[w,s]``, which is split into
``CR[k,s] CL[w-1-k,s+k+1]``.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.selection import any_of, choose, clear, mark, marked, uniform
from structattn.kernels.gpu.tables import read

# The random choices of a tree, as in `kernels.dependency`.
_HALVES, _RIGHT, _LEFT, _ROOT = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


@triton.jit
def _place(width, start, size, upside_down: tl.constexpr):
    """The offset of a mark: both directions share ``(size + 1) * size`` cells, as tables do."""
    return size * size - width * (size - 1) + start if upside_down else width * size + start


@triton.jit
def _begin(parts, marks, tables, key, length, size, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """Marks the whole sentence, or the spans under a single root, unless no tree is possible."""
    _, _, _, _, _, CR, _, _, _, _, under_root = tables
    here = tl.full([1, 1], 0, tl.int32)
    if SINGLE:
        total = read(under_root, here, here, here == 0)
        real = (here < length) & numbers.possible(total)
        number = uniform(key, _ROOT, here, here + length)
        root = choose(under_root, CR, total, number, length, here, 1, length + 1, 0, real, SPLITS)
        mark(parts, (root - 1) * size, real)
        mark(marks, _place(root - 1, here + 1, size, True), real & (root > 1))
        mark(marks, _place(length - root, root, size, False), real & (root < length))
    else:
        real = (here < length) & numbers.possible(read(CR, here + length, here, here == 0))
        mark(marks, _place(here + length, here, size, False), real)


@triton.jit
def _arcs(parts, marks, tables, key, width, start, mask, size, SPLITS: tl.constexpr):
    """Marks the first arc of each marked span of a width, and the remainder of the span."""
    _, _, _, IR, IL, CR, CL, _, _, _, _ = tables
    end = start + width
    real = marked(marks, _place(width, start, size, False), mask)
    if any_of(real):
        number = uniform(key, _RIGHT, start, end)
        k = choose(IR, CR, read(CR, width, start, real), number, width, start, 1, width + 1, 0, real, SPLITS)
        mark(parts, (start + k - 1) * size + start, real)
        mark(marks, _place(width - k, start + k, size, False), real & (k < width))
    # The root is not a word.
    real = marked(marks, _place(width, start, size, True), mask & (start > 0))
    if any_of(real):
        number = uniform(key, _LEFT, start, end)
        k = choose(CL, IL, read(CL, width, start, real), number, width, start, 0, width, 0, real, SPLITS)
        mark(parts, (start + k - 1) * size + end, real)
        mark(marks, _place(k, start, size, True), real & (k > 0))


@triton.jit
def _halves(parts, marks, tables, key, width, start, mask, size, SPLITS: tl.constexpr):
    """Marks the spans below the arcs of a width, in either direction."""
    _, _, X, _, _, CR, CL, _, _, _, _ = tables
    end = start + width
    real = marked(parts, (end - 1) * size + start, mask)
    real = real | marked(parts, (start - 1) * size + end, mask & (start > 0))
    if any_of(real):
        number = uniform(key, _HALVES, start, end)
        k = choose(CR, CL, read(X, width, start, real), number, width, start, 0, width, 1, real, SPLITS)
        mark(marks, _place(k, start, size, False), real & (k > 0))
        mark(marks, _place(width - 1 - k, start + k + 1, size, True), real & (k < width - 1))


@triton.jit
def descend(parts, marks, tables, key, length, words, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Writes the arcs of one tree; zeros if no tree is possible."""
    size = words + 1
    lowest: tl.constexpr = 1 if SINGLE else 0
    clear(parts, words * size, SPLITS * LANES)
    clear(marks, (size + 1) * size, SPLITS * LANES)
    numbers.barrier()
    _begin(parts, marks, tables, key, length, size, SINGLE, SPLITS)
    numbers.barrier()
    for step in range(length - lowest):
        width = length - lowest - step
        for begin in range(lowest, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            _arcs(parts, marks, tables, key, width, start, start + width <= length, size, SPLITS)
        numbers.barrier()
        for begin in range(lowest, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            _halves(parts, marks, tables, key, width, start, start + width <= length, size, SPLITS)
        numbers.barrier()
