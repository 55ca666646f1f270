"""Filtering and smoothing of a linear chain: along the words of a sentence and back, one barrier for each word.

``A[t,c] = U[t,c] X[t,c]`` with ``X[t,c] = sum_b A[t-1,b] T[t-1,b,c]``, and back, with ``o`` for outside, ``oX = U oA``,
``oA[t,b] = sum_c oX[t+1,c] T[t,b,c]``.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields.
"""

import triton
import triton.language as tl

from structattn.kernels.gpu import numbers
from structattn.kernels.gpu.states import transition, unary
from structattn.kernels.gpu.tables import ones, read, write, zeros
from structattn.kernels.gpu.vectors import rounded


@triton.jit
def go_forward(tables, own, steps, length, states, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Fills A and X.

    Args:
        tables: A, X and the outside of X, a row per word.
        own: what `states.unary` reads.
        steps: what `states.transition` reads.
        length: of the sentence.
        states: number of states.
        ROWS: how many states are added at a time.
        COLUMNS: a power of two no smaller than the number of states.
    """
    A, X, _ = tables
    state = tl.arange(0, COLUMNS)[None, :]
    known = state < states
    for word in range(length):
        if word == 0:
            inner = numbers.where(known, ones(A, 1, COLUMNS))
        else:
            before = zeros(A, ROWS, COLUMNS)
            for first in range(0, states, ROWS):
                row = first + tl.arange(0, ROWS)[:, None]
                step = transition(A, steps, word - 1, row, state, (row < states) & known)
                before = numbers.add(before, numbers.multiply(read(A, word - 1, row, row < states), step))
            inner = numbers.settle(numbers.fold(before))
        write(X, word, state, inner, known)
        whole = numbers.multiply(inner, unary(A, own, word, length, states, COLUMNS))
        write(A, word, state, numbers.settle(whole), known)
        numbers.barrier()


@triton.jit
def at_end(tables, length, states, ROWS: tl.constexpr):
    """The sum over all sequences; arguments as in `go_forward`."""
    A, _, _ = tables
    last = zeros(A, ROWS, 1)
    for first in range(0, states, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        last = numbers.add(last, read(A, length - 1, row, (row < states) & (row - row < length)))
    empty = numbers.where(tl.full([1, 1], 0, tl.int32) == length, ones(A, 1, 1))
    return numbers.settle(numbers.add(numbers.fold(last), empty))


@triton.jit
def _from_next(
    outside,
    steps,
    results,
    value,
    word,
    states,
    PER_POSITION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The outsides of the states of a word from those of the next; writes or counts the transitions between them."""
    _, found, scale = results
    state = tl.arange(0, COLUMNS)[None, :]
    pulled = numbers.zero(ROWS, COLUMNS, True, value[1] is not None, False)
    for first in range(0, states, ROWS):
        # Rows are the states after, columns those before.
        row = first + tl.arange(0, ROWS)[:, None]
        real = (row < states) & (state < states)
        step = transition(outside, steps, word, state, row, real)
        parents = read(outside, word + 1, row, row < states)
        pulled = numbers.plus_fraction(pulled, numbers.pull(parents, step, value))
        if found is not None:
            used = numbers.probability(numbers.pull(parents, value, step), step) * scale
            place = state * states + row
            if PER_POSITION:
                tl.store(found + word * states * states + place, rounded(used, found), mask=real)
            else:
                tl.store(found + place, used + tl.load(found + place, mask=real, other=0.0), mask=real)
    return numbers.fold_fractions(pulled, value[2])


@triton.jit
def go_back(
    tables,
    goal,
    own,
    steps,
    results,
    length,
    states,
    PER_POSITION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes probabilities of states and transitions, or their derivatives.

    Args:
        tables: see `go_forward`.
        goal: the outside of all sequences.
        own: see `go_forward`.
        steps: see `go_forward`.
        results: where the probabilities of the states are written; where those of the transitions are written, or added
            up for all positions in float64, or None; and the factor that they are multiplied by.
        length: see `go_forward`.
        states: see `go_forward`.
        PER_POSITION: whether each position has transitions of its own.
        ROWS: see `go_forward`.
        COLUMNS: see `go_forward`.
    """
    A, X, oX = tables
    parts, _, scale = results
    state = tl.arange(0, COLUMNS)[None, :]
    known = state < states
    for back in range(length):
        word = length - 1 - back
        value = read(A, word, state, known)
        if back == 0:
            outside = numbers.pull(goal, ones(A, 1, COLUMNS), value)
        else:
            outside = _from_next(oX, steps, results, value, word, states, PER_POSITION, ROWS, COLUMNS)
        probability = numbers.probability(outside, value) * scale
        tl.store(parts + word * states + state, rounded(probability, parts), mask=known)
        weight = unary(A, own, word, length, states, COLUMNS)
        write(oX, word, state, numbers.pull_only(outside, value, weight, read(X, word, state, known)), known)
        numbers.barrier()
