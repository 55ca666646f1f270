"""Tables of numbers in memory, and the sums over splits that every chart program consists of.

A table is a tuple ``(pointer, stride, values, slopes, exponents)``: cell ``(width, start)`` is at
``pointer + width * stride + start``; the last three are the offsets of its value, slope and exponent from there, or
None. With a row for each width, both factors of every sum are contiguous in ``start``, upwards and downwards.

A chart of a long sentence is cut into tiles, so that several programs work on it. A tile has the spans that start in
one block of positions and end in another. It needs the tiles between these two blocks, which lie on diagonals closer to
the main one. A launch therefore fills one diagonal, with a program for each tile; the next launch waits for it. Within
a tile there is a barrier for each width, as in the chart of a short sentence, which is one tile. A cell is the same sum
in the same order either way, so that the results do not depend on the tiles, bit for bit.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers

# What a program does, as a sum of: preparation for the chart, a tile upwards, the sum over all structures, and a tile
# downwards.
PREPARE = tl.constexpr(1)
UP = tl.constexpr(2)
SUM = tl.constexpr(4)
DOWN = tl.constexpr(8)


@triton.jit
def select_sentence(scores, vector, parts, sentence, cells):
    """Where scores, vector and parts of a sentence begin; ``cells`` is how many it has; ``None`` stays ``None``."""
    offset = sentence * cells
    return (
        scores + offset,
        None if vector is None else vector + offset,
        None if parts is None else parts + offset,
    )


@triton.jit
def read_length(lengths, sentence, words):
    """The length of a sentence, and what its results are where it has no structure: zero.

    A length that the scores do not have, which nobody can check on a device without waiting, reads and writes nothing
    beyond the sentence: it counts as 0, and its results are nan.
    """
    length = tl.load(lengths + sentence)
    possible = (length >= 0) & (length <= words)
    return tl.where(possible, length, 0).to(tl.int32), tl.where(possible, 0.0, float("nan"))


@triton.jit
def cell_form(plane, DUAL: tl.constexpr, EXTENDED: tl.constexpr, BEST: tl.constexpr):
    """Offsets of the value, slope (``DUAL``) and exponent (``EXTENDED``) of a cell, or None; ``BEST``: exponents only.

    ``plane`` is the number of cells in all tables of a sentence.
    """
    if BEST:
        return (None, None, 0)
    else:
        return (0, plane if DUAL else None, (plane * 2 if DUAL else plane) if EXTENDED else None)


@triton.jit
def triangle(memory, index: tl.constexpr, size, form):
    """Table number ``index`` of a sentence, with ``size`` rows and columns: one more than the longest sentence.

    Two triangles, one of them upside down, share ``(size + 1) * size`` cells.
    """
    pointer = memory + (index // 2) * (size + 1) * size
    if index % 2:
        pointer += size * size
        stride = 1 - size
    else:
        stride = size
    return (pointer, stride, form[0], form[1], form[2])


@triton.jit
def zeros(table, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile of zeros in the format of a table."""
    return numbers.zero(ROWS, COLUMNS, table[2] is not None, table[3] is not None, table[4] is not None)


