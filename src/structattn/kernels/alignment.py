"""Monotone alignments and warpings of two sequences, as charts over anti-diagonals, each filled at once.

Reference: Needleman and Wunsch (1970), A general method applicable to the search for similarities; Sakoe and Chiba
(1978), Dynamic programming algorithm optimization for spoken word recognition; Cuturi and Blondel (2017), Soft-DTW.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from structattn.kernels.chart import Chart, ChartSelector, Rule, Window, run
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.random import choice_id

_Number = TypeVar("_Number", int, Tensor)
# The kinds of random choices in a cell: the last match of its key, and whether its key has one; or the step to it.
_FIRST, _SECOND = range(2)


@lru_cache(maxsize=64)
def alignments(num_queries: int, num_keys: int) -> Chart:
    """Of the first ``i`` queries and ``j`` keys: ``Y[i,j] = X[i,j] plus Y[i,j-1]``, ``X[i,j] = M[i,j] plus X[i-1,j]``.

    ``M[i,j] = S[i,j] Y[i-1,j-1]`` matches the two, ``X`` the key ``j`` with some query; the border of ``Y`` is one.
    """
    first, width, cells = _tables(num_queries, num_keys)
    match, matched, total = (first + table * cells for table in range(3))
    # An alternative in another table is a window whose stride leads from one table to the other.
    to_above, to_left = matched - width - match, total - 1 - matched
    rules = [Rule(Window(total, (1,)), (), (width,)), Rule(Window(total, (width,)), (), (num_queries + 1,))]
    for cell, score, size, step in _diagonals(num_queries, num_keys):
        before = Window(total + cell - width - 1, (step,))
        rules += [
            Rule(Window(match + cell, (step,)), (score, before), (size,)),
            _either(matched + cell, (match + cell, to_above), size, step, _choices(_FIRST, cell, width)),
            _either(total + cell, (matched + cell, to_left), size, step, _choices(_SECOND, cell, width)),
        ]
    return Chart(first, total + cells, tuple(rules), Window(total, (1,)))


@lru_cache(maxsize=64)
def warpings(num_queries: int, num_keys: int) -> Chart:
    """Paths to a cell: ``D[i,j] = S[i,j] (E[i,j] plus D[i,j-1])`` with ``E[i,j] = D[i-1,j-1] plus D[i-1,j]``.

    ``D[0,0]``, before the first cell, is one, and the border is impossible.
    """
    first, width, cells = _tables(num_queries, num_keys)
    down, path = first, first + cells
    rules = [Rule(Window(path, (1,)), (), (1,))]
    for cell, score, size, step in _diagonals(num_queries, num_keys):
        above = path + cell - width
        rules += [
            _either(down + cell, (above - 1, 1), size, step, _choices(_FIRST, cell, width)),
            _either(
                path + cell, (down + cell, path - 1 - down), size, step, _choices(_SECOND, cell, width), score=score
            ),
        ]
    return Chart(first, path + cells, tuple(rules), Window(path, (1,)))


def real_pairs(lengths: Int[Tensor, "*batch"], num_queries: int, num_keys: int) -> Bool[Tensor, "*batch query key"]:
    """True for pairs of a query and a key, by the numbers of both as ``encode`` joins them."""
    queries, keys = (torch.arange(size, device=lengths.device) for size in (num_queries, num_keys))
    lengths = lengths[..., None, None]
    return (queries[:, None] < lengths // (num_keys + 1)) & (keys < lengths % (num_keys + 1))


def encode(queries: _Number, keys: _Number, num_keys: int) -> _Number:
    """The numbers of queries and of keys as one number: the cell of a table in which both are used up."""
    return queries * (num_keys + 1) + keys


def _tables(num_queries: int, num_keys: int) -> tuple[int, int, int]:
    """Where the tables begin, behind the scores; the width of one, and its number of cells."""
    return num_queries * num_keys, num_keys + 1, (num_queries + 1) * (num_keys + 1)


def _diagonals(num_queries: int, num_keys: int) -> Iterator[tuple[int, Window, int, int]]:
    """Each anti-diagonal: its first cell, the scores of its cells, how many there are, and the stride between them."""
    for diagonal in range(2, num_queries + num_keys + 1):
        first, last = max(1, diagonal - num_keys), min(num_queries, diagonal - 1)
        if first <= last:
            key = diagonal - first
            score = Window((first - 1) * num_keys + key - 1, (num_keys - 1,))
            yield first * (num_keys + 1) + key, score, last - first + 1, num_keys


def _choices(kind: int, cell: int, width: int) -> Window:
    """The ids of the choices in the cells of a diagonal, by query and key."""
    query, key = divmod(cell, width)
    return Window(choice_id(kind, query, key), (choice_id(0, 1, -1),))


def _either(
    target: int, alternatives: tuple[int, int], size: int, step: int, choices: Window, *, score: Window | None = None
) -> Rule:
    """The sum of two alternatives, the first of them and the distance to the second, times a score."""
    first, stride = alternatives
    factors = (Window(first, (step, stride)), *(() if score is None else (Window(score.offset, (*score.strides, 0)),)))
    return Rule(Window(target, (step,)), factors, (size,), (2,), choices)


def _prepare(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Nothing can be subtracted: structures differ in their number of parts."""
    return scores.masked_fill(~real_pairs(lengths, *sizes).flatten(1), -torch.inf), scores.new_zeros(len(scores))


def _family(name: str, chart: Callable[[int, int], Chart]) -> Operators:
    return Operators(
        Family(
            name=name,
            sizes=lambda scores, options: tuple(scores[0].shape[1:3]),
            prepare=_prepare,
            program=lambda numbers, lengths, sizes: run(chart(*sizes), numbers, lengths),
            selector=lambda sizes: ChartSelector(chart(*sizes)),
            has_optional_parts=True,
        )
    )


ALIGNMENT = _family("alignment", alignments)
WARPING = _family("warping", warpings)
