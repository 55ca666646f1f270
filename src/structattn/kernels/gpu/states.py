"""Scores of states and transitions of a linear chain: the best ones, and weights relative to them."""

import triton
import triton.language as tl

from structattn.kernels.gpu.tables import weights
from structattn.kernels.gpu.vectors import finite_size


@triton.jit
def take_out_best(scores, vector, taken, length, states, BEST: tl.constexpr, COLUMNS: tl.constexpr):
    """Writes the best score of each word and, if there is a vector, its entry there: a sequence has one state per word.

    To find best scores (``BEST``), nothing is subtracted from them, here and below.

    Returns:
        The sum of the best scores, and the largest entry of the vector.
    """
    total = tl.full([1, 1], 0.0, tl.float64)
    size = tl.full([1, 1], 0.0, tl.float64)
    state = tl.arange(0, COLUMNS)[None, :]
    here = tl.full([1, 1], 0, tl.int32)
    for word in range(length):
        place = word * states + state
        score = tl.load(scores + place, mask=state < states, other=-float("inf")).to(tl.float64)
        best = tl.max(score, 1, keep_dims=True)
        if vector is not None:
            direction = tl.load(vector + place, mask=state < states, other=0.0).to(tl.float64)
            size = tl.maximum(size, tl.max(finite_size(direction), 1, keep_dims=True))
            # The first of equally good states.
            column = tl.min(tl.where(score == best, state, COLUMNS), 1, keep_dims=True)
            centre = tl.sum(tl.where((state == column) & (best > -float("inf")), direction, 0.0), 1, keep_dims=True)
            tl.store(taken + length + word + here, centre)
        best = tl.zeros_like(best) if BEST else tl.where(best > -float("inf"), best, 0.0)
        tl.store(taken + word + here, best)
        total += best
    return total, size


@triton.jit
def take_out_best_transitions(
    scores, taken, total, length, square, PER_POSITION: tl.constexpr, BEST: tl.constexpr, COLUMNS: tl.constexpr
):
    """Writes the best transition score to each word but the first (every sequence has one), and adds them to a sum."""
    here = tl.full([1, 1], 0, tl.int32)
    best = tl.full([1, 1], 0.0, tl.float64)
    for word in range(1, length):
        if PER_POSITION or word == 1:
            best = tl.full([1, 1], -float("inf"), tl.float64)
            for first in range(0, square, COLUMNS):
                place = first + tl.arange(0, COLUMNS)[None, :]
                offset = (word - 1) * square if PER_POSITION else 0
                score = tl.load(scores + offset + place, mask=place < square, other=-float("inf")).to(tl.float64)
                best = tl.maximum(best, tl.max(score, 1, keep_dims=True))
            best = tl.zeros_like(best) if BEST else tl.where(best > -float("inf"), best, 0.0)
        tl.store(taken + word + here, best)
        total += best
    return total


@triton.jit
def largest(vector, count, size, COLUMNS: tl.constexpr):
    """The largest of the entries of a vector and the size found before."""
    for first in range(0, count, COLUMNS):
        place = first + tl.arange(0, COLUMNS)[None, :]
        direction = tl.load(vector + place, mask=place < count, other=0.0).to(tl.float64)
        size = tl.maximum(size, tl.max(finite_size(direction), 1, keep_dims=True))
    return size


@triton.jit
def unary(table, source, word, length, states, COLUMNS: tl.constexpr):
    """Weights of the states of a word in the format of a table, relative to the best one.

    Args:
        table: of numbers.
        source: scores and vector of the states, the latter None if there is none; the output of `take_out_best`; the
            unit of the vector.
        word: index of the word.
        length: of the sentence.
        states: number of states.
        COLUMNS: a power of two no smaller than the number of states.
    """
    scores, vector, taken, unit = source
    state = tl.arange(0, COLUMNS)[None, :]
    place = word * states + state
    score = tl.load(scores + place, mask=state < states, other=-float("inf")).to(tl.float64) - tl.load(taken + word)
    if vector is None:
        return weights(table, score, None)
    else:
        direction = tl.load(vector + place, mask=state < states, other=0.0).to(tl.float64)
        return weights(table, score, (direction - tl.load(taken + length + word)) / unit)


@triton.jit
def transition(table, source, word, row, column, real):
    """Weights of transitions between the states of adjacent words in the format of a table, relative to the best one.

    Args:
        table: of numbers.
        source: scores and vector of the transitions, the latter None if there is none or it is zero; the output of
            `take_out_best_transitions`; the unit of the vector; the number of states; and the stride from the
            transitions of a word to those of the next.
        word: the first of the two.
        row: states of the first word.
        column: states of the second word.
        real: which of them exist.
    """
    scores, vector, best, unit, states, stride = source
    place = word * stride + row * states + column
    score = tl.load(scores + place, mask=real, other=-float("inf")).to(tl.float64) - tl.load(best + word + 1)
    if table[3] is not None:
        if vector is None:
            return weights(table, score, tl.zeros_like(score))
        else:
            return weights(table, score, tl.load(vector + place, mask=real, other=0.0).to(tl.float64) / unit)
    else:
        return weights(table, score, None)
