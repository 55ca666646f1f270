"""CKY: one program instance for each sentence or tile, and one barrier for each width of spans.

With ``w`` the width and ``s`` the start of a span and ``o`` for outside, ``X[w,s] = sum_k B[k,s] B[w-k,s+k]``,
``B = W X``, and downwards ``oB[w,s] = sum_k oX[w+k,s] B[k,s+w] + sum_k oX[w+k,s-k] B[k,s-k]``, ``oX = W oB``, all with
``k >= 1``. Every tree contains all words and the whole sentence: these spans have weight one and their scores are
subtracted, and the best score of the other spans is subtracted from each of those.

Reference: Baker (1979), Trainable grammars for speech recognition.
"""

from typing import Any

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.chart_tables import (
    DOWN,
    PREPARE,
    SUM,
    UP,
    cell_form,
    locate_tile,
    ones,
    pull_from_left,
    pull_from_right,
    read,
    read_length,
    report_sum,
    select_sentence,
    sum_over_splits,
    tile_starts,
    tile_widths,
    triangle,
    weights,
    write,
)
from structattn.kernels.gpu.launch import (
    Call,
    Selection,
    Sizes,
    in_tiles,
    launch_twice,
    make_selections,
    make_sums,
    select,
)
from structattn.kernels.gpu.numbers import finite_size, power_near, round_for
from structattn.kernels.gpu.selection import any_of, choose, chooses, clear, is_marked, locate_structure, mark, uniform

# Numbers of a sentence besides its chart: the amount subtracted from all trees, and the unit of the vector.
_FURTHER = tl.constexpr(2)
# The number of trees grows like 4^n; the logarithm of 4 is subtracted from each phrase.
_LOG_GROWTH = tl.constexpr(1.3862943611198906)


@triton.jit
def _span_tile(first, start, length, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Begin and end of the spans of a tile, offsets of their scores, which of them exist, and which every tree has."""
    begin = first + tl.arange(0, ROWS)[:, None]
    end = start + tl.arange(0, COLUMNS)[None, :]
    real = (begin < end) & (end <= length)
    return begin, end, begin * size + end, real, real & ((end == begin + 1) | (end - begin == length))


@triton.jit
def _find_constants(scores, vector, length, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The score that all trees share, the best score of any other phrase, and a unit of the vector."""
    common = tl.full([1, 1], 0.0, tl.float64)
    best = tl.full([1, 1], -float("inf"), tl.float64)
    entry = tl.full([1, 1], 0.0, tl.float64)
    for first in range(0, length, ROWS):
        for start in range(1, length + 1, COLUMNS):
            _, _, offset, real, certain = _span_tile(first, start, length, size, ROWS, COLUMNS)
            score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64)
            uncertain = tl.where(certain, -float("inf"), score)
            best = tl.maximum(best, tl.max(tl.max(uncertain, 1, keep_dims=True), 0, keep_dims=True))
            fixed = tl.where(certain & (score > -float("inf")), score, 0.0)
            common += tl.sum(tl.sum(fixed, 1, keep_dims=True), 0, keep_dims=True)
            if vector is not None:
                direction = finite_size(tl.load(vector + offset, mask=real, other=0.0).to(tl.float64))
                entry = tl.maximum(entry, tl.max(tl.max(direction, 1, keep_dims=True), 0, keep_dims=True))
    return common, tl.where(best > -float("inf"), best, 0.0), power_near(entry)


