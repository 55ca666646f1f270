"""CKY: one program instance for each sentence, and one barrier for each width of spans.

With ``w`` the width and ``s`` the start of a span and ``o`` for outside, ``X[w,s] = sum_k B[k,s] B[w-k,s+k]``,
``B = W X``, and downwards ``oB[w,s] = sum_k oX[w+k,s] B[k,s+w] + sum_k oX[w+k,s-k] B[k,s-k]``, ``oX = W oB``, all with
``k >= 1``. Every tree has all words and the whole sentence: these spans weigh one, and what they score is taken out, as
is the best score of the others from each of them.

Reference: Baker (1979), Trainable grammars for speech recognition.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.launch import Call, Sizes, functions_of, launch_twice
from structattn.kernels.gpu.tables import pull_from_left, pull_from_right, read, sum_over_splits, triangles, write
from structattn.kernels.gpu.vectors import finite_size, power_near, rounded

# The number of trees grows like 4^n; its logarithm is taken out of each phrase.
_LOG_GROWTH = tl.constexpr(1.3862943611198906)


@triton.jit
def _spans(first, start, length, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Begin and end of the spans of a tile, where their scores stand, which there are, and which every tree has."""
    begin = first + tl.arange(0, ROWS)[:, None]
    end = start + tl.arange(0, COLUMNS)[None, :]
    real = (begin < end) & (end <= length)
    return begin, end, begin * size + end, real, real & ((end == begin + 1) | (end - begin == length))


@triton.jit
def _take_out(scores, vector, length, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """What all trees have in common, the best score of another phrase, and a unit of the vector."""
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
def _load_weights(
    scores,
    vector,
    parts,
    W,
    best,
    unit,
    length,
    size,
    EXTENDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Weights of all spans; zero in the results where there is no span."""
    for first in range(0, size, ROWS):
        for start in range(0, size, COLUMNS):
            begin, end, place, real, certain = _spans(first, start, length, size, ROWS, COLUMNS)
            score = tl.load(scores + place, mask=real, other=-float("inf")).to(tl.float64)
            allowed = tl.where(score > -float("inf"), 0.0, -float("inf"))
            score = tl.where(certain, allowed, score - best - _LOG_GROWTH)
            if vector is None:
                own = numbers.weight(score, None, EXTENDED)
            else:
                direction = tl.load(vector + place, mask=real & (certain == 0), other=0.0).to(tl.float64)
                own = numbers.weight(score, direction / unit, EXTENDED)
            write(W, end - begin, begin, own, real)
            if parts is not None:
                nothing = rounded(tl.zeros_like(score), parts)
                tl.store(parts + place, nothing, mask=(begin < size) & (end < size) & (real == 0))


@triton.jit
def _inside(W, B, X, length, SPLITS: tl.constexpr, LANES: tl.constexpr):
    for width in range(1, length + 1):
        for begin in range(0, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start + width <= length
            if width == 1:
                inner = numbers.where(real, numbers.one(1, LANES, W[2] is not None, W[3] is not None))
            else:
                inner = numbers.settle(sum_over_splits(B, B, width, start, 1, 0, real, SPLITS))
            write(X, width, start, inner, real)
            write(B, width, start, numbers.settle(numbers.multiply(inner, read(W, width, start, real))), real)
        numbers.barrier()


@triton.jit
def _outside(parts, unit, goal, W, B, X, oX, length, size, SPLITS: tl.constexpr, LANES: tl.constexpr):
    for step in range(length):
        width = length - step
        for begin in range(0, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start + width <= length
            right_most = length - width - begin
            left_most = tl.minimum(begin + LANES - 1, length - width)
            phrase = read(B, width, start, real)
            own = numbers.plus_fraction(
                pull_from_right(oX, B, phrase, width, start, length, right_most, 0, real, SPLITS),
                pull_from_left(oX, B, phrase, width, start, 0, left_most, 0, real, SPLITS),
            )
            own = numbers.plus_fraction(
                own, numbers.where((start == 0) & (start + width == length), (goal[0], goal[1], phrase[2]))
            )
            found = rounded(numbers.probability(own, phrase) * unit, parts)
            tl.store(parts + start * size + start + width, found, mask=real)
            inner = read(X, width, start, real)
            write(oX, width, start, numbers.pull_only(own, phrase, read(W, width, start, real), inner), real)
        numbers.barrier()


@triton.jit(do_not_specialize=["words"])
def constituency_kernel(
    scores,
    lengths,
    vector,
    log_partition,
    parts,
    trusted,
    memory,
    words,
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the spans of one sentence, or the Hessian times a vector.

    Scores are ``(batch, begin, end)``; for the other arguments see `launch.Call` and `launch.launch_twice`.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length = tl.load(lengths + sentence).to(tl.int32)
        size = words + 1
        plane = 2 * (size + 1) * size
        memory += sentence * (1 + DUAL + EXTENDED) * plane
        scores += sentence * size * size
        if vector is not None:
            vector += sentence * size * size
        if parts is not None:
            parts += sentence * size * size
        W = triangles(memory, 0, size, plane, DUAL, EXTENDED)
        B = triangles(memory, 1, size, plane, DUAL, EXTENDED)
        X = triangles(memory, 2, size, plane, DUAL, EXTENDED)
        oX = triangles(memory, 3, size, plane, DUAL, EXTENDED)

        common, best, unit = _take_out(scores, vector, length, size, SPLITS, LANES)
        _load_weights(scores, vector, parts, W, best, unit, length, size, EXTENDED, SPLITS, LANES)
        numbers.barrier()
        _inside(W, B, X, length, SPLITS, LANES)
        place = tl.full([1, 1], 0, tl.int32)
        empty = numbers.where(place == length, numbers.one(1, 1, DUAL, EXTENDED))
        sum_of_trees = read(B, place + length, place, place < length)
        sum_of_trees = numbers.add(sum_of_trees, empty)
        if log_partition is not None:
            phrases = tl.maximum(length - 2, 0).to(tl.float64)
            found = numbers.log(sum_of_trees) + common + phrases * (best + _LOG_GROWTH)
            tl.store(log_partition + sentence + place, rounded(found, log_partition))
        enough = numbers.sufficed(sum_of_trees, trusted + sentence)
        if parts is not None:
            if enough:
                goal = numbers.reciprocal(sum_of_trees)
                _outside(parts, unit if DUAL else 1.0, goal, W, B, X, oX, length, size, SPLITS, LANES)


def _launch(call: Call, sizes: Sizes) -> None:
    size = sizes[0] + 1
    launch_twice(constituency_kernel, call, sizes[0], plane=2 * (size + 1) * size)


marginals, hvp = functions_of(_launch)
