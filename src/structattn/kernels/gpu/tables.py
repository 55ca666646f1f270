"""Tables of numbers in memory, and the sums over splits that every chart program consists of.

A table is a tuple ``(pointer, stride, values, slopes, exponents)``: cell ``(width, start)`` is at
``pointer + width * stride + start``; the last three are the offsets of its value, slope and exponent from there, or
None. With a row for each width, both factors of every sum are contiguous in ``start``, upwards and downwards.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers


@triton.jit
def of_sentence(scores, vector, parts, sentence, cells):
    """Where scores, vector and parts of a sentence begin, given the number of cells; ``None`` stays ``None``."""
    place = sentence * cells
    return (
        scores + place,
        None if vector is None else vector + place,
        None if parts is None else parts + place,
    )


@triton.jit
def distances(plane, DUAL: tl.constexpr, EXTENDED: tl.constexpr, BEST: tl.constexpr):
    """Offsets of the value, slope and exponent of a cell; None for those that it does not have.

    Args:
        plane: cells in all tables of a sentence.
        DUAL: whether numbers have slopes.
        EXTENDED: whether numbers have exponents.
        BEST: whether numbers have exponents only.
    """
    if BEST:
        return (None, None, 0)
    else:
        return (0, plane if DUAL else None, (plane * 2 if DUAL else plane) if EXTENDED else None)


@triton.jit
def triangles(memory, index: tl.constexpr, size, form):
    """Table number ``index`` of a sentence: two triangles, one of them upside down, share ``(size + 1) * size`` cells.

    Args:
        memory: of the sentence.
        index: of the table.
        size: rows and columns of a table, the length of the longest sentence plus one.
        form: from `distances`.
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
    place = table[0] + width * table[1] + start
    nothing: tl.constexpr = numbers.nothing(table[2] is not None)
    return (
        None if table[2] is None else tl.load(place + table[2], mask=mask, other=0.0),
        None if table[3] is None else tl.load(place + table[3], mask=mask, other=0.0),
        None if table[4] is None else tl.load(place + table[4], mask=mask, other=nothing),
    )


@triton.jit
def write(table, width, start, number, mask):
    """Writes numbers to cells where the mask is true."""
    place = table[0] + width * table[1] + start
    if table[2] is not None:
        tl.store(place + table[2], number[0], mask=mask)
    if table[3] is not None:
        tl.store(place + table[3], number[1], mask=mask)
    if table[4] is not None:
        tl.store(place + table[4], number[2], mask=mask)


@triton.jit
def sum_over_splits(left, right, width, start, first, gap: tl.constexpr, mask, SPLITS: tl.constexpr):
    """``sum_k left[k, start] * right[width - k - gap, start + k + gap]`` for ``first <= k < width``.

    Args:
        left: table of the left parts.
        right: table of the right parts.
        width: of the cells.
        start: of the cells, ``(1, lane)``.
        first: the narrowest left part.
        gap: how far apart left and right part are.
        mask: which cells exist.
        SPLITS: how many are added at a time.
    """
    total = zeros(left, SPLITS, start.shape[1])
    for base in range(first, width, SPLITS):
        k = base + tl.arange(0, SPLITS)[:, None]
        inside = mask & (k < width)
        a = read(left, k, start, inside)
        b = read(right, width - k - gap, start + k + gap, inside)
        total = numbers.add(total, numbers.multiply(a, b))
    return numbers.fold(total)


@triton.jit
def pull_from_right(outside, other, child, width, start, length, most, gap: tl.constexpr, mask, SPLITS: tl.constexpr):
    """``sum_k outside[width + k, start] * other[k - gap, start + width + gap]`` over parents that end at or before
    the end of the sentence, ``k >= 1``.

    Args:
        outside: table of the outsides of the parents.
        other: table of the other factor of a parent, besides the child.
        child: the values of the cells.
        width: of the cells.
        start: of the cells, ``(1, lane)``.
        length: of the sentence.
        most: the largest ``k`` of all cells.
        gap: how far the other part is from the child.
        mask: which cells exist.
        SPLITS: how many are added at a time.
    """
    total = numbers.zero(SPLITS, start.shape[1], True, outside[3] is not None, False)
    for base in range(1, most + 1, SPLITS):
        k = base + tl.arange(0, SPLITS)[:, None]
        inside = mask & (start + width + k <= length)
        parents = read(outside, width + k, start, inside)
        others = read(other, k - gap, start + width + gap, inside)
        total = numbers.plus_fraction(total, numbers.pull(parents, others, child))
    return numbers.fold_fractions(total, child[2])


@triton.jit
def pull_from_left(outside, other, child, width, start, lowest, most, gap: tl.constexpr, mask, SPLITS: tl.constexpr):
    """``sum_k outside[width + k, start - k] * other[k - gap, start - k]`` over parents that start at or after
    ``lowest``, ``k >= 1``; arguments as in `pull_from_right`."""
    total = numbers.zero(SPLITS, start.shape[1], True, outside[3] is not None, False)
    for base in range(1, most + 1, SPLITS):
        k = base + tl.arange(0, SPLITS)[:, None]
        inside = mask & (start - k >= lowest)
        parents = read(outside, width + k, start - k, inside)
        others = read(other, k - gap, start - k, inside)
        total = numbers.plus_fraction(total, numbers.pull(parents, others, child))
    return numbers.fold_fractions(total, child[2])
