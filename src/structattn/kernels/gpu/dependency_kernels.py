"""Eisner's algorithm: one program instance for each sentence or tile, and one barrier for each width of spans.

With ``w`` the width and ``s`` the start of a span, ``X[w,s] = sum_k CR[k,s] CL[w-1-k,s+k+1]``, ``IR = X W(s -> s+w)``,
``IL = X W(s+w -> s)``, ``CR[w,s] = IR[w,s] + sum_k IR[k,s] CR[w-k,s+k]`` and
``CL[w,s] = IL[w,s] + sum_k CL[k,s] IL[w-k,s+k]``, with ``0 < k < w`` in the last two: all tables of a width need only
narrower spans and what the same lane has just computed.

Downwards every cell pulls from its parents; ``o`` stands for outside:
``oCR[w,s] = sum_k oX[w+k,s] CL[k-1,s+w+1] + sum_k oCR[w+k,s-k] IR[k,s-k]``, ``oIR = sum_k oCR[w+k,s] CR[k,s+w]``,
``oCL[w,s] = sum_k oX[w+k,s-k] CR[k-1,s-k] + sum_k oCL[w+k,s] IL[k,s+w]``, ``oIL = sum_k oCL[w+k,s-k] CL[k,s-k]`` and
``oX = oIR W(s -> s+w) + oIL W(s+w -> s)``, with ``k >= 0`` for ``oIR`` and ``oIL`` and ``k >= 1`` otherwise.

A best tree, or a random one, is chosen from the whole sentence down: a span to the right is split into
``IR[k,s] CR[w-k,s+k]``, and one to the left into ``CL[k,s] IL[w-k,s+k]``; each has an arc, which is marked in the
result. Below an arc is ``X[w,s]``, which is split into ``CR[k,s] CL[w-1-k,s+k+1]``.

Reference: Eisner (2000), Bilexical grammars and their cubic-time parsing algorithms.
"""

from typing import Any

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.arcs import load_weights, subtract_best
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
    write,
    zeros,
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
from structattn.kernels.gpu.numbers import round_for
from structattn.kernels.gpu.selection import any_of, choose, chooses, clear, is_marked, locate_structure, mark, uniform

# The number of trees grows like (27/4)^n; about the logarithm of 27/4 is subtracted from each word.
_LOG_GROWTH = tl.constexpr(1.9)
# The random choices of a tree, as in `kernels.eisner`.
_HALVES, _RIGHT, _LEFT, _ROOT = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


@triton.jit
def _tables(memory, size, plane, form):
    """Weights to the right and to the left, X, IR, IL, CR, CL, the outsides of X, CR, CL; what lies left of a root."""
    return (
        triangle(memory, 0, size, form),
        triangle(memory, 1, size, form),
        triangle(memory, 2, size, form),
        triangle(memory, 3, size, form),
        triangle(memory, 4, size, form),
        triangle(memory, 5, size, form),
        triangle(memory, 6, size, form),
        triangle(memory, 7, size, form),
        triangle(memory, 8, size, form),
        triangle(memory, 9, size, form),
        (memory + plane - size, 1, form[0], form[1], form[2]),
    )


