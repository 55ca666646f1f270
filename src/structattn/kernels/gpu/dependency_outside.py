"""Eisner's algorithm downwards: every cell pulls from its parents; ``o`` stands for outside.

With ``w`` the width and ``s`` the start of a span:
``oCR[w,s] = sum_k oX[w+k,s] CL[k-1,s+w+1] + sum_k oCR[w+k,s-k] IR[k,s-k]``, ``oIR = sum_k oCR[w+k,s] CR[k,s+w]``,
``oCL[w,s] = sum_k oX[w+k,s-k] CR[k-1,s-k] + sum_k oCL[w+k,s] IL[k,s+w]``, ``oIL = sum_k oCL[w+k,s-k] CL[k,s-k]`` and
``oX = oIR W(s -> s+w) + oIL W(s+w -> s)``, with ``k >= 0`` for ``oIR`` and ``oIL`` and ``k >= 1`` otherwise.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.tables import ones, pull_from_left, pull_from_right, read, write
from structattn.kernels.gpu.tiles import starts, widths
from structattn.kernels.gpu.vectors import rounded


@triton.jit
def outside(
    parts, unit, goal, tables, length, words, tile, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr
):
    """Writes the probability of each arc of a tile, or its derivative in a unit; omits arcs from a single root."""
    WR, WL, X, IR, IL, CR, CL, oX, oCR, oCL, under_root = tables
    lowest: tl.constexpr = 1 if SINGLE else 0
    narrowest, widest = widths(tile, length - lowest)
    for step in range(widest + 1 - narrowest):
        width = widest - step
        first, stop = starts(tile, width, lowest, length)
        for begin in range(first, stop, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            end = start + width
            real = start < stop
            right_most = length - width - begin
            left_most = tl.minimum(begin + LANES - 1, length - width) - lowest

            child = read(CR, width, start, real)
            own = pull_from_right(oX, CL, child, width, start, length, right_most, 1, real, SPLITS)
            own = numbers.plus_fraction(
                own, pull_from_left(oCR, IR, child, width, start, lowest, left_most, 0, real, SPLITS)
            )
            if SINGLE:
                half = read(under_root, start, 0, real)
                own = numbers.plus_fraction(own, numbers.where(end == length, numbers.pull(goal, half, child)))
            else:
                own = numbers.plus_fraction(
                    own, numbers.where((start == 0) & (end == length), (goal[0], goal[1], child[2]))
                )
            write(oCR, width, start, own, real)
            inner, item = read(X, width, start, real), read(IR, width, start, real)
            unit_number = ones(WR, 1, LANES)
            from_item = numbers.plus_fraction(
                pull_from_right(oCR, CR, item, width, start, length, right_most, 0, real, SPLITS),
                numbers.pull(own, unit_number, item),
            )
            arc = rounded(numbers.probability(from_item, item) * unit, parts)
            tl.store(parts + (end - 1) * (words + 1) + start, arc, mask=real)
            of_inner = numbers.pull_only(from_item, item, read(WR, width, start, real), inner)

            # The same to the left; the root is not a word.
            word = real & (start > 0)
            child = read(CL, width, start, word)
            own = pull_from_left(oX, CR, child, width, start, lowest, left_most, 1, word, SPLITS)
            own = numbers.plus_fraction(
                own, pull_from_right(oCL, IL, child, width, start, length, right_most, 0, word, SPLITS)
            )
            if SINGLE:
                # Words 1 to `end`, and `end` under the root.
                all_left = word & (start == 1)
                half, rest = read(under_root, end, 0, all_left), read(CR, length - end, end, all_left)
                root_arc = read(WR, end, start * 0, all_left)
                own = numbers.plus_fraction(
                    own,
                    numbers.where(all_left, numbers.pull_only(numbers.pull(goal, rest, half), half, root_arc, child)),
                )
            write(oCL, width, start, own, word)
            item = read(IL, width, start, word)
            from_item = numbers.plus_fraction(
                pull_from_left(oCL, CL, item, width, start, 1, left_most, 0, word, SPLITS),
                numbers.pull(own, unit_number, item),
            )
            arc = rounded(numbers.probability(from_item, item) * unit, parts)
            tl.store(parts + (start - 1) * (words + 1) + end, arc, mask=word)
            of_left = numbers.pull_only(from_item, item, read(WL, width, start, word), inner)
            write(oX, width, start, numbers.plus_fraction(of_inner, numbers.where(word, of_left)), real)
        numbers.barrier()


@triton.jit
def root_arcs(parts, unit, goal, tables, length, words, tile, LANES: tl.constexpr):
    """Writes the probabilities of the arcs from a single root to the words of a tile on the main diagonal."""
    CR, under_root = tables[5], tables[10]
    first_start, first_end, extent = tile
    if first_start == first_end:
        stop = tl.minimum(first_start + extent, length + 1)
        for begin in range(tl.maximum(first_start, 1), stop, LANES):
            word = begin + tl.arange(0, LANES)[None, :]
            real = word < stop
            half, rest = read(under_root, word, 0, real), read(CR, length - word, word, real)
            arc = rounded(numbers.probability(numbers.pull(goal, rest, half), half) * unit, parts)
            tl.store(parts + (word - 1) * (words + 1), arc, mask=real)
