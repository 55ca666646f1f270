"""All dependency trees by elimination: one program instance for each sentence, and one barrier for each node, two on
the way back.

Weights of a word sum to one, so no sum over trees is above one; numbers with exponents need no such bound.

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.arcs import arc_weights, arcs, take_out_best
from structattn.kernels.gpu.elimination import eliminate, restore
from structattn.kernels.gpu.launch import Call, Sizes, functions_of, launch_twice
from structattn.kernels.gpu.tables import distances, ones, read, write
from structattn.kernels.gpu.vectors import rounded


@triton.jit
def _tables(memory, size, form, SINGLE: tl.constexpr):
    """Weights of arcs, their outsides, and with a single root its row when each of the nodes leaves."""
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
def _load(tables, source, length, words, SINGLE: tl.constexpr, WORDS: tl.constexpr, HEADS: tl.constexpr):
    """Weights of all arcs; those of a single root in the row of the last node, the first to leave."""
    A, _, R = tables
    for first in range(0, length, WORDS):
        for start in range(0, length + 1, HEADS):
            tile = arcs(first, start, length, words, WORDS, HEADS)
            word, head, real = tile[0], tile[1], tile[3]
            own = _weights(A, source, tile, length, words)
            if SINGLE:
                write(A, word, head, own, real & (head > 0))
                write(R, length, word + head * 0, own, real & (head == 0))
            else:
                write(A, word, head, own, real)


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
            if SINGLE:
                outside = read(oA, tl.where(head == 0, 0, word), tl.where(head == 0, word, head), real)
            else:
                outside = read(oA, word, head, real)
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

    Scores are ``(batch, word, head)``; for the other arguments see `launch.Call` and `launch.launch_twice`.
    ``SINGLE`` says whether exactly one word hangs from the root.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length = tl.load(lengths + sentence).to(tl.int32)
        size = words + 1
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + 3 * size)
        scores += sentence * words * size
        if vector is not None:
            vector += sentence * words * size
        if parts is not None:
            parts += sentence * words * size
        tables = _tables(memory, size, distances(plane, DUAL, EXTENDED, False), SINGLE)
        A, oA, R = tables
        taken = memory + (1 + DUAL + EXTENDED) * plane

        total, root, unit = take_out_best(scores, vector, taken, length, words, SINGLE, SPLITS, LANES)
        source = (scores, vector, taken, root, unit)
        numbers.barrier()
        if not EXTENDED:
            total += _take_out_sums(A, (scores, None, taken, root, unit), length, words, SPLITS, LANES)
            numbers.barrier()
        _load(tables, source, length, words, SINGLE, SPLITS, LANES)
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


def _launch(call: Call, sizes: Sizes) -> None:
    words, single_root = sizes
    size = words + 1
    tables = 3 if single_root else 2
    launch_twice(
        spanning_tree_kernel, call, words, plane=tables * size * size, further=3 * size, SINGLE=bool(single_root)
    )


marginals, hvp = functions_of(_launch)
