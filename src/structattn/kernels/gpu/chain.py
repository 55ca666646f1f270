"""Forward-backward for linear chains: one program instance for each sentence, and one barrier for each word.

All numbers have exponents, because a step is limited by waiting for the previous one, not by arithmetic. The steps are
in `chain_walks`.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.chain_walks import at_end, go_back, go_forward
from structattn.kernels.gpu.launch import (
    ONE_WARP,
    OPTIONS,
    SEQUENCE_TILE,
    Scores,
    Selection,
    Sizes,
    Tensors,
    selections_of,
)
from structattn.kernels.gpu.selection import begun, clear, considered, decided, mark, of_structure, uniform
from structattn.kernels.gpu.states import largest, take_out_best, take_out_best_transitions, transition
from structattn.kernels.gpu.tables import distances, of_sentence, read
from structattn.kernels.gpu.vectors import power_near, rounded


@triton.jit
def _kept(memory, words, states, DUAL: tl.constexpr, BEST: tl.constexpr):
    """Tables of A, X and the outside of X, a row per word; and where the amounts subtracted from the scores are."""
    plane = 3 * words * states
    form = distances(plane, DUAL, True, BEST)
    tables = (
        (memory, states, form[0], form[1], form[2]),
        (memory + words * states, states, form[0], form[1], form[2]),
        (memory + 2 * words * states, states, form[0], form[1], form[2]),
    )
    return tables, memory + (2 + DUAL) * plane


@triton.jit
def _cells(words, states, DUAL: tl.constexpr):
    """How many numbers are kept for a sentence: those above, and sums of transitions."""
    return (2 + DUAL) * 3 * words * states + 3 * words + states * states


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
    BEST: tl.constexpr,
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
        memory: for each sentence, the numbers kept for each word, and sums of transitions; float64.
        words: of the longest sentence.
        states: number of states.
        transition_stride: from the transitions of a sentence to those of the next.
        PER_POSITION: whether each position has transitions of its own.
        DUAL: whether there is a vector.
        BEST: whether to find best scores.
        ROWS: how many states are added at a time.
        COLUMNS: a power of two no smaller than the number of states.
    """
    sentence = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + sentence).to(tl.int32)
    square = states * states
    memory += sentence * _cells(words, states, DUAL)
    tables, taken = _kept(memory, words, states, DUAL, BEST)
    counts = taken + 3 * words
    own_parts = (words - 1) * square if PER_POSITION else square
    scores, vector, parts = of_sentence(scores, vector, parts, sentence, words * states)
    transitions += sentence * transition_stride
    _, transition_vector, transition_parts = of_sentence(
        transitions, transition_vector, transition_parts, sentence, own_parts
    )

    total, size = take_out_best(scores, vector, taken, length, states, BEST, COLUMNS)
    if transition_vector is not None:
        entries = tl.maximum(length - 1, 0) * square if PER_POSITION else square
        size = largest(transition_vector, entries, size, ROWS * COLUMNS)
    unit = power_near(size)
    best = taken + 2 * length
    total = take_out_best_transitions(transitions, best, total, length, square, PER_POSITION, BEST, ROWS * COLUMNS)
    numbers.barrier()

    own = (scores, vector, taken, unit)
    steps = (transitions, transition_vector, best, unit, states, square if PER_POSITION else 0)
    go_forward(tables, own, steps, length, states, ROWS, COLUMNS)
    sum_of_sequences = at_end(tables, length, states, ROWS)
    if log_partition is not None:
        place = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
        tl.store(place, rounded(numbers.log(sum_of_sequences) + total, log_partition))
    if parts is not None:
        clear(parts + length * states, (words - length) * states, ROWS * COLUMNS)
        # In Triton, a tuple accepts None from an argument, not from a variable.
        results = (parts, transition_parts, unit if DUAL else 1.0)
        if transition_parts is not None:
            if PER_POSITION:
                written = tl.maximum(length - 1, 0) * square
                clear(transition_parts + written, own_parts - written, ROWS * COLUMNS)
            else:
                # Counts of the transitions that all positions share are added up in float64 first.
                results = (parts, counts, unit if DUAL else 1.0)
                clear(counts, own_parts, ROWS * COLUMNS)
            numbers.barrier()
        goal = numbers.reciprocal(sum_of_sequences)
        go_back(tables, goal, own, steps, results, length, states, PER_POSITION, ROWS, COLUMNS)
        if transition_parts is not None:
            if not PER_POSITION:
                for first in range(0, own_parts, ROWS * COLUMNS):
                    entry = first + tl.arange(0, ROWS * COLUMNS)
                    count = tl.load(counts + entry, mask=entry < own_parts, other=0.0)
                    tl.store(transition_parts + entry, rounded(count, transition_parts), mask=entry < own_parts)


