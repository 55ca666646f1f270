"""Eisner's program: one program instance for each sentence, and one barrier for each width of spans.

With ``w`` the width and ``s`` the start of a span, ``X[w,s] = sum_k CR[k,s] CL[w-1-k,s+k+1]``,
``IR = X W(s -> s+w)``, ``IL = X W(s+w -> s)``, ``CR[w,s] = IR[w,s] + sum_k IR[k,s] CR[w-k,s+k]`` and
``CL[w,s] = IL[w,s] + sum_k CL[k,s] IL[w-k,s+k]``, with ``0 < k < w`` in the last two: all tables of a width need only
narrower spans and what the same lane has just found.

Reference: Eisner (2000), Bilexical grammars and their cubic-time parsing algorithms.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.arcs import load_weights, take_out_best
from structattn.kernels.gpu.dependency_outside import outside
from structattn.kernels.gpu.launch import Call, Sizes, functions_of, launch_twice
from structattn.kernels.gpu.tables import read, sum_over_splits, triangles, write
from structattn.kernels.gpu.vectors import rounded

# The number of trees grows like (27/4)^n; its logarithm is taken out of each word.
_LOG_GROWTH = tl.constexpr(1.9)


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
        unit = numbers.one(1, LANES, WR[2] is not None, WR[3] is not None)
        write(CR, 0, start, unit, start <= length)
        write(CL, 0, start, unit, start <= length)
    numbers.barrier()
    for width in range(1, length + 1 - lowest):
        for begin in range(lowest, length + 1 - width, LANES):
            start = begin + tl.arange(0, LANES)[None, :]
            real = start + width <= length
            inner = numbers.settle(sum_over_splits(CR, CL, width, start, 0, 1, real, SPLITS))
            right = numbers.settle(numbers.multiply(inner, read(WR, width, start, real)))
            whole = numbers.add(sum_over_splits(IR, CR, width, start, 1, 0, real, SPLITS), right)
            write(X, width, start, inner, real)
            write(IR, width, start, right, real)
            write(CR, width, start, numbers.settle(whole), real)
            # The root is no word: nothing leads to position 0.
            real = real & (start > 0)
            left = numbers.settle(numbers.multiply(inner, read(WL, width, start, real)))
            whole = numbers.add(sum_over_splits(CL, IL, width, start, 1, 0, real, SPLITS), left)
            write(IL, width, start, left, real)
            write(CL, width, start, numbers.settle(whole), real)
        numbers.barrier()


@triton.jit
def _sum_of_trees(tables, length, SINGLE: tl.constexpr, SPLITS: tl.constexpr):
    """The sum over all trees; for a single root also what stands left of each root, in a table of its own."""
    WR, _, _, _, _, CR, CL, _, _, _, under_root = tables
    if SINGLE:
        total = numbers.zero(SPLITS, 1, WR[2] is not None, WR[3] is not None)
        for begin in range(1, length + 1, SPLITS):
            word = begin + tl.arange(0, SPLITS)[:, None]
            real = word <= length
            left = numbers.settle(
                numbers.multiply(read(WR, word, word * 0, real), read(CL, word - 1, word * 0 + 1, real))
            )
            write(under_root, word * 0, word, left, real)
            total = numbers.add(total, numbers.multiply(left, read(CR, length - word, word, real)))
        empty = numbers.where(length == 0, numbers.one(1, 1, WR[2] is not None, WR[3] is not None))
        numbers.barrier()
        return numbers.settle(numbers.add(numbers.fold(total), empty))
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

    Scores are ``(batch, word, head)``; for the other arguments see `launch.Call` and `launch.launch_twice`.
    ``SINGLE`` says whether exactly one word hangs from the root.
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
        numbers.barrier()
        load_weights(
            scores, vector, parts, taken, root, _LOG_GROWTH, unit, tables, length, words, EXTENDED, SPLITS, LANES
        )
        numbers.barrier()
        _inside(tables, length, SINGLE, SPLITS, LANES)
        sum_of_trees = _sum_of_trees(tables, length, SINGLE, SPLITS)
        if log_partition is not None:
            found = numbers.log(sum_of_trees) + total + length.to(tl.float64) * _LOG_GROWTH
            place = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
            tl.store(place, rounded(found, log_partition))
        enough = numbers.sufficed(sum_of_trees, trusted + sentence)
        if parts is not None:
            if enough:
                goal = numbers.reciprocal(sum_of_trees)
                outside(parts, unit if DUAL else 1.0, goal, tables, length, words, SINGLE, SPLITS, LANES)


def _launch(call: Call, sizes: Sizes) -> None:
    words, single_root = sizes
    size = words + 1
    plane = 5 * (size + 1) * size + size
    launch_twice(dependency_kernel, call, words, plane=plane, further=2 * size, SINGLE=bool(single_root))


marginals, hvp = functions_of(_launch)
