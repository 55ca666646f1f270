"""Eisner's algorithm: one program instance for each sentence or tile, and one barrier for each width of spans.

With ``w`` the width and ``s`` the start of a span, ``X[w,s] = sum_k CR[k,s] CL[w-1-k,s+k+1]``, ``IR = X W(s -> s+w)``,
``IL = X W(s+w -> s)``, ``CR[w,s] = IR[w,s] + sum_k IR[k,s] CR[w-k,s+k]`` and
``CL[w,s] = IL[w,s] + sum_k CL[k,s] IL[w-k,s+k]``, with ``0 < k < w`` in the last two: all tables of a width need only
narrower spans and what the same lane has just computed.

Reference: Eisner (2000), Bilexical grammars and their cubic-time parsing algorithms.
"""

from typing import Any

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.arcs import load_weights, take_out_best
from structattn.kernels.gpu.dependency_descent import descend
from structattn.kernels.gpu.dependency_outside import outside, root_arcs
from structattn.kernels.gpu.launch import Call, Selection, Sizes, functions_of, launch_twice, select, selections_of
from structattn.kernels.gpu.selection import is_own, of_structure
from structattn.kernels.gpu.tables import distances, of_sentence, ones, read, sum_over_splits, triangles, write, zeros
from structattn.kernels.gpu.tiles import DOWN, PREPARE, SUM, UP, in_tiles, report_sum, starts, tile_of, widths

# The number of trees grows like (27/4)^n; about the logarithm of 27/4 is subtracted from each word.
_LOG_GROWTH = tl.constexpr(1.9)


@triton.jit
def _tables(memory, size, plane, form):
    """Weights to the right and to the left, X, IR, IL, CR, CL, the outsides of X, CR, CL; what lies left of a root."""
    return (
        triangles(memory, 0, size, form),
        triangles(memory, 1, size, form),
        triangles(memory, 2, size, form),
        triangles(memory, 3, size, form),
        triangles(memory, 4, size, form),
        triangles(memory, 5, size, form),
        triangles(memory, 6, size, form),
        triangles(memory, 7, size, form),
        triangles(memory, 8, size, form),
        triangles(memory, 9, size, form),
        (memory + plane - size, 1, form[0], form[1], form[2]),
    )


