"""Eisner's program: one program instance for each sentence, and one barrier for each width of spans.

With ``w`` the width and ``s`` the start of a span, ``X[w,s] = sum_k CR[k,s] CL[w-1-k,s+k+1]``,
``IR = X W(s -> s+w)``, ``IL = X W(s+w -> s)``, ``CR[w,s] = IR[w,s] + sum_k IR[k,s] CR[w-k,s+k]`` and
``CL[w,s] = IL[w,s] + sum_k CL[k,s] IL[w-k,s+k]``, with ``0 < k < w`` in the last two: all tables of a width need only
narrower spans and what the same lane has just found.

Reference: Eisner (2000), Bilexical grammars and their cubic-time parsing algorithms.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from structattn.kernels.gpu.arcs import load_weights, take_out_best
from structattn.kernels.gpu.dependency_outside import outside
from structattn.kernels.gpu.launch import OPTIONS, Sizes, functions_of
from structattn.kernels.gpu.numbers import (
    TRUSTED,
    add,
    barrier,
    fold,
    log,
    multiply,
    one,
    reciprocal,
    settle,
    where,
    zero,
)
from structattn.kernels.gpu.tables import read, sum_over_splits, triangles, write
from structattn.kernels.gpu.vectors import rounded

# The number of trees grows like (27/4)^n; its logarithm is taken out of each word.
_LOG_GROWTH = tl.constexpr(1.9)
# How many splits are added at a time, and how many spans of a width there are in a tile.
SPLITS, LANES = 16, 32
TILE = ("SPLITS", "LANES")


@triton.jit
def _tables(memory, size, plane, DUAL: tl.constexpr, EXTENDED: tl.constexpr):
    """Weights to the right and to the left, X, IR, IL, CR, CL, the outsides of X, CR, CL; what is left of a root."""
    WR = triangles(memory, 0, size, plane, DUAL, EXTENDED)
    return (
        WR,
        triangles(memory, 1, size, plane, DUAL, EXTENDED),
        triangles(memory, 2, size, plane, DUAL, EXTENDED),
        triangles(memory, 3, size, plane, DUAL, EXTENDED),
        triangles(memory, 4, size, plane, DUAL, EXTENDED),
        triangles(memory, 5, size, plane, DUAL, EXTENDED),
        triangles(memory, 6, size, plane, DUAL, EXTENDED),
        triangles(memory, 7, size, plane, DUAL, EXTENDED),
        triangles(memory, 8, size, plane, DUAL, EXTENDED),
        triangles(memory, 9, size, plane, DUAL, EXTENDED),
        (memory + plane - size, 0, WR[2], WR[3]),
    )


@triton.jit
def _inside(tables, length, SINGLE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr):
    WR, WL, X, IR, IL, CR, CL, _, _, _, _ = tables
    lowest: tl.constexpr = 1 if SINGLE else 0
    for begin in range(0, length + 1, LANES):
        start = begin + tl.arange(0, LANES)[None, :]
        unit = one(1, LANES, WR[2] is not None, WR[3] is not None)
        write(CR, 0, start, unit, start <= length)
        write(CL, 0, start, unit, start <= length)
    barrier()
    for width in range(1, length + 1 - lowest):
        for begin in range(lowest, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start + width <= length
            inner = settle(sum_over_splits(CR, CL, width, start, 0, 1, real, SPLITS))
            right = settle(multiply(inner, read(WR, width, start, real)))
            whole = add(sum_over_splits(IR, CR, width, start, 1, 0, real, SPLITS), right)
            write(X, width, start, inner, real)
            write(IR, width, start, right, real)
            write(CR, width, start, settle(whole), real)
            # The root is no word: nothing leads to position 0.
            real = real & (start > 0)
            left = settle(multiply(inner, read(WL, width, start, real)))
            whole = add(sum_over_splits(CL, IL, width, start, 1, 0, real, SPLITS), left)
            write(IL, width, start, left, real)
            write(CL, width, start, settle(whole), real)
        barrier()


@triton.jit
def _sum_of_trees(tables, length, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """The sum over all trees; for a single root also what stands left of each root, in a table of its own."""
    WR, _, _, _, _, CR, CL, _, _, _, under_root = tables
    if SINGLE:
        total = zero(SPLITS, 1, WR[2] is not None, WR[3] is not None)
        for begin in range(1, length + 1, SPLITS):
            word = begin + tl.arange(0, SPLITS)[:, None]
            real = word <= length
            left = settle(multiply(read(WR, word, word * 0, real), read(CL, word - 1, word * 0 + 1, real)))
            write(under_root, word * 0, word, left, real)
            total = add(total, multiply(left, read(CR, length - word, word, real)))
        empty = where(length == 0, one(1, 1, WR[2] is not None, WR[3] is not None))
        barrier()
        return settle(add(fold(total), empty))
    else:
        place = tl.full([1, 1], 0, tl.int32)
        return read(CR, place + length, place, place == 0)


@triton.jit(do_not_specialize=["words"])
def dependency_kernel(
    scores,
    lengths,
    vector,
    log_partition,
    parts,
    trusted,
    memory,
    words,
    SINGLE: tl.constexpr,
    EXTENDED: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Log-partition and marginals of the arcs of one sentence, or the Hessian times a vector.

    Args:
        scores: ``(batch, word, head)``, in any floating type.
        lengths: ``(batch,)``, int64.
        vector: shaped like the scores; None for marginals.
        log_partition: ``(batch,)``, or None.
        parts: shaped like the scores: marginals, or the product; or None.
        trusted: ``(batch,)``, int32: whether doubles without exponents have sufficed. The program with exponents
            returns at once where they have.
        memory: for each sentence the tables and vectors of `memory_of`, float64.
        words: of the longest sentence.
        SINGLE: whether exactly one word hangs from the root.
        EXTENDED: whether numbers have exponents.
        SPLITS: how many splits are added at a time.
        LANES: how many spans of a width there are in a tile.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    needed = tl.load(trusted + sentence) == 0 if EXTENDED else sentence >= 0
    if needed:
        length = tl.load(lengths + sentence).to(tl.int32)
        size = words + 1
        plane = 5 * (size + 1) * size + size
        memory += sentence * ((1 + DUAL + EXTENDED) * plane + 2 * size)
        scores += sentence * words * size
        if vector is not None:
            vector += sentence * words * size
        if parts is not None:
            parts += sentence * words * size
        tables = _tables(memory, size, plane, DUAL, EXTENDED)
        taken = memory + (1 + DUAL + EXTENDED) * plane

        total, root, unit = take_out_best(scores, vector, taken, length, words, SINGLE, SPLITS, LANES)
        barrier()
        load_weights(
            scores, vector, parts, taken, root, _LOG_GROWTH, unit, tables, length, words, EXTENDED, SPLITS, LANES
        )
        barrier()
        _inside(tables, length, SINGLE, SPLITS, LANES)
        sum_of_trees = _sum_of_trees(tables, length, SINGLE, SPLITS)
        if log_partition is not None:
            found = log(sum_of_trees) + total + length.to(tl.float64) * _LOG_GROWTH
            place = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
            tl.store(place, rounded(found, log_partition))
        enough = sentence >= 0
        if not EXTENDED:
            enough = tl.sum(tl.sum(sum_of_trees[0], 1), 0) > TRUSTED
            tl.store(trusted + sentence, enough.to(tl.int32))
        if parts is not None:
            if enough:
                goal = reciprocal(sum_of_trees)
                outside(parts, unit if DUAL else 1.0, goal, tables, length, words, SINGLE, SPLITS, LANES)


def _launch(
    scores: Tensor,
    lengths: Tensor,
    vector: Tensor | None,
    log_partition: Tensor | None,
    parts: Tensor | None,
    sizes: Sizes,
) -> None:
    words, single_root = sizes
    batch, size = len(scores), words + 1
    # With slopes, with exponents: the second launch needs most.
    planes = 2 + (vector is not None)
    cells = planes * (5 * (size + 1) * size + size) + 2 * size
    memory = scores.new_empty(batch * cells, dtype=torch.float64)
    trusted = lengths.new_empty(batch, dtype=torch.int32)
    for extended in (False, True):
        dependency_kernel[(batch,)](
            scores,
            lengths,
            vector,
            log_partition,
            parts,
            trusted,
            memory,
            words,
            SINGLE=bool(single_root),
            EXTENDED=extended,
            SPLITS=SPLITS,
            LANES=LANES,
            **OPTIONS,
        )


marginals, hvp = functions_of(_launch)
