"""Forward-backward for linear chains: one program instance for each sentence, and one barrier for each word.

``A[t,c] = U[t,c] X[t,c]`` with ``X[t,c] = sum_b A[t-1,b] T[t-1,b,c]``, and back, with ``o`` for outside, ``oX = U oA``,
``oA[t,b] = sum_c oX[t+1,c] T[t,b,c]``. Tables have a row for each word. All numbers have exponents, because a step is
limited by waiting for the previous one, not by arithmetic.

What is read of states (``states``) and of transitions (``steps``) are tuples: scores, vector (None if there is none or
it is zero), what `_subtract_best` or `_subtract_best_transitions` has written, and the unit of the vector; for states
also the length of the sentence and the number of states, for transitions the number of states and the stride from a
position to the next. ``COLUMNS`` is a power of two no smaller than the number of states; ``ROWS`` are added at a time.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields.
"""

from typing import Any

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
from structattn.kernels.gpu.launch import ONE_WARP, OPTIONS, SEQUENCE_TILE, Selection, Sizes, make_selections
from structattn.kernels.gpu.numbers import finite_size, power_near, round_for
from structattn.kernels.gpu.selection import begin_choice, clear, consider, decide, locate_structure, mark, uniform
from structattn.kernels.programs import Scores, Tensors


@triton.jit
def _subtract_best(scores, vector, output, length, states, BEST: tl.constexpr, COLUMNS: tl.constexpr):
    """Writes the best score of each word and, if there is a vector, its entry there: a sequence has one state per word.

    Returns their sum, and the largest entry of the vector. To find best scores (``BEST``), nothing is subtracted.
    """
    total = tl.full([1, 1], 0.0, tl.float64)
    size = tl.full([1, 1], 0.0, tl.float64)
    state = tl.arange(0, COLUMNS)[None, :]
    origin = tl.full([1, 1], 0, tl.int32)
    for word in range(length):
        offset = word * states + state
        score = tl.load(scores + offset, mask=state < states, other=-float("inf")).to(tl.float64)
        best = tl.max(score, 1, keep_dims=True)
        if vector is not None:
            direction = tl.load(vector + offset, mask=state < states, other=0.0).to(tl.float64)
            size = tl.maximum(size, tl.max(finite_size(direction), 1, keep_dims=True))
            # The first of equally good states.
            column = tl.min(tl.where(score == best, state, COLUMNS), 1, keep_dims=True)
            centre = tl.sum(tl.where((state == column) & (best > -float("inf")), direction, 0.0), 1, keep_dims=True)
            tl.store(output + length + word + origin, centre)
        best = tl.zeros_like(best) if BEST else tl.where(best > -float("inf"), best, 0.0)
        tl.store(output + word + origin, best)
        total += best
    return total, size


@triton.jit
def _subtract_best_transitions(
    scores, output, total, length, square, PER_POSITION: tl.constexpr, BEST: tl.constexpr, COLUMNS: tl.constexpr
):
    """Writes the best transition score to each word but the first (every sequence has one), and adds them to a sum."""
    origin = tl.full([1, 1], 0, tl.int32)
    best = tl.full([1, 1], 0.0, tl.float64)
    for word in range(1, length):
        if PER_POSITION or word == 1:
            best = tl.full([1, 1], -float("inf"), tl.float64)
            for first in range(0, square, COLUMNS):
                entry = first + tl.arange(0, COLUMNS)[None, :]
                offset = (word - 1) * square if PER_POSITION else 0
                score = tl.load(scores + offset + entry, mask=entry < square, other=-float("inf")).to(tl.float64)
                best = tl.maximum(best, tl.max(score, 1, keep_dims=True))
            best = tl.zeros_like(best) if BEST else tl.where(best > -float("inf"), best, 0.0)
        tl.store(output + word + origin, best)
        total += best
    return total


@triton.jit
def _find_largest(vector, count, size, COLUMNS: tl.constexpr):
    """The largest of the entries of a vector and a size."""
    for first in range(0, count, COLUMNS):
        entry = first + tl.arange(0, COLUMNS)[None, :]
        direction = tl.load(vector + entry, mask=entry < count, other=0.0).to(tl.float64)
        size = tl.maximum(size, tl.max(finite_size(direction), 1, keep_dims=True))
    return size