@triton.jit(do_not_specialize=["batch", "words", "states", "transition_stride"])
def chain_descent_kernel(
    scores,
    transitions,
    lengths,
    streams,
    parts,
    memory,
    batch,
    words,
    states,
    transition_stride,
    PER_POSITION: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A best sequence of one sentence, or a random one, from the last word back.

    For ``streams`` and ``parts`` see `launch.Selection`; the other arguments are those of `chain_kernel`, which has
    written ``memory``.
    """
    sentence, parts, key = of_structure(streams, parts, batch, words * states)
    length = tl.load(lengths + sentence).to(tl.int32)
    memory += sentence * _cells(words, states, False)
    tables, taken = _kept(memory, words, states, False, streams is None)
    A, _, _ = tables
    scores += sentence * words * states
    transitions += sentence * transition_stride
    steps = (transitions, None, taken + 2 * length, 1.0, states, states * states if PER_POSITION else 0)
    clear(parts, words * states, COLUMNS)
    numbers.barrier()
    row = tl.arange(0, COLUMNS)[:, None]
    here = tl.full([1, 1], 0, tl.int32)
    ways = read(A, length - 1, row, (row < states) & (row - row < length))
    state = _chosen(ways, uniform(key, 1, here, here + length), row)
    for back in range(length - 1):
        word = length - 1 - back
        mark(parts, word * states + state, state >= 0)
        real = (row < states) & (state >= 0)
        step = transition(A, steps, word - 1, row, state, real)
        ways = numbers.multiply(read(A, word - 1, row, real), step)
        if streams is None:
            # Scores are equal if they are equal after rounding, as on the CPU.
            own = tl.load(scores + word * states + state, mask=state >= 0, other=0.0).to(tl.float64)
            ways = numbers.multiply(ways, (None, None, own))
        state = _chosen(ways, uniform(key, 0, state, here + word), row)
    mark(parts, state, (state >= 0) & (state < length * states))


@triton.jit
def _chosen(ways, number, row):
    """One of the rows; -1 if none is possible."""
    return decided(considered(begun(1), ways, numbers.settle(numbers.fold(ways)), number, row))


def marginals(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
    """Log-partition and marginals, each if it is wanted; those of the states whenever those of the transitions are."""
    _launch(scores, lengths, [None, None], results, sizes)


def hvp(scores: Scores, lengths: Tensor, given: Tensors, results: Tensors, sizes: Sizes) -> None:
    """The Hessian of the log-partition times a vector."""
    vectors = [None if vector is None else vector.contiguous() for vector in given]
    _launch(scores, lengths, vectors, [None, *results], sizes)


def _select(selection: Selection, sizes: Sizes) -> None:
    scores, lengths, streams, parts = selection
    batch = len(scores[0])
    memory = _launch(scores, lengths, [None, None], [None, None, None], sizes, best=streams is None)
    chain_descent_kernel[(batch * len(parts),)](
        *scores, lengths, streams, parts, memory, batch, **_constants(scores, sizes), **ONE_WARP
    )


def _constants(scores: Scores, sizes: Sizes) -> dict[str, Any]:
    words, states, kind = sizes
    return {
        "words": words,
        "states": states,
        "transition_stride": 0 if kind == 2 else scores[1].stride(0),
        "PER_POSITION": kind == 0,
        "COLUMNS": triton.next_power_of_2(states),
    }


def _launch(
    scores: Scores, lengths: Tensor, vectors: Tensors, results: Tensors, sizes: Sizes, *, best: bool = False
) -> Tensor:
    words, states, _ = sizes
    batch, dual = len(scores[0]), vectors[0] is not None
    cells = (2 + dual) * 3 * words * states + 3 * words + states * states
    memory = scores[0].new_empty(batch * cells, dtype=torch.float64)
    constants = {**_constants(scores, sizes), "DUAL": dual, "BEST": best, **SEQUENCE_TILE, **OPTIONS}
    chain_kernel[(batch,)](*scores, lengths, *vectors, *results, memory, **constants)
    return memory


argmax, sample = selections_of(_select)
