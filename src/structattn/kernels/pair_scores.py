"""Scores of word pairs, ``c tanh(x / c)``, tile by tile in plain torch: the curve, its derivative, its exponentials.

The attention itself and its weights for pictures both iterate over the same tiles.

Reference: Shen et al. (2018), DiSAN, equation 10.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from structattn.kernels.pair_tiles import Tile, tile_size, tiles

# Up to this scale the sigmoid form of the scores is as accurate as their sum.
LARGE_SCALE = 10.0


class Curve(NamedTuple):
    """How ``c tanh(x / c)`` is computed from ``y = bend(slope * x)``: it is ``height * y`` plus a constant.

    A constant per query makes no difference to a softmax, so any convenient one may be chosen.
    """

    slope: float
    bend_: Callable[[Tensor], Tensor]
    height: float
    needs_highest: bool  # whether the largest score of a query must be found, so that its exponential does not overflow
    times_derivative_: Callable[[Tensor, Tensor], Tensor]  # of y, up to the factor
    derivative_factor: float


def curve_of(scale: float) -> Curve:
    """The faster of two curves, unless the scale is so large that it would be inaccurate.

    With ``y = sigmoid(-2 x / c)``, ``c tanh(x / c) = c - 2 c y``: a sigmoid costs a fifth of a hyperbolic tangent here,
    and ``exp(-2 c y)`` stays in range without a maximum. The error of ``2 c y`` grows with ``c``, not with the score.
    """
    if scale <= LARGE_SCALE:
        return Curve(-2.0 / scale, torch.sigmoid_, -2.0 * scale, False, _times_sigmoid_derivative_, 4.0)
    return Curve(1.0 / scale, torch.tanh_, scale, True, _times_tanh_derivative_, 1.0)


def curved(tile: Tile, queries: Tensor, keys: Tensor, *, curve: Curve, memory: Tensor) -> Tensor:
    """``y`` of the curve for every pair of a tile.

    The parts are added first, so the result is exact for huge parts of opposite sign; a product of exponentials would
    not be.
    """
    scores = tile.view(memory)
    torch.add(queries[tile.sentences, None, tile.queries], keys[tile.sentences, tile.keys, None], out=scores)
    return curve.bend_(scores.mul_(curve.slope))


def exponentials(values: Tensor, tile: Tile, curve: Curve, *, highest: Tensor | None, out: Tensor) -> Tensor:
    """Exponentials of the scores, given their ``y``, up to a factor per query; zero where not allowed."""
    if highest is not None:
        values = torch.sub(values, highest[tile.sentences, None, tile.queries], out=out)
    # exp2 takes a third of the time of exp here.
    return torch.add(tile.penalty, values, alpha=curve.height * math.log2(math.e), out=out).exp2_()


def highest_of(queries: Tensor, keys: Tensor, allowed: Tensor, *, curve: Curve) -> Tensor | None:
    """The largest ``y`` of each query, if the curve needs it."""
    if not curve.needs_highest:
        return None
    highest = torch.full_like(queries, -1.0)
    memory = queries.new_empty(tile_size(queries, keys))
    for tile in tiles(queries, keys, allowed):
        values = curved(tile, queries, keys, curve=curve, memory=memory).add_(tile.penalty)
        here = highest[tile.sentences, tile.queries]
        torch.maximum(here, values.amax(1), out=here)
    return highest


def inverse_(total: Tensor) -> Tensor:
    """``1 / total`` in place, zero where the total is zero."""
    nothing = total == 0
    return total.reciprocal_().masked_fill_(nothing, 0.0)


def _times_sigmoid_derivative_(terms: Tensor, values: Tensor) -> Tensor:
    """Multiply in one pass over the memory, by a quarter of ``1 - tanh^2``."""
    result: Tensor = torch.ops.aten.sigmoid_backward.grad_input(terms, values, grad_input=terms)
    return result


def _times_tanh_derivative_(terms: Tensor, values: Tensor) -> Tensor:
    result: Tensor = torch.ops.aten.tanh_backward.grad_input(terms, values, grad_input=terms)
    return result