@triton.jit
def _unary(table, states, word, COLUMNS: tl.constexpr):
    """Weights of the states of a word in the format of a table, relative to the best one."""
    scores, vector, constants, unit, length, num_states = states
    state = tl.arange(0, COLUMNS)[None, :]
    offset = word * num_states + state
    real = state < num_states
    score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64) - tl.load(constants + word)
    if vector is None:
        return weights(table, score, None)
    else:
        direction = tl.load(vector + offset, mask=real, other=0.0).to(tl.float64)
        return weights(table, score, (direction - tl.load(constants + length + word)) / unit)


@triton.jit
def _transition(table, steps, word, row, column, real):
    """Weights of transitions from a word, states ``row``, to the next, ``column``, relative to the best one."""
    scores, vector, best, unit, num_states, stride = steps
    offset = word * stride + row * num_states + column
    score = tl.load(scores + offset, mask=real, other=-float("inf")).to(tl.float64) - tl.load(best + word + 1)
    if table[3] is not None:
        if vector is None:
            return weights(table, score, tl.zeros_like(score))
        else:
            return weights(table, score, tl.load(vector + offset, mask=real, other=0.0).to(tl.float64) / unit)
    else:
        return weights(table, score, None)


@triton.jit
def _go_forward(tables, states, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Fills A and X."""
    A, X, _ = tables
    length, num_states = states[4], states[5]
    state = tl.arange(0, COLUMNS)[None, :]
    real = state < num_states
    for word in range(length):
        if word == 0:
            inner = numbers.where(real, ones(A, 1, COLUMNS))
        else:
            previous = zeros(A, ROWS, COLUMNS)
            for first in range(0, num_states, ROWS):
                row = first + tl.arange(0, ROWS)[:, None]
                step = _transition(A, steps, word - 1, row, state, (row < num_states) & real)
                previous = numbers.add(previous, numbers.multiply(read(A, word - 1, row, row < num_states), step))
            inner = numbers.settle(numbers.fold(previous))
        write(X, word, state, inner, real)
        whole = numbers.multiply(inner, _unary(A, states, word, COLUMNS))
        write(A, word, state, numbers.settle(whole), real)
        numbers.barrier()


@triton.jit
def _sum_at_end(tables, states, ROWS: tl.constexpr):
    """The sum over all sequences."""
    A, _, _ = tables
    length, num_states = states[4], states[5]
    last = zeros(A, ROWS, 1)
    for first in range(0, num_states, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        last = numbers.add(last, read(A, length - 1, row, (row < num_states) & (row - row < length)))
    empty = numbers.where(tl.full([1, 1], 0, tl.int32) == length, ones(A, 1, 1))
    return numbers.settle(numbers.add(numbers.fold(last), empty))


@triton.jit
def _pull_from_next(
    outside,
    steps,
    results,
    value,
    word,
    PER_POSITION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The outsides of the states of a word from those of the next; writes or counts the transitions between them."""
    _, target, factor = results
    num_states = steps[4]
    state = tl.arange(0, COLUMNS)[None, :]
    pulled = numbers.zero(ROWS, COLUMNS, True, value[1] is not None, False)
    for first in range(0, num_states, ROWS):
        # Rows are the states after, columns those before.
        row = first + tl.arange(0, ROWS)[:, None]
        real = (row < num_states) & (state < num_states)
        step = _transition(outside, steps, word, state, row, real)
        parents = read(outside, word + 1, row, row < num_states)
        pulled = numbers.add_fractions(pulled, numbers.pull(parents, step, value))
        if target is not None:
            used = numbers.probability(numbers.pull(parents, value, step), step) * factor
            entry = state * num_states + row
            if PER_POSITION:
                tl.store(target + word * num_states * num_states + entry, round_for(target, used), mask=real)
            else:
                tl.store(target + entry, used + tl.load(target + entry, mask=real, other=0.0), mask=real)
    return numbers.fold_fractions(pulled, value[2])


@triton.jit
def _go_back(
    tables, goal, states, steps, results, PER_POSITION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Writes probabilities of states and transitions, or their derivatives; ``goal`` is the outside of all sequences.

    ``results``: where those of states and of transitions go (or None), and a factor that they are multiplied by.
    """
    A, X, oX = tables
    parts, _, factor = results
    length, num_states = states[4], states[5]
    state = tl.arange(0, COLUMNS)[None, :]
    real = state < num_states
    for back in range(length):
        word = length - 1 - back
        value = read(A, word, state, real)
        if back == 0:
            outside = numbers.pull(goal, ones(A, 1, COLUMNS), value)
        else:
            outside = _pull_from_next(oX, steps, results, value, word, PER_POSITION, ROWS, COLUMNS)
        probability = numbers.probability(outside, value) * factor
        tl.store(parts + word * num_states + state, round_for(parts, probability), mask=real)
        weight = _unary(A, states, word, COLUMNS)
        write(oX, word, state, numbers.pull_only(outside, value, weight, read(X, word, state, real)), real)
        numbers.barrier()


@triton.jit
def _locate_tables(memory, words, states, DUAL: tl.constexpr, BEST: tl.constexpr):
    """Tables of A, X and the outside of X; and where the amounts subtracted from the scores are."""
    plane = 3 * words * states
    form = cell_form(plane, DUAL, True, BEST)
    tables = (
        (memory, states, form[0], form[1], form[2]),
        (memory + words * states, states, form[0], form[1], form[2]),
        (memory + 2 * words * states, states, form[0], form[1], form[2]),
    )
    return tables, memory + (2 + DUAL) * plane


@triton.jit
def _num_cells(words, states, DUAL: tl.constexpr):
    """How many numbers a sentence has in memory: those above, and sums of transitions."""
    return (2 + DUAL) * 3 * words * states + 3 * words + states * states


@triton.jit(do_not_specialize=["words", "states", "transition_stride"])
def chain_kernel(
    scores,  # (batch, word, state), in any floating type
    transitions,  # (batch, word - 1, state, state), (batch, state, state) or (state, state)
    lengths,  # (batch,), int64
    vector,  # shaped like the scores; None for marginals
    transition_vector,  # for each sentence, or None
    log_partition,  # (batch,), or None
    parts,  # shaped like the scores: marginals, or the product; or None
    transition_parts,  # those of the transitions for each sentence, or None
    memory,  # of `_num_cells` numbers for each sentence, float64
    words,  # of the longest sentence
    states,  # how many there are
    transition_stride,  # from the transitions of a sentence to those of the next
    PER_POSITION: tl.constexpr,  # whether each position has transitions of its own
    DUAL: tl.constexpr,  # whether there is a vector
    BEST: tl.constexpr,  # whether to find best scores
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Log-partition and marginals of the states and transitions of one sentence, or the Hessian times a vector."""
    sentence = tl.program_id(0).to(tl.int64)
    length, blank = read_length(lengths, sentence, words)
    square = states * states
    memory += sentence * _num_cells(words, states, DUAL)
    tables, constants = _locate_tables(memory, words, states, DUAL, BEST)
    counts = constants + 3 * words
    num_transition_parts = (words - 1) * square if PER_POSITION else square
    scores, vector, parts = select_sentence(scores, vector, parts, sentence, words * states)
    transitions += sentence * transition_stride
    _, transition_vector, transition_parts = select_sentence(
        transitions, transition_vector, transition_parts, sentence, num_transition_parts
    )

    total, size = _subtract_best(scores, vector, constants, length, states, BEST, COLUMNS)
    if transition_vector is not None:
        entries = tl.maximum(length - 1, 0) * square if PER_POSITION else square
        size = _find_largest(transition_vector, entries, size, ROWS * COLUMNS)
    unit = power_near(size)
    best = constants + 2 * length
    total = _subtract_best_transitions(transitions, best, total, length, square, PER_POSITION, BEST, ROWS * COLUMNS)
    numbers.barrier()

    of_states = (scores, vector, constants, unit, length, states)
    steps = (transitions, transition_vector, best, unit, states, square if PER_POSITION else 0)
    _go_forward(tables, of_states, steps, ROWS, COLUMNS)
    sum_of_sequences = _sum_at_end(tables, of_states, ROWS)
    if log_partition is not None:
        target = log_partition + sentence + tl.full([1, 1], 0, tl.int32)
        tl.store(target, round_for(log_partition, numbers.log(sum_of_sequences) + total + blank))
    if parts is not None:
        clear(parts + length * states, (words - length) * states, ROWS * COLUMNS, blank)
        # In Triton, a tuple accepts None from an argument, not from a variable.
        results = (parts, transition_parts, unit if DUAL else 1.0)
        if transition_parts is not None:
            if PER_POSITION:
                written = tl.maximum(length - 1, 0) * square
                clear(transition_parts + written, num_transition_parts - written, ROWS * COLUMNS, blank)
            else:
                # Counts of the transitions that all positions share are added up in float64 first.
                results = (parts, counts, unit if DUAL else 1.0)
                clear(counts, num_transition_parts, ROWS * COLUMNS, blank)
            numbers.barrier()
        goal = numbers.reciprocal(sum_of_sequences)
        _go_back(tables, goal, of_states, steps, results, PER_POSITION, ROWS, COLUMNS)
        if transition_parts is not None:
            if not PER_POSITION:
                for first in range(0, num_transition_parts, ROWS * COLUMNS):
                    entry = first + tl.arange(0, ROWS * COLUMNS)
                    real = entry < num_transition_parts
                    count = tl.load(counts + entry, mask=real, other=0.0)
                    tl.store(transition_parts + entry, round_for(transition_parts, count), mask=real)


@triton.jit(do_not_specialize=["batch", "words", "states", "transition_stride"])
def chain_descent_kernel(
    scores,
    transitions,
    lengths,
    streams,  # see `launch.Selection`
    parts,  # see `launch.Selection`
    memory,  # as `chain_kernel` has written it
    batch,
    words,
    states,
    transition_stride,
    PER_POSITION: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A best sequence, or a random one, from the last word back; the other arguments are those of `chain_kernel`."""
    sentence, parts, key = locate_structure(streams, parts, batch, words * states)
    length, blank = read_length(lengths, sentence, words)
    memory += sentence * _num_cells(words, states, False)
    tables, constants = _locate_tables(memory, words, states, False, streams is None)
    A, _, _ = tables
    scores += sentence * words * states
    transitions += sentence * transition_stride
    steps = (transitions, None, constants + 2 * length, 1.0, states, states * states if PER_POSITION else 0)
    clear(parts, words * states, COLUMNS, blank)
    numbers.barrier()
    row = tl.arange(0, COLUMNS)[:, None]
    origin = tl.full([1, 1], 0, tl.int32)
    ways = read(A, length - 1, row, (row < states) & (row - row < length))
    state = _choose_row(ways, uniform(key, 1, origin, origin + length), row)
    for back in range(length - 1):
        word = length - 1 - back
        mark(parts, word * states + state, state >= 0)
        real = (row < states) & (state >= 0)
        step = _transition(A, steps, word - 1, row, state, real)
        ways = numbers.multiply(read(A, word - 1, row, real), step)
        if streams is None:
            # Scores are equal if they are equal after rounding, as on the CPU.
            score = tl.load(scores + word * states + state, mask=state >= 0, other=0.0).to(tl.float64)
            ways = numbers.multiply(ways, (None, None, score))
        state = _choose_row(ways, uniform(key, 0, state, origin + word), row)
    mark(parts, state, (state >= 0) & (state < length * states))


@triton.jit
def _choose_row(ways, number, row):
    """One of the rows; -1 if none is possible."""
    return decide(consider(begin_choice(1), ways, numbers.settle(numbers.fold(ways)), number, row))


def marginals(scores: Scores, lengths: Tensor, inputs: Tensors, results: Tensors, sizes: Sizes) -> None:
    """Log-partition and marginals, each if requested; those of the states whenever those of the transitions are."""
    _launch(scores, lengths, [None, None], results, sizes)


def hvp(scores: Scores, lengths: Tensor, inputs: Tensors, results: Tensors, sizes: Sizes) -> None:
    """The Hessian of the log-partition times a vector."""
    vectors = [None if vector is None else vector.contiguous() for vector in inputs]
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


argmax, sample = make_selections(_select)