@triton.jit
def ones(table, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile of ones in the format of a table."""
    return numbers.one(ROWS, COLUMNS, table[2] is not None, table[3] is not None, table[4] is not None)


@triton.jit
def weights(table, score, direction):
    """Weights in the format of a table."""
    return numbers.weight(score, direction, table[2] is not None, table[4] is not None)


@triton.jit
def read(table, width, start, mask):
    """Numbers of cells; zero where the mask is false."""
    cell = table[0] + width * table[1] + start
    nothing: tl.constexpr = numbers.nothing(table[2] is not None)
    return (
        None if table[2] is None else tl.load(cell + table[2], mask=mask, other=0.0),
        None if table[3] is None else tl.load(cell + table[3], mask=mask, other=0.0),
        None if table[4] is None else tl.load(cell + table[4], mask=mask, other=nothing),
    )


@triton.jit
def write(table, width, start, number, mask):
    """Writes numbers to cells where the mask is true."""
    cell = table[0] + width * table[1] + start
    if table[2] is not None:
        tl.store(cell + table[2], number[0], mask=mask)
    if table[3] is not None:
        tl.store(cell + table[3], number[1], mask=mask)
    if table[4] is not None:
        tl.store(cell + table[4], number[2], mask=mask)


@triton.jit
def sum_over_splits(left, right, width, start, first, gap: tl.constexpr, mask, SPLITS: tl.constexpr):
    """``sum_k left[k, start] * right[width - k - gap, start + k + gap]`` for ``first <= k < width``.

    ``start`` is ``(1, lane)``; ``SPLITS`` are added at a time.
    """
    total = zeros(left, SPLITS, start.shape[1])
    for base in range(first, width, SPLITS):
        k = base + tl.arange(0, SPLITS)[:, None]
        inside = mask & (k < width)
        a = read(left, k, start, inside)
        b = read(right, width - k - gap, start + k + gap, inside)
        total = numbers.add(total, numbers.multiply(a, b))
    return numbers.fold(total)


# Cells pull their outsides from parents, which are products of a child and a factor, both in tables. ``start`` is
# ``(1, lane)``, ``most`` the largest ``k`` of all cells, ``gap`` the distance between child and factor.
@triton.jit
def pull_from_right(outside, factor, child, width, start, length, most, gap: tl.constexpr, mask, SPLITS: tl.constexpr):
    """``sum_k outside[width + k, start] * factor[k - gap, start + width + gap]``, ``k >= 1``, up to the last word."""
    total = numbers.zero(SPLITS, start.shape[1], True, outside[3] is not None, False)
    for base in range(1, most + 1, SPLITS):
        k = base + tl.arange(0, SPLITS)[:, None]
        inside = mask & (start + width + k <= length)
        parents = read(outside, width + k, start, inside)
        factors = read(factor, k - gap, start + width + gap, inside)
        total = numbers.add_fractions(total, numbers.pull(parents, factors, child))
    return numbers.fold_fractions(total, child[2])


@triton.jit
def pull_from_left(outside, factor, child, width, start, lowest, most, gap: tl.constexpr, mask, SPLITS: tl.constexpr):
    """``sum_k outside[width + k, start - k] * factor[k - gap, start - k]``, ``k >= 1``, down to ``lowest``."""
    total = numbers.zero(SPLITS, start.shape[1], True, outside[3] is not None, False)
    for base in range(1, most + 1, SPLITS):
        k = base + tl.arange(0, SPLITS)[:, None]
        inside = mask & (start - k >= lowest)
        parents = read(outside, width + k, start - k, inside)
        factors = read(factor, k - gap, start - k, inside)
        total = numbers.add_fractions(total, numbers.pull(parents, factors, child))
    return numbers.fold_fractions(total, child[2])


@triton.jit
def locate_tile(diagonal, size, EXTENT: tl.constexpr):
    """Where the blocks of starts and of ends of this program's tile begin, and how many positions each has.

    ``EXTENT`` is 0 for one tile of all ``size`` positions.
    """
    if EXTENT == 0:
        return (0, 0, size)
    else:
        row = tl.program_id(1)
        return (row * EXTENT, (row + diagonal) * EXTENT, EXTENT)


@triton.jit
def tile_widths(tile, widest):
    """The narrowest and the widest span of a tile, at least 1 and at most ``widest`` wide."""
    first_start, first_end, extent = tile
    between = first_end - first_start
    return tl.maximum(between - extent + 1, 1), tl.minimum(between + extent - 1, widest)


@triton.jit
def tile_starts(tile, width, lowest, length):
    """The first start of a span of a width in a tile, at least ``lowest``, and one past the last."""
    first_start, first_end, extent = tile
    first = tl.maximum(tl.maximum(first_start, first_end - width), lowest)
    return first, tl.minimum(tl.minimum(first_start + extent, first_end + extent - width), length + 1 - width)


@triton.jit
def report_sum(total, subtracted, log_partition, trusted, sentence, BEST: tl.constexpr):
    """Writes the log-partition of a sentence, and whether numbers sufficed, from the sum over all structures.

    ``subtracted`` is what was taken from the score of each structure; nothing is recorded for a best structure.
    """
    if log_partition is not None:
        target = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
        tl.store(target, numbers.round_for(log_partition, numbers.log(total) + subtracted))
    if not BEST:
        numbers.suffice(total, trusted + sentence)
        numbers.barrier()
