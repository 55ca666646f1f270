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
from structattn.kernels.gpu.launch import Call, Selection, Sizes, functions_of, launch_twice, select, selections_of
from structattn.kernels.gpu.selection import any_of, choose, clear, is_own, mark, marked, of_structure, uniform
from structattn.kernels.gpu.tables import (
    distances,
    of_sentence,
    ones,
    pull_from_left,
    pull_from_right,
    read,
    sum_over_splits,
    triangles,
    weights,
    write,
)
from structattn.kernels.gpu.vectors import finite_size, power_near, rounded

# The number of trees grows like 4^n; its logarithm is taken out of each phrase.
_LOG_GROWTH = tl.constexpr(1.3862943611198906)


@triton.jit
def _tables(memory, size, form):
    """Weights, B, X and the outside of X."""
    return (
        triangles(memory, 0, size, form),
        triangles(memory, 1, size, form),
        triangles(memory, 2, size, form),
        triangles(memory, 3, size, form),
    )


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
    BEST: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Weights of all spans; zero in the results where there is no span."""
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


@triton.jit
def _inside(W, B, X, length, SPLITS: tl.constexpr, LANES: tl.constexpr):
    for width in range(1, length + 1):
        for begin in range(0, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start + width <= length
            if width == 1:
                inner = numbers.where(real, ones(W, 1, LANES))
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


@triton.jit(do_not_specialize=["words", "plane"])
def constituency_kernel(
    scores,
    lengths,
    vector,
    log_partition,
    parts,
    trusted,
    memory,
    words,
    plane,
    EXTENDED: tl.constexpr,
    BEST: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the spans of one sentence, or the Hessian times a vector.

    Scores are ``(batch, begin, end)``; for the other arguments see `launch.Call` and `launch.launch_twice`.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    size = words + 1
    scores, vector, parts = of_sentence(scores, vector, parts, sentence, size * size)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length = tl.load(lengths + sentence).to(tl.int32)
        memory += sentence * (1 + DUAL + EXTENDED) * plane
        W, B, X, oX = _tables(memory, size, distances(plane, DUAL, EXTENDED, BEST))

        common, best, unit = _take_out(scores, vector, length, size, SPLITS, LANES)
        _load_weights(scores, vector, parts, W, best, unit, length, size, BEST, SPLITS, LANES)
        numbers.barrier()
        _inside(W, B, X, length, SPLITS, LANES)
        place = tl.full([1, 1], 0, tl.int32)
        empty = numbers.where(place == length, ones(W, 1, 1))
        sum_of_trees = read(B, place + length, place, place < length)
        sum_of_trees = numbers.add(sum_of_trees, empty)
        if log_partition is not None:
            phrases = tl.maximum(length - 2, 0).to(tl.float64)
            found = numbers.log(sum_of_trees) + common + phrases * (best + _LOG_GROWTH)
            tl.store(log_partition + sentence + place, rounded(found, log_partition))
        if not BEST:
            enough = numbers.sufficed(sum_of_trees, trusted + sentence)
            if parts is not None:
                if enough:
                    goal = numbers.reciprocal(sum_of_trees)
                    _outside(parts, unit if DUAL else 1.0, goal, W, B, X, oX, length, size, SPLITS, LANES)


@triton.jit
def _descend(parts, tables, key, length, size, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Marks the phrases of one tree in the result, which is zero where none is possible."""
    _, B, X, _ = tables
    clear(parts, size * size, SPLITS * LANES)
    numbers.barrier()
    here = tl.full([1, 1], 0, tl.int32)
    mark(parts, here + length, numbers.possible(read(B, here + length, here, here < length)))
    numbers.barrier()
    for step in range(length - 1):
        width = length - step
        for begin in range(0, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            end = start + width
            real = marked(parts, start * size + end, end <= length)
            if any_of(real):
                number = uniform(key, 0, start, end)
                k = choose(B, B, read(X, width, start, real), number, width, start, 1, width, 0, real, SPLITS)
                mark(parts, start * size + start + k, real)
                mark(parts, (start + k) * size + end, real)
        numbers.barrier()


@triton.jit(do_not_specialize=["batch", "words", "plane"])
def constituency_descent_kernel(
    lengths,
    streams,
    parts,
    trusted,
    memory,
    batch,
    words,
    plane,
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """A best tree of one sentence, or a random one; for the arguments see `launch.select`."""
    size = words + 1
    sentence, parts, key = of_structure(streams, parts, batch, size * size)
    if is_own(streams, trusted + sentence, EXTENDED):
        length = tl.load(lengths + sentence).to(tl.int32)
        memory += sentence * (1 + EXTENDED) * plane
        tables = _tables(memory, size, distances(plane, False, EXTENDED, streams is None))
        _descend(parts, tables, key, length, size, SPLITS, LANES)


def _plane(sizes: Sizes) -> int:
    return 2 * (sizes[0] + 2) * (sizes[0] + 1)


def _launch(call: Call, sizes: Sizes) -> None:
    launch_twice(constituency_kernel, call, sizes[0], plane=_plane(sizes), BEST=False)


def _select(selection: Selection, sizes: Sizes) -> None:
    chart = {"BEST": selection.streams is None}
    select(constituency_kernel, constituency_descent_kernel, selection, sizes[0], plane=_plane(sizes), chart=chart)


marginals, hvp = functions_of(_launch)
argmax, sample = selections_of(_select)
