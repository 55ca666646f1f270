"""CKY: one program instance for each sentence or tile, and one barrier for each width of spans.

With ``w`` the width and ``s`` the start of a span and ``o`` for outside, ``X[w,s] = sum_k B[k,s] B[w-k,s+k]``,
``B = W X``, and downwards ``oB[w,s] = sum_k oX[w+k,s] B[k,s+w] + sum_k oX[w+k,s-k] B[k,s-k]``, ``oX = W oB``, all with
``k >= 1``. Weights are those of `spans.prepare`.

Reference: Baker (1979), Trainable grammars for speech recognition.
"""

from typing import Any

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.launch import Call, Selection, Sizes, functions_of, launch_twice, select, selections_of
from structattn.kernels.gpu.selection import any_of, choose, clear, is_own, mark, marked, of_structure, uniform
from structattn.kernels.gpu.spans import prepare
from structattn.kernels.gpu.tables import (
    distances,
    of_sentence,
    ones,
    pull_from_left,
    pull_from_right,
    read,
    sum_over_splits,
    triangles,
    write,
)
from structattn.kernels.gpu.tiles import DOWN, PREPARE, SUM, UP, in_tiles, report_sum, starts, tile_of, widths
from structattn.kernels.gpu.vectors import rounded

# Numbers kept for a sentence besides its chart: the amount subtracted from all trees, and the unit of the vector.
_FURTHER = tl.constexpr(2)


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
def _inside(W, B, X, length, tile, SPLITS: tl.constexpr, LANES: tl.constexpr):
    narrowest, widest = widths(tile, length)
    for width in range(narrowest, widest + 1):
        first, stop = starts(tile, width, 0, length)
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
    narrowest, widest = widths(tile, length)
    for step in range(widest + 1 - narrowest):
        width = widest - step
        first, stop = starts(tile, width, 0, length)
        for begin in range(first, stop, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start < stop
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


@triton.jit
def _sum_of_trees(B, length):
    place = tl.full([1, 1], 0, tl.int32)
    empty = numbers.where(place == length, ones(B, 1, 1))
    return numbers.add(read(B, place + length, place, place < length), empty)


@triton.jit(do_not_specialize=["words", "plane", "diagonal"])
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
    diagonal,
    STEPS: tl.constexpr,
    EXTENT: tl.constexpr,
    EXTENDED: tl.constexpr,
    BEST: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the spans of one sentence, or the Hessian times a vector.

    Scores are ``(batch, begin, end)``; for the other arguments see `launch.Call`, `launch.launch_twice` and
    `tiles.in_tiles`.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    size = words + 1
    scores, vector, parts = of_sentence(scores, vector, parts, sentence, size * size)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length = tl.load(lengths + sentence).to(tl.int32)
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + _FURTHER)
        W, B, X, oX = _tables(memory, size, distances(plane, DUAL, EXTENDED, BEST))
        taken = memory + (1 + DUAL + EXTENDED) * plane

        tile = tile_of(diagonal, size, EXTENT)
        if PREPARE & STEPS:
            prepare(scores, vector, parts, W, taken, length, size, BEST, SPLITS, LANES)
            numbers.barrier()
        if UP & STEPS:
            _inside(W, B, X, length, tile, SPLITS, LANES)
        place = tl.full([1, 1], 0, tl.int32)
        if SUM & STEPS:
            report_sum(_sum_of_trees(B, length), tl.load(taken + place), log_partition, trusted, sentence, BEST)
        if parts is not None:
            if DOWN & STEPS:
                if numbers.are_used(trusted + sentence, EXTENDED):
                    goal = numbers.reciprocal(_sum_of_trees(B, length))
                    unit = tl.load(taken + 1 + place) if DUAL else 1.0
                    _outside(parts, unit, goal, (W, B, X, oX), length, size, tile, SPLITS, LANES)


@triton.jit
def _descend(parts, tables, key, length, size, SPLITS: tl.constexpr, LANES: tl.constexpr):
    """Marks the phrases of one tree in the result, which is zero if no tree is possible."""
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
        memory += sentence * ((1 + EXTENDED) * plane + _FURTHER)
        tables = _tables(memory, size, distances(plane, False, EXTENDED, streams is None))
        _descend(parts, tables, key, length, size, SPLITS, LANES)


def _room(words: int) -> dict[str, Any]:
    return {"plane": 2 * (words + 2) * (words + 1), "further": _FURTHER.value}


def _launch(call: Call, sizes: Sizes) -> None:
    launch_twice(in_tiles(constituency_kernel), call, sizes[0], **_room(sizes[0]), BEST=False)


def _select(selection: Selection, sizes: Sizes) -> None:
    kernels = (in_tiles(constituency_kernel), constituency_descent_kernel)
    select(*kernels, selection, sizes[0], **_room(sizes[0]), chart={"BEST": selection.streams is None})


marginals, hvp = functions_of(_launch)
argmax, sample = selections_of(_select)