@triton.jit
def _prepare(
    source,
    parts,
    blank,
    tables,
    length,
    words,
    SINGLE: tl.constexpr,
    BEST: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Writes weights of arcs, ones for spans without an arc, the amount subtracted, and the unit of the vector."""
    scores, vector, constants = source
    total, root, unit = subtract_best(scores, vector, constants, length, words, SINGLE, SPLITS, LANES)
    # No word is at position 0.
    origin = tl.full([1, 1], 0, tl.int32)
    tl.store(constants + origin, total + length.to(tl.float64) * _LOG_GROWTH)
    tl.store(constants + words + 1 + origin, unit)
    numbers.barrier()
    growth: tl.constexpr = 0.0 if BEST else _LOG_GROWTH
    load_weights((scores, vector, constants, root, unit), parts, blank, growth, tables, length, words, SPLITS, LANES)
    for begin in range(0, length + 1, LANES):
        start = begin + tl.arange(0, LANES)[None, :]
        empty = ones(tables[0], 1, LANES)
        write(tables[5], 0, start, empty, start <= length)
        write(tables[6], 0, start, empty, start <= length)


@triton.jit
def _inside(tables, length, tile, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    WR, WL, X, IR, IL, CR, CL, _, _, _, _ = tables
    lowest: tl.constexpr = 1 if SINGLE else 0
    narrowest, widest = tile_widths(tile, length - lowest)
    for width in range(narrowest, widest + 1):
        first, stop = tile_starts(tile, width, lowest, length)
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
    """Writes what lies left of each single root times its arc, and in front of these the sum over all trees."""
    WR, _, _, _, _, CR, CL, _, _, _, under_root = tables
    origin = tl.full([1, 1], 0, tl.int32)
    total = zeros(WR, SPLITS, 1)
    for begin in range(1, length + 1, SPLITS):
        word = begin + tl.arange(0, SPLITS)[:, None]
        real = word <= length
        left = numbers.settle(numbers.multiply(read(WR, word, word * 0, real), read(CL, word - 1, word * 0 + 1, real)))
        write(under_root, word, 0, left, real)
        total = numbers.add(total, numbers.multiply(left, read(CR, length - word, word, real)))
    empty = numbers.where(length == 0, ones(WR, 1, 1))
    write(under_root, origin, origin, numbers.settle(numbers.add(numbers.fold(total), empty)), origin == 0)
    numbers.barrier()


@triton.jit
def _sum_of_trees(tables, length, SINGLE: tl.constexpr):
    origin = tl.full([1, 1], 0, tl.int32)
    if SINGLE:
        return read(tables[10], origin, origin, origin == 0)
    else:
        return read(tables[5], origin + length, origin, origin == 0)


@triton.jit
def _outside(
    parts, unit, goal, tables, length, words, tile, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr
):
    """Writes the probability of each arc of a tile, or its derivative in a unit; omits arcs from a single root."""
    WR, WL, X, IR, IL, CR, CL, oX, oCR, oCL, under_root = tables
    lowest: tl.constexpr = 1 if SINGLE else 0
    narrowest, widest = tile_widths(tile, length - lowest)
    for step in range(widest + 1 - narrowest):
        width = widest - step
        first, stop = tile_starts(tile, width, lowest, length)
        for begin in range(first, stop, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            end = start + width
            real = start < stop
            right_most = length - width - begin
            left_most = tl.minimum(begin + LANES - 1, length - width) - lowest

            child = read(CR, width, start, real)
            pulled = numbers.add_fractions(
                pull_from_right(oX, CL, child, width, start, length, right_most, 1, real, SPLITS),
                pull_from_left(oCR, IR, child, width, start, lowest, left_most, 0, real, SPLITS),
            )
            if SINGLE:
                half = read(under_root, start, 0, real)
                from_goal = numbers.where(end == length, numbers.pull(goal, half, child))
            else:
                from_goal = numbers.where((start == 0) & (end == length), (goal[0], goal[1], child[2]))
            pulled = numbers.add_fractions(pulled, from_goal)
            write(oCR, width, start, pulled, real)
            inner, item = read(X, width, start, real), read(IR, width, start, real)
            unit_number = ones(WR, 1, LANES)
            from_item = numbers.add_fractions(
                pull_from_right(oCR, CR, item, width, start, length, right_most, 0, real, SPLITS),
                numbers.pull(pulled, unit_number, item),
            )
            arc = round_for(parts, numbers.probability(from_item, item) * unit)
            tl.store(parts + (end - 1) * (words + 1) + start, arc, mask=real)
            from_right = numbers.pull_only(from_item, item, read(WR, width, start, real), inner)

            # The same to the left; the root is not a word.
            word = real & (start > 0)
            child = read(CL, width, start, word)
            pulled = numbers.add_fractions(
                pull_from_left(oX, CR, child, width, start, lowest, left_most, 1, word, SPLITS),
                pull_from_right(oCL, IL, child, width, start, length, right_most, 0, word, SPLITS),
            )
            if SINGLE:
                # Words 1 to `end`, and `end` under the root.
                all_left = word & (start == 1)
                half, right = read(under_root, end, 0, all_left), read(CR, length - end, end, all_left)
                root_arc = read(WR, end, start * 0, all_left)
                from_root = numbers.pull_only(numbers.pull(goal, right, half), half, root_arc, child)
                pulled = numbers.add_fractions(pulled, numbers.where(all_left, from_root))
            write(oCL, width, start, pulled, word)
            item = read(IL, width, start, word)
            from_item = numbers.add_fractions(
                pull_from_left(oCL, CL, item, width, start, 1, left_most, 0, word, SPLITS),
                numbers.pull(pulled, unit_number, item),
            )
            arc = round_for(parts, numbers.probability(from_item, item) * unit)
            tl.store(parts + (start - 1) * (words + 1) + end, arc, mask=word)
            from_left = numbers.pull_only(from_item, item, read(WL, width, start, word), inner)
            write(oX, width, start, numbers.add_fractions(from_right, numbers.where(word, from_left)), real)
        numbers.barrier()


@triton.jit
def _write_root_arcs(parts, unit, goal, tables, length, words, tile, LANES: tl.constexpr):
    """Writes the probabilities of the arcs from a single root to the words of a tile on the main diagonal."""
    CR, under_root = tables[5], tables[10]
    first_start, first_end, extent = tile
    if first_start == first_end:
        stop = tl.minimum(first_start + extent, length + 1)
        for begin in range(tl.maximum(first_start, 1), stop, LANES):
            word = begin + tl.arange(0, LANES)[None, :]
            real = word < stop
            half, right = read(under_root, word, 0, real), read(CR, length - word, word, real)
            arc = round_for(parts, numbers.probability(numbers.pull(goal, right, half), half) * unit)
            tl.store(parts + (word - 1) * (words + 1), arc, mask=real)


@triton.jit(do_not_specialize=["words", "plane", "diagonal"])
def dependency_kernel(
    scores,  # (batch, word, head); for the other arguments see `launch.Call`, `launch_twice` and `in_tiles`
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
    SINGLE: tl.constexpr,  # whether exactly one word has the root as its head
    EXTENDED: tl.constexpr,
    BEST: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the arcs of one sentence, or the Hessian times a vector."""
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    size = words + 1
    scores, vector, parts = select_sentence(scores, vector, parts, sentence, words * size)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length, blank = read_length(lengths, sentence, words)
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + 2 * size)
        tables = _tables(memory, size, plane, cell_form(plane, DUAL, EXTENDED, BEST))
        constants = memory + (1 + DUAL + EXTENDED) * plane

        tile = locate_tile(diagonal, size, EXTENT)
        if PREPARE & STEPS:
            _prepare((scores, vector, constants), parts, blank, tables, length, words, SINGLE, BEST, SPLITS, LANES)
            numbers.barrier()
        if UP & STEPS:
            _inside(tables, length, tile, SINGLE, SPLITS, LANES)
        origin = tl.full([1, 1], 0, tl.int32)
        if SUM & STEPS:
            if SINGLE:
                _add_over_roots(tables, length, SPLITS)
            sum_of_trees = _sum_of_trees(tables, length, SINGLE)
            report_sum(sum_of_trees, tl.load(constants + origin) + blank, log_partition, trusted, sentence, BEST)
        if parts is not None:
            if DOWN & STEPS:
                if numbers.are_used(trusted + sentence, EXTENDED):
                    goal = numbers.reciprocal(_sum_of_trees(tables, length, SINGLE))
                    unit = tl.load(constants + size + origin) if DUAL else 1.0
                    _outside(parts, unit, goal, tables, length, words, tile, SINGLE, SPLITS, LANES)
                    if SINGLE:
                        _write_root_arcs(parts, unit, goal, tables, length, words, tile, LANES)