@triton.jit
def _prepare(
    scores,
    vector,
    parts,
    blank,
    W,
    constants,
    length,
    size,
    BEST: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes weights of all spans, the amount subtracted from each tree, and the unit of the vector.

    Parts are ``blank`` where there is no span. For a best tree, nothing is subtracted for the number of trees.
    """
    common, best, unit = _find_constants(scores, vector, length, size, ROWS, COLUMNS)
    phrases = tl.maximum(length - 2, 0).to(tl.float64)
    target = constants + tl.full([1, 1], 0, tl.int32)
    tl.store(target, common + phrases * (best + _LOG_GROWTH))
    tl.store(target + 1, unit)
    for first in range(0, size, ROWS):
        for start in range(0, size, COLUMNS):
            begin, end, offset, real, certain = _span_tile(first, start, length, size, ROWS, COLUMNS)
            score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64)
            allowed = tl.where(score > -float("inf"), 0.0, -float("inf"))
            score = tl.where(certain, allowed, score - best - (0.0 if BEST else _LOG_GROWTH))
            if vector is None:
                weight = weights(W, score, None)
            else:
                direction = tl.load(vector + offset, mask=real & (certain == 0), other=0.0).to(tl.float64)
                weight = weights(W, score, direction / unit)
            write(W, end - begin, begin, weight, real)
            if parts is not None:
                nothing = round_for(parts, tl.zeros_like(score) + blank)
                tl.store(parts + offset, nothing, mask=(begin < size) & (end < size) & (real == 0))


@triton.jit
def _tables(memory, size, form):
    """Weights, B, X and the outside of X."""
    return (
        triangle(memory, 0, size, form),
        triangle(memory, 1, size, form),
        triangle(memory, 2, size, form),
        triangle(memory, 3, size, form),
    )


@triton.jit
def _inside(W, B, X, length, tile, SPLITS: tl.constexpr, LANES: tl.constexpr):
    narrowest, widest = tile_widths(tile, length)
    for width in range(narrowest, widest + 1):
        first, stop = tile_starts(tile, width, 0, length)
        for begin in range(first, stop, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start < stop
            if width == 1:
                inner = numbers.where(real, ones(W, 1, LANES))
            else:
                inner = numbers.settle(sum_over_splits(B, B, width, start, 1, 0, real, SPLITS))
            write(X, width, start, inner, real)
            write(B, width, start, numbers.settle(numbers.multiply(inner, read(W, width, start, real))), real)
        numbers.barrier()


@triton.jit
def _outside(parts, unit, goal, tables, length, size, tile, SPLITS: tl.constexpr, LANES: tl.constexpr):
    W, B, X, oX = tables
    narrowest, widest = tile_widths(tile, length)
    for step in range(widest + 1 - narrowest):
        width = widest - step
        first, stop = tile_starts(tile, width, 0, length)
        for begin in range(first, stop, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start < stop
            right_most = length - width - begin
            left_most = tl.minimum(begin + LANES - 1, length - width)
            phrase = read(B, width, start, real)
            pulled = numbers.add_fractions(
                pull_from_right(oX, B, phrase, width, start, length, right_most, 0, real, SPLITS),
                pull_from_left(oX, B, phrase, width, start, 0, left_most, 0, real, SPLITS),
            )
            whole = (start == 0) & (start + width == length)
            pulled = numbers.add_fractions(pulled, numbers.where(whole, (goal[0], goal[1], phrase[2])))
            probability = round_for(parts, numbers.probability(pulled, phrase) * unit)
            tl.store(parts + start * size + start + width, probability, mask=real)
            inner = read(X, width, start, real)
            write(oX, width, start, numbers.pull_only(pulled, phrase, read(W, width, start, real), inner), real)
        numbers.barrier()


@triton.jit
def _sum_of_trees(B, length):
    origin = tl.full([1, 1], 0, tl.int32)
    empty = numbers.where(origin == length, ones(B, 1, 1))
    return numbers.add(read(B, origin + length, origin, origin < length), empty)


@triton.jit(do_not_specialize=["words", "plane", "diagonal"])
def constituency_kernel(
    scores,  # (batch, begin, end); for the other arguments see `launch.Call`, `launch_twice` and `in_tiles`
    lengths,
    vector,
    log_partition,
    parts,
    trusted,
    memory,
    words,
    plane,
    diagonal,
    STEPS: tl.constexpr,
    EXTENT: tl.constexpr,
    EXTENDED: tl.constexpr,
    BEST: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the spans of one sentence, or the Hessian times a vector."""
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    size = words + 1
    scores, vector, parts = select_sentence(scores, vector, parts, sentence, size * size)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length, blank = read_length(lengths, sentence, words)
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + _FURTHER)
        W, B, X, oX = _tables(memory, size, cell_form(plane, DUAL, EXTENDED, BEST))
        constants = memory + (1 + DUAL + EXTENDED) * plane

        tile = locate_tile(diagonal, size, EXTENT)
        if PREPARE & STEPS:
            _prepare(scores, vector, parts, blank, W, constants, length, size, BEST, SPLITS, LANES)
            numbers.barrier()
        if UP & STEPS:
            _inside(W, B, X, length, tile, SPLITS, LANES)
        origin = tl.full([1, 1], 0, tl.int32)
        if SUM & STEPS:
            subtracted = tl.load(constants + origin) + blank
            report_sum(_sum_of_trees(B, length), subtracted, log_partition, trusted, sentence, BEST)
        if parts is not None:
            if DOWN & STEPS:
                if numbers.are_used(trusted + sentence, EXTENDED):
                    goal = numbers.reciprocal(_sum_of_trees(B, length))
                    unit = tl.load(constants + 1 + origin) if DUAL else 1.0
                    _outside(parts, unit, goal, (W, B, X, oX), length, size, tile, SPLITS, LANES)


@triton.jit(do_not_specialize=["batch", "words", "plane"])
def constituency_descent_kernel(
    lengths,  # for the arguments see `launch.select`
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
    """Marks the phrases of a best tree of one sentence, or of a random one; zeros if no tree is possible."""
    size = words + 1
    sentence, parts, key = locate_structure(streams, parts, batch, size * size)
    if chooses(streams, trusted + sentence, EXTENDED):
        length, blank = read_length(lengths, sentence, words)
        memory += sentence * ((1 + EXTENDED) * plane + _FURTHER)
        _, B, X, _ = _tables(memory, size, cell_form(plane, False, EXTENDED, streams is None))
        clear(parts, size * size, SPLITS * LANES, blank)
        numbers.barrier()
        origin = tl.full([1, 1], 0, tl.int32)
        whole = read(B, origin + length, origin, origin < length)
        mark(parts, origin + length, numbers.is_possible(whole))
        numbers.barrier()
        for step in range(length - 1):
            width = length - step
            for begin in range(0, length + 1 - width, LANES):
                start = begin + tl.arange(0, LANES)[None, :]
                end = start + width
                real = is_marked(parts, start * size + end, end <= length)
                if any_of(real):
                    number = uniform(key, 0, start, end)
                    k = choose(B, B, read(X, width, start, real), number, width, start, 1, width, 0, real, SPLITS)
                    mark(parts, start * size + start + k, real)
                    mark(parts, (start + k) * size + end, real)
            numbers.barrier()


def _room(words: int) -> dict[str, Any]:
    return {"plane": 2 * (words + 2) * (words + 1), "further": _FURTHER.value}


def _launch(call: Call, sizes: Sizes) -> None:
    launch_twice(in_tiles(constituency_kernel), call, sizes[0], **_room(sizes[0]), BEST=False)


def _select(selection: Selection, sizes: Sizes) -> None:
    kernels = (in_tiles(constituency_kernel), constituency_descent_kernel)
    select(*kernels, selection, sizes[0], **_room(sizes[0]), chart={"BEST": selection.streams is None})


marginals, hvp = make_sums(_launch)
argmax, sample = make_selections(_select)
