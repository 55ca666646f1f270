"""The semi-Markov algorithm: one program instance for each sentence, and one barrier for each word.

``A[t,c] = sum_{w,b} A[t-w,b] S[t-w,w,b,c]`` over segments of ``w`` words up to word ``t``, and downwards, with ``o``
for outside, ``oA[s,b] = sum_{w,c} oA[s+w,c] S[s,w,b,c]``. Segmentations differ in their number of segments, so nothing
can be subtracted from the scores, and all numbers have exponents.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.launch import (
    ONE_WARP,
    OPTIONS,
    SEQUENCE_TILE,
    Call,
    Selection,
    Sizes,
    functions_of,
    selections_of,
)
from structattn.kernels.gpu.selection import begun, clear, considered, decided, mark, of_structure, uniform
from structattn.kernels.gpu.tables import distances, of_sentence, ones, read, weights, write, zeros
from structattn.kernels.gpu.vectors import finite_size, power_near, rounded


@triton.jit
def _largest(vector, length, widths, square, COLUMNS: tl.constexpr):
    """The largest entry of a vector among the segments within the sentence."""
    size = tl.full([1, 1], 0.0, tl.float64)
    for start in range(length):
        for first in range(0, tl.minimum(widths, length - start) * square, COLUMNS):
            place = first + tl.arange(0, COLUMNS)[None, :]
            real = place < tl.minimum(widths, length - start) * square
            direction = tl.load(vector + start * widths * square + place, mask=real, other=0.0).to(tl.float64)
            size = tl.maximum(size, tl.max(finite_size(direction), 1, keep_dims=True))
    return power_near(size)


@triton.jit
def _kept(memory, sentence, words, states, DUAL: tl.constexpr, BEST: tl.constexpr):
    """Tables of A and its outside, with a row for each end."""
    plane = 2 * (words + 1) * states
    form = distances(plane, DUAL, True, BEST)
    memory += sentence * (2 + DUAL) * plane
    return (
        (memory, states, form[0], form[1], form[2]),
        (memory + (words + 1) * states, states, form[0], form[1], form[2]),
    )


@triton.jit
def _segment(table, scores, vector, unit, place, real):
    """Weights of segments in the format of a table; zero where the mask is false."""
    score = tl.load(scores + place, mask=real, other=-float("inf")).to(tl.float64)
    if vector is None:
        return weights(table, score, None)
    else:
        return weights(table, score, tl.load(vector + place, mask=real, other=0.0).to(tl.float64) / unit)


@triton.jit(do_not_specialize=["words", "widths", "states"])
def segments_kernel(
    scores,
    lengths,
    vector,
    log_partition,
    parts,
    memory,
    words,
    widths,
    states,
    BEST: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Log-partition and marginals of the segments of one sentence, or the Hessian times a vector.

    Scores are ``(batch, start, width - 1, label before, label)``; the label before the first word is 0. For the other
    leading arguments see `launch.Call`.

    Args:
        memory: for each sentence two numbers for each label at each end, float64.
        words: of the longest sentence.
        widths: words of the widest segment.
        states: number of labels.
        BEST: whether to find best scores.
        ROWS: how many pairs of a width and a label are added at a time.
        COLUMNS: a power of two no smaller than the number of labels.
    """
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + sentence).to(tl.int32)
    square = states * states
    per_start = widths * square
    A, oA = _kept(memory, sentence, words, states, DUAL, BEST)
    scores, vector, parts = of_sentence(scores, vector, parts, sentence, words * per_start)
    unit = _largest(vector, length, widths, square, ROWS * COLUMNS) if DUAL else tl.full([1, 1], 1.0, tl.float64)

    label = tl.arange(0, COLUMNS)[None, :]
    known = label < states
    write(A, 0, label, numbers.where(label == 0, ones(A, 1, COLUMNS)), known)
    numbers.barrier()
    for end in range(1, length + 1):
        total = zeros(A, ROWS, COLUMNS)
        count = tl.minimum(widths, end) * states
        for first in range(0, count, ROWS):
            pair = first + tl.arange(0, ROWS)[:, None]
            width, before = pair // states + 1, pair % states
            real = pair < count
            place = (end - width) * per_start + (width - 1) * square + before * states + label
            # The only label before the first word is 0, so only its scores are read there.
            allowed = real & known & ((end > width) | (before == 0))
            total = numbers.add(
                total,
                numbers.multiply(read(A, end - width, before, real), _segment(A, scores, vector, unit, place, allowed)),
            )
        write(A, end, label, numbers.settle(numbers.fold(total)), known)
        numbers.barrier()

    last = zeros(A, ROWS, 1)
    for first in range(0, states, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        last = numbers.add(last, read(A, length, row, row < states))
    all_segmentations = numbers.settle(numbers.fold(last))
    if log_partition is not None:
        here = tl.full([1, 1], 0, tl.int32)
        tl.store(log_partition + sentence + here, rounded(numbers.log(all_segmentations), log_partition))
    if parts is not None:
        goal = numbers.reciprocal(all_segmentations)
        write(
            oA,
            length,
            label,
            numbers.pull(goal, ones(A, 1, COLUMNS), read(A, length, label, known)),
            known,
        )
        clear(parts + length * per_start, (words - length) * per_start, ROWS * COLUMNS)
        numbers.barrier()
        for back in range(length):
            start = length - 1 - back
            value = read(A, start, label, known)
            pulled = numbers.zero(ROWS, COLUMNS, True, DUAL, False)
            for first in range(0, widths * states, ROWS):
                # Rows are the widths and the labels, columns the labels before.
                pair = first + tl.arange(0, ROWS)[:, None]
                width, after = pair // states + 1, pair % states
                place = start * per_start + (width - 1) * square + label * states + after
                real = (start + width <= length) & (pair < widths * states)
                own = _segment(A, scores, vector, unit, place, real & known & ((start > pair - pair) | (label == 0)))
                parents = read(oA, start + width, after, real)
                pulled = numbers.plus_fraction(pulled, numbers.pull(parents, own, value))
                used = numbers.probability(numbers.pull(parents, value, own), own) * unit
                tl.store(parts + place, rounded(used, parts), mask=(pair < widths * states) & known)
            write(oA, start, label, numbers.fold_fractions(pulled, value[2]), known)
            numbers.barrier()


@triton.jit(do_not_specialize=["batch", "words", "widths", "states"])
def segments_descent_kernel(
    scores,
    lengths,
    streams,
    parts,
    memory,
    batch,
    words,
    widths,
    states,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A best segmentation of one sentence, or a random one, from the last word back.

    For ``streams`` and ``parts`` see `launch.Selection`; the other arguments are those of `segments_kernel`, which has
    written ``memory``.
    """
    square = states * states
    per_start = widths * square
    sentence, parts, key = of_structure(streams, parts, batch, words * per_start)
    A, _ = _kept(memory, sentence, words, states, False, streams is None)
    scores += sentence * words * per_start
    clear(parts, words * per_start, ROWS * COLUMNS)
    numbers.barrier()
    end = tl.load(lengths + sentence).to(tl.int32)
    row = tl.arange(0, COLUMNS)[:, None]
    here = tl.full([1, 1], 0, tl.int32)
    ways = read(A, end, row, row < states)
    number = uniform(key, 1, here, here + end)
    label = decided(considered(begun(1), ways, numbers.settle(numbers.fold(ways)), number, row))
    # No segmentation is possible if no label is.
    end = tl.where(tl.max(tl.max(label, 1), 0) < 0, 0, end)
    while end > 0:
        first = tl.maximum(end - widths, 0)
        state, total, drawn = begun(1), read(A, end, label, label >= 0), uniform(key, 0, label, here + end)
        for base in range(0, (end - first) * states, ROWS):
            # The widest segment comes first, then the first label before it.
            pair = base + tl.arange(0, ROWS)[:, None]
            start, before = first + pair // states, pair % states
            real = (start < end) & ((start > 0) | (before == 0))
            place = start * per_start + (end - start - 1) * square + before * states + label
            own = _segment(A, scores, None, None, place, real)
            state = considered(state, numbers.multiply(read(A, start, before, real), own), total, drawn, pair)
        pair = decided(state)
        start, before = first + pair // states, pair % states
        mark(parts, start * per_start + (end - start - 1) * square + before * states + label, pair >= 0)
        end, label = tl.max(tl.max(start, 1), 0), before


def _launch(call: Call, sizes: Sizes, *, best: bool = False) -> Tensor:
    words, widths, states = sizes
    batch, cells = len(call.scores), (2 + (call.vector is not None)) * 2 * (words + 1) * states
    memory = call.scores.new_empty(batch * cells, dtype=torch.float64)
    constants = {"COLUMNS": triton.next_power_of_2(states), **SEQUENCE_TILE, **OPTIONS}
    segments_kernel[(batch,)](*call, memory, words, widths, states, BEST=best, **constants)
    return memory


def _select(selection: Selection, sizes: Sizes) -> None:
    (scores,), lengths, streams, parts = selection
    memory = _launch(Call(scores, lengths), sizes, best=streams is None)
    segments_descent_kernel[(len(scores) * len(parts),)](
        *(scores, lengths, streams, parts, memory, len(scores), *sizes),
        COLUMNS=triton.next_power_of_2(sizes[2]),
        **SEQUENCE_TILE,
        **ONE_WARP,
    )


marginals, hvp = functions_of(_launch)
argmax, sample = selections_of(_select)
