"""Forward-backward for linear chains: one program instance for each sentence, and one barrier for each word.

``A[t,c] = U[t,c] X[t,c]`` with ``X[t,c] = sum_b A[t-1,b] T[t-1,b,c]``, and downwards, with ``o`` for outside,
``oX = U oA``, ``oA[t,b] = sum_c oX[t+1,c] T[t,b,c]``. All numbers have exponents: a step waits for the one before
it, not for arithmetic.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.launch import OPTIONS, SEQUENCE_TILE, Scores, Sizes, Tensors
from structattn.kernels.gpu.states import largest, take_out_best, take_out_best_transitions, transition, unary
from structattn.kernels.gpu.tables import read, write
from structattn.kernels.gpu.vectors import power_near, rounded


@triton.jit(do_not_specialize=["words", "states", "transition_stride"])
def chain_kernel(
    scores,
    transitions,
    lengths,
    vector,
    transition_vector,
    log_partition,
    parts,
    transition_parts,
    memory,
    words,
    states,
    transition_stride,
    PER_POSITION: tl.constexpr,
    DUAL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Log-partition and marginals of the states and transitions of one sentence, or the Hessian times a vector.

    Args:
        scores: ``(batch, word, state)``, in any floating type.
        transitions: ``(batch, word - 1, state, state)``, ``(batch, state, state)`` or ``(state, state)``.
        lengths: ``(batch,)``, int64.
        vector: shaped like the scores; None for marginals.
        transition_vector: for each sentence, or None.
        log_partition: ``(batch,)``, or None.
        parts: shaped like the scores: marginals, or the product; or None.
        transition_parts: those of the transitions for each sentence, or None.
        memory: for each sentence what is kept of each word, and sums of transitions; float64.
        words: of the longest sentence.
        states: their number.
        transition_stride: from the transitions of a sentence to those of the next.
        PER_POSITION: whether each position has transitions of its own.
        DUAL: whether there is a vector.
        ROWS: how many states are added at a time.
        COLUMNS: a power of two no smaller than the number of states.
    """
    sentence = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + sentence).to(tl.int32)
    square = states * states
    plane = 3 * words * states
    memory += sentence * ((2 + DUAL) * plane + 3 * words + square)
    taken = memory + (2 + DUAL) * plane
    counts = taken + 3 * words
    A = (memory, states, plane if DUAL else None, plane * (1 + DUAL))
    X = (memory + words * states, states, A[2], A[3])
    oX = (memory + 2 * words * states, states, A[2], A[3])
    own_parts = (words - 1) * square if PER_POSITION else square
    scores += sentence * words * states
    transitions += sentence * transition_stride
    if vector is not None:
        vector += sentence * words * states
    if transition_vector is not None:
        transition_vector += sentence * own_parts
    if parts is not None:
        parts += sentence * words * states
    if transition_parts is not None:
        transition_parts += sentence * own_parts

    total, size = take_out_best(scores, vector, taken, length, states, COLUMNS)
    if transition_vector is not None:
        entries = tl.maximum(length - 1, 0) * square if PER_POSITION else square
        size = largest(transition_vector, entries, size, ROWS * COLUMNS)
    unit = power_near(size)
    best = taken + 2 * length
    total = take_out_best_transitions(transitions, best, total, length, square, PER_POSITION, ROWS * COLUMNS)
    numbers.barrier()

    state = tl.arange(0, COLUMNS)[None, :]
    known = state < states
    for word in range(length):
        if word == 0:
            inner = numbers.where(known, numbers.one(1, COLUMNS, DUAL, True))
        else:
            top = tl.load(best + word)
            before = numbers.zero(ROWS, COLUMNS, DUAL, True)
            for first in range(0, states, ROWS):
                row = first + tl.arange(0, ROWS)[:, None]
                place = row * states + state + ((word - 1) * square if PER_POSITION else 0)
                step = transition(transitions, transition_vector, DUAL, top, unit, place, (row < states) & known)
                before = numbers.add(before, numbers.multiply(read(A, word - 1, row, row < states), step))
            inner = numbers.settle(numbers.fold(before))
        own = unary(scores, vector, taken, unit, word, length, states, COLUMNS)
        write(X, word, state, inner, known)
        write(A, word, state, numbers.settle(numbers.multiply(inner, own)), known)
        numbers.barrier()

    last = numbers.zero(ROWS, 1, DUAL, True)
    for first in range(0, states, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        last = numbers.add(last, read(A, length - 1, row, (row < states) & (row - row < length)))
    here = tl.full([1, 1], 0, tl.int32)
    empty = numbers.where(here == length, numbers.one(1, 1, DUAL, True))
    all_sequences = numbers.settle(numbers.add(numbers.fold(last), empty))
    if log_partition is not None:
        tl.store(log_partition + sentence + here, rounded(numbers.log(all_sequences) + total, log_partition))
    if parts is not None:
        goal = numbers.reciprocal(all_sequences)
        scale = unit if DUAL else 1.0
        for word in range(length, words):
            nothing = rounded(tl.full([1, COLUMNS], 0.0, tl.float64), parts)
            tl.store(parts + word * states + state, nothing, mask=known)
        if transition_parts is not None:
            steps = tl.maximum(length - 1, 0)
            for first in range(steps * square if PER_POSITION else 0, own_parts, ROWS * COLUMNS):
                place = first + tl.arange(0, ROWS * COLUMNS)
                nothing = tl.full([ROWS * COLUMNS], 0.0, tl.float64)
                if PER_POSITION:
                    tl.store(transition_parts + place, rounded(nothing, transition_parts), mask=place < own_parts)
                else:
                    tl.store(counts + place, nothing, mask=place < own_parts)
            numbers.barrier()
        for back in range(length):
            word = length - 1 - back
            value = read(A, word, state, known)
            if back == 0:
                outside = numbers.pull(goal, numbers.one(1, COLUMNS, DUAL, True), value)
            else:
                top = tl.load(best + word + 1)
                pulled = numbers.zero(ROWS, COLUMNS, DUAL, False)
                for first in range(0, states, ROWS):
                    row = first + tl.arange(0, ROWS)[:, None]
                    real = (row < states) & known
                    # Rows are the states after, columns those before.
                    place = state * states + row
                    offset = word * square if PER_POSITION else 0
                    step = transition(transitions, transition_vector, DUAL, top, unit, place + offset, real)
                    parents = read(oX, word + 1, row, row < states)
                    pulled = numbers.plus_fraction(pulled, numbers.pull(parents, step, value))
                    if transition_parts is not None:
                        used = numbers.probability(numbers.pull(parents, value, step), step) * scale
                        if PER_POSITION:
                            tl.store(transition_parts + offset + place, rounded(used, transition_parts), mask=real)
                        else:
                            used += tl.load(counts + place, mask=real, other=0.0)
                            tl.store(counts + place, used, mask=real)
                outside = numbers.fold_fractions(pulled, value[2])
            tl.store(
                parts + word * states + state, rounded(numbers.probability(outside, value) * scale, parts), mask=known
            )
            own = unary(scores, vector, taken, unit, word, length, states, COLUMNS)
            write(oX, word, state, numbers.pull_only(outside, value, own, read(X, word, state, known)), known)
            numbers.barrier()
        if transition_parts is not None:
            if not PER_POSITION:
                for first in range(0, own_parts, ROWS * COLUMNS):
                    place = first + tl.arange(0, ROWS * COLUMNS)
                    count = tl.load(counts + place, mask=place < own_parts, other=0.0)
                    tl.store(transition_parts + place, rounded(count, transition_parts), mask=place < own_parts)


def marginals(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
    """Log-partition and marginals, each where it is wanted; of the states wherever those of the transitions are."""
    _launch(scores, lengths, [None, None], *results, sizes=sizes)


def hvp(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
    """The Hessian of the log-partition times a vector."""
    vectors = [None if vector is None else vector.contiguous() for vector in given]
    _launch(scores, lengths, vectors, None, *results, sizes=sizes)


def _launch(
    scores: Scores,
    lengths: Tensor,
    vectors: Tensors,
    log_partition: Tensor | None,
    parts: Tensor | None,
    transition_parts: Tensor | None,
    *,
    sizes: Sizes,
) -> None:
    words, states, kind = sizes
    states_of_words, transitions = scores
    dual = vectors[0] is not None
    cells = (2 + dual) * 3 * words * states + 3 * words + states * states
    chain_kernel[(len(states_of_words),)](
        states_of_words,
        transitions,
        lengths,
        *vectors,
        log_partition,
        parts,
        transition_parts,
        states_of_words.new_empty(len(states_of_words) * cells, dtype=torch.float64),
        words,
        states,
        0 if kind == 2 else transitions.stride(0),
        PER_POSITION=kind == 0,
        DUAL=dual,
        COLUMNS=triton.next_power_of_2(states),
        **SEQUENCE_TILE,
        **OPTIONS,
    )