@triton.jit
def _mark_offset(width, start, size, upside_down: tl.constexpr):
    """The offset of a mark: both directions share ``(size + 1) * size`` cells, as tables do."""
    return size * size - width * (size - 1) + start if upside_down else width * size + start


@triton.jit
def _begin_descent(parts, marks, tables, key, length, size, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """Marks the whole sentence, or the spans under a single root, unless no tree is possible."""
    _, _, _, _, _, CR, _, _, _, _, under_root = tables
    origin = tl.full([1, 1], 0, tl.int32)
    if SINGLE:
        total = read(under_root, origin, origin, origin == 0)
        real = (origin < length) & numbers.is_possible(total)
        number = uniform(key, _ROOT, origin, origin + length)
        root = choose(under_root, CR, total, number, length, origin, 1, length + 1, 0, real, SPLITS)
        mark(parts, (root - 1) * size, real)
        mark(marks, _mark_offset(root - 1, origin + 1, size, True), real & (root > 1))
        mark(marks, _mark_offset(length - root, root, size, False), real & (root < length))
    else:
        real = (origin < length) & numbers.is_possible(read(CR, origin + length, origin, origin == 0))
        mark(marks, _mark_offset(origin + length, origin, size, False), real)


@triton.jit
def _mark_arcs(parts, marks, tables, key, width, start, mask, size, SPLITS: tl.constexpr):
    """Marks the first arc of each marked span of a width, and the remainder of the span."""
    _, _, _, IR, IL, CR, CL, _, _, _, _ = tables
    end = start + width
    real = is_marked(marks, _mark_offset(width, start, size, False), mask)
    if any_of(real):
        number = uniform(key, _RIGHT, start, end)
        k = choose(IR, CR, read(CR, width, start, real), number, width, start, 1, width + 1, 0, real, SPLITS)
        mark(parts, (start + k - 1) * size + start, real)
        mark(marks, _mark_offset(width - k, start + k, size, False), real & (k < width))
    # The root is not a word.
    real = is_marked(marks, _mark_offset(width, start, size, True), mask & (start > 0))
    if any_of(real):
        number = uniform(key, _LEFT, start, end)
        k = choose(CL, IL, read(CL, width, start, real), number, width, start, 0, width, 0, real, SPLITS)
        mark(parts, (start + k - 1) * size + end, real)
        mark(marks, _mark_offset(k, start, size, True), real & (k > 0))


@triton.jit
def _mark_halves(parts, marks, tables, key, width, start, mask, size, SPLITS: tl.constexpr):
    """Marks the spans below the arcs of a width, in either direction."""
    _, _, X, _, _, CR, CL, _, _, _, _ = tables
    end = start + width
    real = is_marked(parts, (end - 1) * size + start, mask)
    real = real | is_marked(parts, (start - 1) * size + end, mask & (start > 0))
    if any_of(real):
        number = uniform(key, _HALVES, start, end)
        k = choose(CR, CL, read(X, width, start, real), number, width, start, 0, width, 1, real, SPLITS)
        mark(marks, _mark_offset(k, start, size, False), real & (k > 0))
        mark(marks, _mark_offset(width - 1 - k, start + k + 1, size, True), real & (k < width - 1))


@triton.jit(do_not_specialize=["batch", "words", "plane"])
def dependency_descent_kernel(
    lengths,  # for the arguments see `launch.select`
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
    """A best tree of one sentence, or a random one; zeros if no tree is possible."""
    size = words + 1
    sentence, parts, key = locate_structure(streams, parts, batch, words * size)
    if chooses(streams, trusted + sentence, EXTENDED):
        length, blank = read_length(lengths, sentence, words)
        memory += sentence * ((1 + EXTENDED) * plane + 2 * size)
        marks += tl.program_id(0).to(tl.int64) * (size + 1) * size
        tables = _tables(memory, size, plane, cell_form(plane, False, EXTENDED, streams is None))
        lowest: tl.constexpr = 1 if SINGLE else 0
        clear(parts, words * size, SPLITS * LANES, blank)
        clear(marks, (size + 1) * size, SPLITS * LANES)
        numbers.barrier()
        _begin_descent(parts, marks, tables, key, length, size, SINGLE, SPLITS)
        numbers.barrier()
        for step in range(length - lowest):
            width = length - lowest - step
            for begin in range(lowest, length + 1 - width, LANES):
                start = begin + tl.arange(0, LANES)[None, :]
                _mark_arcs(parts, marks, tables, key, width, start, start + width <= length, size, SPLITS)
            numbers.barrier()
            for begin in range(lowest, length + 1 - width, LANES):
                start = begin + tl.arange(0, LANES)[None, :]
                _mark_halves(parts, marks, tables, key, width, start, start + width <= length, size, SPLITS)
            numbers.barrier()


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


marginals, hvp = make_sums(_launch)
argmax, sample = make_selections(_select)
