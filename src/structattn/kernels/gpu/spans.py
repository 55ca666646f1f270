"""Spans of words: those that all trees share, and the weights of the others by width and start.

Every tree contains all words and the whole sentence: these spans have weight one and their scores are subtracted, and
the best score of the other spans is subtracted from each of those.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu.tables import weights, write
from structattn.kernels.gpu.vectors import finite_size, power_near, rounded

# The number of trees grows like 4^n; the logarithm of 4 is subtracted from each phrase.
_LOG_GROWTH = tl.constexpr(1.3862943611198906)


@triton.jit
def _spans(first, start, length, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Begin and end of the spans of a tile, offsets of their scores, which of them exist, and which every tree has."""
    begin = first + tl.arange(0, ROWS)[:, None]
    end = start + tl.arange(0, COLUMNS)[None, :]
    real = (begin < end) & (end <= length)
    return begin, end, begin * size + end, real, real & ((end == begin + 1) | (end - begin == length))


@triton.jit
def _take_out(scores, vector, length, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The score that all trees share, the best score of any other phrase, and a unit of the vector."""
    common = tl.full([1, 1], 0.0, tl.float64)
    best = tl.full([1, 1], -float("inf"), tl.float64)
    entry = tl.full([1, 1], 0.0, tl.float64)
    for first in range(0, length, ROWS):
        for start in range(1, length + 1, COLUMNS):
            _, _, place, real, certain = _spans(first, start, length, size, ROWS, COLUMNS)
            score = tl.load(scores + place, mask=real, other=-float("inf")).to(tl.float64)
            other = tl.where(certain, -float("inf"), score)
            best = tl.maximum(best, tl.max(tl.max(other, 1, keep_dims=True), 0, keep_dims=True))
            fixed = tl.where(certain & (score > -float("inf")), score, 0.0)
            common += tl.sum(tl.sum(fixed, 1, keep_dims=True), 0, keep_dims=True)
            if vector is not None:
                direction = finite_size(tl.load(vector + place, mask=real, other=0.0).to(tl.float64))
                entry = tl.maximum(entry, tl.max(tl.max(direction, 1, keep_dims=True), 0, keep_dims=True))
    return common, tl.where(best > -float("inf"), best, 0.0), power_near(entry)


@triton.jit
def prepare(
    scores,
    vector,
    parts,
    W,
    taken,
    length,
    size,
    BEST: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Weights of all spans; zero in the results where there is no span.

    Args:
        scores: of the sentence.
        vector: of the sentence, or None.
        parts: of the sentence, or None.
        W: the table of weights.
        taken: where the amount subtracted from the score of each tree is written, followed by the unit of the vector.
        length: of the sentence.
        size: the number of positions between words of the longest sentence.
        BEST: whether only the best tree is wanted, so that nothing is subtracted for the number of trees.
        ROWS: of a tile.
        COLUMNS: of a tile.
    """
    common, best, unit = _take_out(scores, vector, length, size, ROWS, COLUMNS)
    phrases = tl.maximum(length - 2, 0).to(tl.float64)
    kept = taken + tl.full([1, 1], 0, tl.int32)
    tl.store(kept, common + phrases * (best + _LOG_GROWTH))
    tl.store(kept + 1, unit)
    for first in range(0, size, ROWS):
        for start in range(0, size, COLUMNS):
            begin, end, place, real, certain = _spans(first, start, length, size, ROWS, COLUMNS)
            score = tl.load(scores + place, mask=real, other=-float("inf")).to(tl.float64)
            allowed = tl.where(score > -float("inf"), 0.0, -float("inf"))
            score = tl.where(certain, allowed, score - best - (0.0 if BEST else _LOG_GROWTH))
            if vector is None:
                own = weights(W, score, None)
            else:
                direction = tl.load(vector + place, mask=real & (certain == 0), other=0.0).to(tl.float64)
                own = weights(W, score, direction / unit)
            write(W, end - begin, begin, own, real)
            if parts is not None:
                nothing = rounded(tl.zeros_like(score), parts)
                tl.store(parts + place, nothing, mask=(begin < size) & (end < size) & (real == 0))
