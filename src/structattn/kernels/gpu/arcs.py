"""Arcs between words: their best scores, and their weights by width and start of the span between their ends.

What is read of a sentence, ``source``, is a tuple of scores, vector (or None), the output of `subtract_best`, the
amount subtracted from the scores of the root, and the unit of the vector.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu.chart_tables import weights, write
from structattn.kernels.gpu.numbers import finite_size, power_near, round_for
from structattn.kernels.gpu.selection import LARGE


@triton.jit
def arc_tile(first, start, length, words, WORDS: tl.constexpr, HEADS: tl.constexpr):
    """Ids of words and heads of a tile, offsets of their arcs, and which arcs exist."""
    word = first + tl.arange(0, WORDS)[:, None] + 1
    head = start + tl.arange(0, HEADS)[None, :]
    return word, head, (word - 1) * (words + 1) + head, (word <= length) & (head <= length) & (word != head)


# Every tree has one head for each word, so a constant may be subtracted from a row of scores, and from a row of the
# vector. With the best head at zero, nothing cancels where the scores are peaked.
@triton.jit
def subtract_best(
    scores, vector, output, length, words, SINGLE: tl.constexpr, WORDS: tl.constexpr, HEADS: tl.constexpr
):
    """Writes the best score of each word and, if there is a vector, its entry there.

    Returns their sum over a tree, the part of it of the root, and a power of two near the largest entry of the vector.
    """
    total = tl.full([1, 1], 0.0, tl.float64)
    root = tl.full([1, 1], -float("inf"), tl.float64)
    size = tl.full([1, 1], 0.0, tl.float64)
    for first in range(0, length, WORDS):
        best = tl.full([WORDS, 1], -float("inf"), tl.float64)
        for start in range(0, length + 1, HEADS):
            word, head, offset, real = arc_tile(first, start, length, words, WORDS, HEADS)
            score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64)
            best = tl.maximum(best, tl.max(score, 1, keep_dims=True))
        word = first + tl.arange(0, WORDS)[:, None] + 1
        from_root = tl.load(scores + (word - 1) * (words + 1), mask=word <= length, other=-float("inf")).to(tl.float64)
        best = tl.where(best > -float("inf"), best, 0.0)
        root = tl.maximum(root, tl.max(from_root - best, 0, keep_dims=True))
        total += tl.sum(best, 0, keep_dims=True)
        tl.store(output + word, best, mask=word <= length)
        if vector is not None:
            centre = tl.full([WORDS, 1], 0.0, tl.float64)
            has_centre = tl.full([WORDS, 1], 0, tl.int32)
            for start in range(0, length + 1, HEADS):
                word, head, offset, real = arc_tile(first, start, length, words, WORDS, HEADS)
                score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64)
                direction = tl.load(vector + offset, mask=real, other=0.0).to(tl.float64)
                size = tl.maximum(size, tl.max(tl.max(finite_size(direction), 1, keep_dims=True), 0, keep_dims=True))
                # The first of equally good heads.
                column = tl.min(tl.where((score == best) & real, head, LARGE), 1, keep_dims=True)
                is_first = (has_centre == 0) & (column < LARGE)
                entry = tl.sum(tl.where(head == column, direction, 0.0), 1, keep_dims=True)
                centre = tl.where(is_first, entry, centre)
                has_centre = tl.where(is_first, 1, has_centre)
            tl.store(output + words + 1 + word, centre, mask=word <= length)
    root = tl.where(root > -float("inf"), root, 0.0) if SINGLE else tl.full([1, 1], 0.0, tl.float64)
    return total + root, root, power_near(size)


@triton.jit
def arc_weights(table, source, growth: tl.constexpr, tile, length, words):
    """Weights of a tile of arcs in the format of a table; ``growth`` is subtracted from each score."""
    scores, vector, constants, root, unit = source
    word, head, offset, real = tile
    best = tl.load(constants + word, mask=word <= length, other=0.0)
    score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64)
    score = score - best - tl.where(head == 0, root, 0.0) - growth
    if vector is None:
        return weights(table, score, None)
    else:
        centre = tl.load(constants + words + 1 + word, mask=word <= length, other=0.0)
        direction = tl.load(vector + offset, mask=real, other=0.0).to(tl.float64) - centre
        return weights(table, score, direction / unit)


@triton.jit
def load_weights(
    source, parts, blank, growth: tl.constexpr, tables, length, words, WORDS: tl.constexpr, HEADS: tl.constexpr
):
    """Writes weights by width and start of spans: to the right to the first table, to the left to the second.

    Parts, if there are any, are ``blank`` where there is no arc.
    """
    for first in range(0, words, WORDS):
        for start in range(0, words + 1, HEADS):
            tile = arc_tile(first, start, length, words, WORDS, HEADS)
            word, head, offset, real = tile
            weight = arc_weights(tables[0], source, growth, tile, length, words)
            write(tables[0], word - head, head, weight, real & (head < word))
            write(tables[1], head - word, word, weight, real & (head > word))
            if parts is not None:
                nothing = round_for(parts, tl.full([WORDS, HEADS], 0.0, tl.float64) + blank)
                tl.store(parts + offset, nothing, mask=(word <= words) & (head <= words) & (real == 0))
