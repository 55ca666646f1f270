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
from structattn.kernels.gpu.chart_tables import (
    cell_form,
    ones,
    read,
    read_length,
    select_sentence,
    weights,
    write,
    zeros,
)
from structattn.kernels.gpu.launch import (
    ONE_WARP,
    OPTIONS,
    SEQUENCE_TILE,
    Call,
    Selection,
    Sizes,
    make_selections,
    make_sums,
)
from structattn.kernels.gpu.numbers import finite_size, power_near, round_for
from structattn.kernels.gpu.selection import begin_choice, clear, consider, decide, locate_structure, mark, uniform


@triton.jit
def _find_unit(vector, length, widths, square, COLUMNS: tl.constexpr):
    """A power of two near the largest entry of a vector among the segments within the sentence."""
    size = tl.full([1, 1], 0.0, tl.float64)
    for start in range(length):
        for first in range(0, tl.minimum(widths, length - start) * square, COLUMNS):
            entry = first + tl.arange(0, COLUMNS)[None, :]
            real = entry < tl.minimum(widths, length - start) * square
            direction = tl.load(vector + start * widths * square + entry, mask=real, other=0.0).to(tl.float64)
            size = tl.maximum(size, tl.max(finite_size(direction), 1, keep_dims=True))
    return power_near(size)


@triton.jit
def _tables(memory, sentence, words, states, DUAL: tl.constexpr, BEST: tl.constexpr):
    """Tables of A and its outside, with a row for each end."""
    plane = 2 * (words + 1) * states
    form = cell_form(plane, DUAL, True, BEST)
    memory += sentence * (2 + DUAL) * plane
    return (
        (memory, states, form[0], form[1], form[2]),
        (memory + (words + 1) * states, states, form[0], form[1], form[2]),
    )


@triton.jit
def _segment_weights(table, scores, vector, unit, offset, real):
    """Weights of segments in the format of a table; zero where the mask is false."""
    score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64)
    if vector is None:
        return weights(table, score, None)
    else:
        return weights(table, score, tl.load(vector + offset, mask=real, other=0.0).to(tl.float64) / unit)