@triton.jit
def _prepare(
    source,
    parts,
    tables,
    length,
    words,
    SINGLE: tl.constexpr,
    BEST: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Writes weights of arcs, ones for spans without an arc, the amount subtracted, and the unit of the vector."""
    scores, vector, taken = source
    total, root, unit = take_out_best(scores, vector, taken, length, words, SINGLE, SPLITS, LANES)
    # No word is at position 0.
    place = tl.full([1, 1], 0, tl.int32)
    tl.store(taken + place, total + length.to(tl.float64) * _LOG_GROWTH)
    tl.store(taken + words + 1 + place, unit)
    numbers.barrier()
    growth: tl.constexpr = 0.0 if BEST else _LOG_GROWTH
    load_weights((scores, vector, taken, root, unit), parts, growth, tables, length, words, SPLITS, LANES)
    for begin in range(0, length + 1, LANES):
        start = begin + tl.arange(0, LANES)[None, :]
        one = ones(tables[0], 1, LANES)
        write(tables[5], 0, start, one, start <= length)
        write(tables[6], 0, start, one, start <= length)


@triton.jit
def _inside(tables, length, tile, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    WR, WL, X, IR, IL, CR, CL, _, _, _, _ = tables
    lowest: tl.constexpr = 1 if SINGLE else 0
    narrowest, widest = widths(tile, length - lowest)
    for width in range(narrowest, widest + 1):
        first, stop = starts(tile, width, lowest, length)
        for begin in range(first, stop, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start < stop
            inner = numbers.settle(sum_over_splits(CR, CL, width, start, 0, 1, real, SPLITS))
            right = numbers.settle(numbers.multiply(inner, read(WR, width, start, real)))
            whole = numbers.add(sum_over_splits(IR, CR, width, start, 1, 0, real, SPLITS), right)
            write(X, width, start, inner, real)
            write(IR, width, start, right, real)
            write(CR, width, start, numbers.settle(whole), real)
            # The root is not a word: no arc leads to position 0.
            real = real & (start > 0)
            left = numbers.settle(numbers.multiply(inner, read(WL, width, start, real)))
            whole = numbers.add(sum_over_splits(CL, IL, width, start, 1, 0, real, SPLITS), left)
            write(IL, width, start, left, real)
            write(CL, width, start, numbers.settle(whole), real)
        numbers.barrier()


@triton.jit
def _add_over_roots(tables, length, SPLITS: tl.constexpr):
    """Writes what lies left of each single root times its arc, and before these the sum over all trees."""
    WR, _, _, _, _, CR, CL, _, _, _, under_root = tables
    place = tl.full([1, 1], 0, tl.int32)
    total = zeros(WR, SPLITS, 1)
    for begin in range(1, length + 1, SPLITS):
        word = begin + tl.arange(0, SPLITS)[:, None]
        real = word <= length
        left = numbers.settle(numbers.multiply(read(WR, word, word * 0, real), read(CL, word - 1, word * 0 + 1, real)))
        write(under_root, word, 0, left, real)
        total = numbers.add(total, numbers.multiply(left, read(CR, length - word, word, real)))
    empty = numbers.where(length == 0, ones(WR, 1, 1))
    write(under_root, place, place, numbers.settle(numbers.add(numbers.fold(total), empty)), place == 0)
    numbers.barrier()


@triton.jit
def _sum_of_trees(tables, length, SINGLE: tl.constexpr):
    place = tl.full([1, 1], 0, tl.int32)
    if SINGLE:
        return read(tables[10], place, place, place == 0)
    else:
        return read(tables[5], place + length, place, place == 0)


@triton.jit(do_not_specialize=["words", "plane", "diagonal"])
def dependency_kernel(
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
    SINGLE: tl.constexpr,
    EXTENDED: tl.constexpr,
    BEST: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the arcs of one sentence, or the Hessian times a vector.

    Scores are ``(batch, word, head)``; for the other arguments see `launch.Call`, `launch.launch_twice` and
    `tiles.in_tiles`. ``SINGLE`` says whether exactly one word has the root as its head.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    size = words + 1
    scores, vector, parts = of_sentence(scores, vector, parts, sentence, words * size)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length = tl.load(lengths + sentence).to(tl.int32)
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + 2 * size)
        form = distances(plane, DUAL, EXTENDED, BEST)
        tables = _tables(memory, size, plane, form)
        taken = memory + (1 + DUAL + EXTENDED) * plane

        tile = tile_of(diagonal, size, EXTENT)
        if PREPARE & STEPS:
            _prepare((scores, vector, taken), parts, tables, length, words, SINGLE, BEST, SPLITS, LANES)
            numbers.barrier()
        if UP & STEPS:
            _inside(tables, length, tile, SINGLE, SPLITS, LANES)
        place = tl.full([1, 1], 0, tl.int32)
        if SUM & STEPS:
            if SINGLE:
                _add_over_roots(tables, length, SPLITS)
            sum_of_trees = _sum_of_trees(tables, length, SINGLE)
            report_sum(sum_of_trees, tl.load(taken + place), log_partition, trusted, sentence, BEST)
        if parts is not None:
            if DOWN & STEPS:
                if numbers.are_used(trusted + sentence, EXTENDED):
                    goal = numbers.reciprocal(_sum_of_trees(tables, length, SINGLE))
                    unit = tl.load(taken + size + place) if DUAL else 1.0
                    outside(parts, unit, goal, tables, length, words, tile, SINGLE, SPLITS, LANES)
                    if SINGLE:
                        root_arcs(parts, unit, goal, tables, length, words, tile, LANES)


@triton.jit(do_not_specialize=["batch", "words", "plane"])
def dependency_descent_kernel(
    lengths,
    streams,
    parts,
    trusted,
    memory,
    marks,
    batch,
    words,
    plane,
    SINGLE: tl.constexpr,
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """A best tree of one sentence, or a random one; for the arguments see `launch.select`."""
    size = words + 1
    sentence, parts, key = of_structure(streams, parts, batch, words * size)
    if is_own(streams, trusted + sentence, EXTENDED):
        length = tl.load(lengths + sentence).to(tl.int32)
        memory += sentence * ((1 + EXTENDED) * plane + 2 * size)
        marks += tl.program_id(0).to(tl.int64) * (size + 1) * size
        tables = _tables(memory, size, plane, distances(plane, False, EXTENDED, streams is None))
        descend(parts, marks, tables, key, length, words, SINGLE, SPLITS, LANES)


def _launch(call: Call, sizes: Sizes) -> None:
    words, single_root = sizes
    launch_twice(in_tiles(dependency_kernel), call, words, **_room(words), SINGLE=bool(single_root), BEST=False)


def _select(selection: Selection, sizes: Sizes) -> None:
    words, single_root = sizes
    select(
        in_tiles(dependency_kernel),
        dependency_descent_kernel,
        selection,
        words,
        **_room(words),
        marks=(words + 2) * (words + 1),
        chart={"BEST": selection.streams is None},
        SINGLE=bool(single_root),
    )


def _room(words: int) -> dict[str, Any]:
    size = words + 1
    return {"plane": 5 * (size + 1) * size + size, "further": 2 * size}


marginals, hvp = functions_of(_launch)
argmax, sample = selections_of(_select)
