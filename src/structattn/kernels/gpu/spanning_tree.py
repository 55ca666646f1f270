"""All dependency trees by elimination: one program instance for each sentence, and one barrier for each node, two on
the way back.

The weights of a word sum to one, so no sum over trees is above one; numbers with exponents need no such bound.

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.arborescence import arborescence_kernel
from structattn.kernels.gpu.arcs import arc_weights, arcs, take_out_best
from structattn.kernels.gpu.elimination import eliminate, read_root_row, restore
from structattn.kernels.gpu.launch import (
    CHART_TILE,
    OPTIONS,
    Call,
    Selection,
    Sizes,
    functions_of,
    in_one,
    launch_twice,
    select,
    selections_of,
)
from structattn.kernels.gpu.selection import is_own, of_structure
from structattn.kernels.gpu.spanning_tree_descent import descend
from structattn.kernels.gpu.tables import distances, of_sentence, ones, read, write
from structattn.kernels.gpu.vectors import rounded


@triton.jit
def _tables(memory, size, form, SINGLE: tl.constexpr):
    """Weights of arcs, their outsides, and with a single root its row at the elimination of each node."""
    square = size * size
    return (
        (memory, size, form[0], form[1], form[2]),
        (memory + square, size, form[0], form[1], form[2]),
        (memory + 2 * square, size, form[0], form[1], form[2]) if SINGLE else None,
    )


@triton.jit
def _weights(table, source, tile, length, words):
    """Weights of a tile of arcs, divided by the sum of those of their word unless they have exponents."""
    own = arc_weights(table, source, 0.0, tile, length, words)
    if table[4] is None:
        _, _, taken, _, _ = source
        own = numbers.scaled(own, tl.load(taken + 2 * (words + 1) + tile[0], mask=tile[0] <= length, other=0.0))
    return own


@triton.jit
def _take_out_sums(table, source, length, words, WORDS: tl.constexpr, HEADS: tl.constexpr):
    """Writes one over the sum of the weights of each word, and returns the logarithm of the product of these sums."""
    _, _, taken, _, _ = source
    total = tl.full([1, 1], 0.0, tl.float64)
    for first in range(0, length, WORDS):
        sums = tl.full([WORDS, 1], 0.0, tl.float64)
        for start in range(0, length + 1, HEADS):
            own = arc_weights(table, source, 0.0, arcs(first, start, length, words, WORDS, HEADS), length, words)
            sums += tl.sum(own[0], 1, keep_dims=True)
        word = first + tl.arange(0, WORDS)[:, None] + 1
        sums = tl.where(sums > 0.0, sums, 1.0)
        tl.store(taken + 2 * (words + 1) + word, 1.0 / sums, mask=word <= length)
        total += tl.sum(tl.where(word <= length, tl.log(sums), 0.0), 0, keep_dims=True)
    return total


@triton.jit
def _load(
    tables, source, length, words, KEPT: tl.constexpr, SINGLE: tl.constexpr, WORDS: tl.constexpr, HEADS: tl.constexpr
):
    """Writes the weights of all arcs; those of a single root in the row of the last node, the first to be eliminated.

    With ``KEPT``, also writes them in place of the outsides, so that they are still available after the elimination.
    """
    A, oA, R = tables
    for first in range(0, length, WORDS):
        for start in range(0, length + 1, HEADS):
            tile = arcs(first, start, length, words, WORDS, HEADS)
            word, head, real = tile[0], tile[1], tile[3]
            own = _weights(A, source, tile, length, words)
            if SINGLE:
                write(R, length, word + head * 0, own, real & (head == 0))
                real = real & (head > 0)
            write(A, word, head, own, real)
            if KEPT:
                write(oA, word, head, own, real)


@triton.jit
def _write_parts(
    parts,
    tables,
    source,
    possible,
    length,
    words,
    SINGLE: tl.constexpr,
    WORDS: tl.constexpr,
    HEADS: tl.constexpr,
):
    """The probability of each arc, or its derivative; zero where there is no arc, and all zeros without a tree."""
    A, oA, _ = tables
    _, vector, _, _, unit = source
    for first in range(0, words, WORDS):
        for start in range(0, words + 1, HEADS):
            tile = arcs(first, start, length, words, WORDS, HEADS)
            word, head, place, real = tile
            own = _weights(A, source, tile, length, words)
            outside = read(oA, word, head, real & (head > 0) if SINGLE else real)
            if SINGLE:
                outside = numbers.either(head == 0, read_root_row(oA, length, word, word <= length), outside)
            found = numbers.probability(numbers.pull(outside, ones(A, WORDS, HEADS), own), own)
            # Probabilities were subtracted: rounding may leave -1e-17.
            found = tl.maximum(found, 0.0) if vector is None else found * unit
            found = tl.where(real & possible, found, 0.0)
            tl.store(parts + place, rounded(found, parts), mask=(word <= words) & (head <= words))


@triton.jit(do_not_specialize=["words", "plane"])
def spanning_tree_kernel(
    scores,
    lengths,
    vector,
    log_partition,
    parts,
    trusted,
    memory,
    words,
    plane,
    SINGLE: tl.constexpr,
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the arcs of one sentence, or the Hessian times a vector.

    Scores are ``(batch, word, head)``; for the other arguments see `launch.Call` and `launch.launch_twice`. ``SINGLE``
    says whether exactly one word has the root as its head.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    size = words + 1
    scores, vector, parts = of_sentence(scores, vector, parts, sentence, words * size)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length = tl.load(lengths + sentence).to(tl.int32)
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + 3 * size)
        tables = _tables(memory, size, distances(plane, DUAL, EXTENDED, False), SINGLE)
        A, oA, R = tables
        taken = memory + (1 + DUAL + EXTENDED) * plane

        total, root, unit = take_out_best(scores, vector, taken, length, words, SINGLE, SPLITS, LANES)
        source = (scores, vector, taken, root, unit)
        numbers.barrier()
        if not EXTENDED:
            total += _take_out_sums(A, (scores, None, taken, root, unit), length, words, SPLITS, LANES)
            numbers.barrier()
        # If nothing else is requested, trees will be chosen.
        KEPT: tl.constexpr = (log_partition is None) & (parts is None)
        _load(tables, source, length, words, KEPT, SINGLE, SPLITS, LANES)
        numbers.barrier()
        sum_of_trees = eliminate(A, R, length, SINGLE, SPLITS, LANES)
        if log_partition is not None:
            place = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
            tl.store(place, rounded(numbers.log(sum_of_trees) + total, log_partition))
        enough = numbers.sufficed(sum_of_trees, trusted + sentence)
        if parts is not None:
            if enough:
                restore(A, R, oA, length, SINGLE, SPLITS, LANES)
                possible = numbers.possible(sum_of_trees)
                _write_parts(parts, tables, source, possible, length, words, SINGLE, SPLITS, LANES)


@triton.jit(do_not_specialize=["batch", "words", "plane"])
def spanning_tree_descent_kernel(
    lengths,
    streams,
    parts,
    trusted,
    memory,
    known,
    batch,
    words,
    plane,
    SINGLE: tl.constexpr,
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """A random tree of one sentence; the marks, ``known``, are two copies of the states of the words, int32.

    For the other arguments see `launch.select`.
    """
    size = words + 1
    sentence, parts, key = of_structure(streams, parts, batch, words * size)
    if is_own(streams, trusted + sentence, EXTENDED):
        length = tl.load(lengths + sentence).to(tl.int32)
        memory += sentence * ((1 + EXTENDED) * plane + 3 * size)
        known += tl.program_id(0).to(tl.int64) * 4 * size
        tables = _tables(memory, size, distances(plane, False, EXTENDED, False), SINGLE)
        descend(parts, known, tables, key, length, words, SINGLE, SPLITS, LANES)


def _launch(call: Call, sizes: Sizes) -> None:
    launch_twice(in_one(spanning_tree_kernel), call, sizes[0], **_room(sizes))


def _select(selection: Selection, sizes: Sizes) -> None:
    if selection.streams is None:
        _launch_best(selection, sizes)
        return
    marks = 4 * (sizes[0] + 1)
    kernels = (in_one(spanning_tree_kernel), spanning_tree_descent_kernel)
    select(*kernels, selection, sizes[0], **_room(sizes), marks=marks, mark_type=torch.int32, chart={})


def _launch_best(selection: Selection, sizes: Sizes) -> None:
    (scores,), lengths, _, parts = selection
    words, single_root = sizes
    batch, size = len(scores), words + 1
    gains = scores.new_empty(batch * (words + 3) * size, dtype=torch.float64)
    known = lengths.new_empty(batch * (3 * words + 8) * size, dtype=torch.int32)
    constants = {"SINGLE": bool(single_root), **CHART_TILE, **OPTIONS}
    arborescence_kernel[(batch,)](scores, lengths, parts, gains, known, words, **constants)


def _room(sizes: Sizes) -> dict[str, Any]:
    words, single_root = sizes
    size, tables = words + 1, 3 if single_root else 2
    return {"plane": tables * size * size, "further": 3 * size, "SINGLE": bool(single_root)}


marginals, hvp = functions_of(_launch)
argmax, sample = selections_of(_select)