@triton.jit(do_not_specialize=["words", "widths", "states"])
def segments_kernel(
    # (batch, start, width - 1, label before, label), the label before the first word is 0; for the next see `Call`
    scores,
    lengths,
    vector,
    log_partition,
    parts,
    memory,  # for each sentence two numbers for each label at each end, float64
    words,  # of the longest sentence
    widths,  # words of the widest segment
    states,  # number of labels
    BEST: tl.constexpr,  # whether to find best scores
    ROWS: tl.constexpr,  # how many pairs of a width and a label are added at a time
    COLUMNS: tl.constexpr,  # a power of two no smaller than the number of labels
):
    """Log-partition and marginals of the segments of one sentence, or the Hessian times a vector."""
    DUAL: tl.constexpr = vector is not None
    sentence = tl.program_id(0).to(tl.int64)
    length, blank = read_length(lengths, sentence, words)
    square = states * states
    per_start = widths * square
    A, oA = _tables(memory, sentence, words, states, DUAL, BEST)
    scores, vector, parts = select_sentence(scores, vector, parts, sentence, words * per_start)
    unit = _find_unit(vector, length, widths, square, ROWS * COLUMNS) if DUAL else tl.full([1, 1], 1.0, tl.float64)

    label = tl.arange(0, COLUMNS)[None, :]
    is_label = label < states
    write(A, 0, label, numbers.where(label == 0, ones(A, 1, COLUMNS)), is_label)
    numbers.barrier()
    for end in range(1, length + 1):
        total = zeros(A, ROWS, COLUMNS)
        count = tl.minimum(widths, end) * states
        for first in range(0, count, ROWS):
            pair = first + tl.arange(0, ROWS)[:, None]
            width, previous = pair // states + 1, pair % states
            real = pair < count
            offset = (end - width) * per_start + (width - 1) * square + previous * states + label
            # The only label before the first word is 0, so only its scores are read there.
            allowed = real & is_label & ((end > width) | (previous == 0))
            weight = _segment_weights(A, scores, vector, unit, offset, allowed)
            total = numbers.add(total, numbers.multiply(read(A, end - width, previous, real), weight))
        write(A, end, label, numbers.settle(numbers.fold(total)), is_label)
        numbers.barrier()

    last = zeros(A, ROWS, 1)
    for first in range(0, states, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        last = numbers.add(last, read(A, length, row, row < states))
    all_segmentations = numbers.settle(numbers.fold(last))
    if log_partition is not None:
        target = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
        tl.store(target, round_for(log_partition, numbers.log(all_segmentations) + blank))
    if parts is not None:
        goal = numbers.reciprocal(all_segmentations)
        at_end = numbers.pull(goal, ones(A, 1, COLUMNS), read(A, length, label, is_label))
        write(oA, length, label, at_end, is_label)
        clear(parts + length * per_start, (words - length) * per_start, ROWS * COLUMNS, blank)
        numbers.barrier()
        for back in range(length):
            start = length - 1 - back
            value = read(A, start, label, is_label)
            pulled = numbers.zero(ROWS, COLUMNS, True, DUAL, False)
            for first in range(0, widths * states, ROWS):
                # Rows are the widths and the labels, columns the labels before.
                pair = first + tl.arange(0, ROWS)[:, None]
                width, following = pair // states + 1, pair % states
                offset = start * per_start + (width - 1) * square + label * states + following
                real = (start + width <= length) & (pair < widths * states)
                allowed = real & is_label & ((start > pair - pair) | (label == 0))
                weight = _segment_weights(A, scores, vector, unit, offset, allowed)
                parents = read(oA, start + width, following, real)
                pulled = numbers.add_fractions(pulled, numbers.pull(parents, weight, value))
                used = numbers.probability(numbers.pull(parents, value, weight), weight) * unit
                tl.store(parts + offset, round_for(parts, used), mask=(pair < widths * states) & is_label)
            write(oA, start, label, numbers.fold_fractions(pulled, value[2]), is_label)
            numbers.barrier()


@triton.jit(do_not_specialize=["batch", "words", "widths", "states"])
def segments_descent_kernel(
    scores,
    lengths,
    streams,  # see `launch.Selection`
    parts,  # see `launch.Selection`
    memory,  # as `segments_kernel` has written it
    batch,
    words,
    widths,
    states,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A best segmentation, or a random one, from the last word back; other arguments are those of `segments_kernel`."""
    square = states * states
    per_start = widths * square
    sentence, parts, key = locate_structure(streams, parts, batch, words * per_start)
    A, _ = _tables(memory, sentence, words, states, False, streams is None)
    scores += sentence * words * per_start
    end, blank = read_length(lengths, sentence, words)
    clear(parts, words * per_start, ROWS * COLUMNS, blank)
    numbers.barrier()
    row = tl.arange(0, COLUMNS)[:, None]
    origin = tl.full([1, 1], 0, tl.int32)
    ways = read(A, end, row, row < states)
    last_number = uniform(key, 1, origin, origin + end)
    label = decide(consider(begin_choice(1), ways, numbers.settle(numbers.fold(ways)), last_number, row))
    # No segmentation is possible if no label is.
    end = tl.where(tl.max(tl.max(label, 1), 0) < 0, 0, end)
    while end > 0:
        first = tl.maximum(end - widths, 0)
        state, total, number = begin_choice(1), read(A, end, label, label >= 0), uniform(key, 0, label, origin + end)
        for base in range(0, (end - first) * states, ROWS):
            # The widest segment comes first, then the first label before it.
            pair = base + tl.arange(0, ROWS)[:, None]
            start, previous = first + pair // states, pair % states
            real = (start < end) & ((start > 0) | (previous == 0))
            offset = start * per_start + (end - start - 1) * square + previous * states + label
            weight = _segment_weights(A, scores, None, None, offset, real)
            state = consider(state, numbers.multiply(read(A, start, previous, real), weight), total, number, pair)
        pair = decide(state)
        start, previous = first + pair // states, pair % states
        mark(parts, start * per_start + (end - start - 1) * square + previous * states + label, pair >= 0)
        end, label = tl.max(tl.max(start, 1), 0), previous


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


marginals, hvp = make_sums(_launch)
argmax, sample = make_selections(_select)
