"""Scores of word pairs, ``c tanh(x / c)``, in plain torch: for attention that processes all pairs without storing them.

The attention itself and its weights for pictures both iterate over the same tiles, blocks of pairs that are computed at
once.

Reference: Shen et al. (2018), DiSAN, equation 10.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Numbers per tile. Four megabytes in single precision: small enough to stay in a processor's cache between the
# operations on it, large enough to hide the cost of starting them on all its cores.
_TILE = 2**20
# Up to this scale the sigmoid form of the scores is as accurate as their sum.
LARGE_SCALE = 10.0


class Tile(NamedTuple):
    """A block of pairs that is computed at once; within it, keys come before queries."""

    sentences: slice
    queries: slice
    keys: slice
    penalty: Tensor  # (sentence, key, query, 1): zero where allowed, minus infinity elsewhere
    shape: tuple[int, int, int, int]

    def view(self, memory: Tensor) -> Tensor:
        """The start of a buffer, in the shape of this tile."""
        return memory[: math.prod(self.shape)].view(self.shape)


def iterate_tiles(queries: Tensor, keys: Tensor, allowed: Tensor) -> Iterator[Tile]:
    """Cover all allowed pairs; queries at the edge of a tile that no sentence allows are left out of it.

    For a directional mask this halves the work, and padded keys cost nothing, whatever the mask means.
    """
    num_sentences, num_queries, num_features = queries.shape
    num_keys = keys.shape[1]
    if not (num_sentences and num_queries and num_keys and num_features):
        return
    first, last = _reach(allowed)
    sentences_at_once, keys_at_once = _tile_steps(queries, keys)
    # The penalties of several tiles are created together, but of so few that they stay small compared to the tiles.
    keys_per_penalty = keys_at_once * max(1, num_features // keys_at_once)
    zero = queries.new_zeros(())
    for sentence in range(0, num_sentences, sentences_at_once):
        sentences = slice(sentence, min(sentence + sentences_at_once, num_sentences))
        masks = allowed if len(allowed) == 1 else allowed[sentences]
        for start in range(0, num_keys, keys_per_penalty):
            pairs = masks[:, :, start : start + keys_per_penalty].transpose(1, 2)
            penalties = torch.where(pairs, zero, -torch.inf).unsqueeze(-1)
            for key in range(start, min(start + keys_per_penalty, num_keys), keys_at_once):
                stop = min(key + keys_at_once, num_keys)
                top, bottom = min(first[key:stop]), max(last[key:stop])
                if top >= bottom:
                    continue
                yield Tile(
                    sentences,
                    slice(top, bottom),
                    slice(key, stop),
                    penalties[:, key - start : stop - start, top:bottom],
                    (sentences.stop - sentences.start, stop - key, bottom - top, num_features),
                )


def tile_size(queries: Tensor, keys: Tensor) -> int:
    """How many numbers the largest tile has."""
    return math.prod(_tile_steps(queries, keys)) * queries.shape[1] * queries.shape[2]


def _reach(allowed: Tensor) -> tuple[list[int], list[int]]:
    """For each key, the first query that may attend to it, and one past the last; ``(n, 0)`` if there is none.

    On an accelerator, where reading the mask would have to wait, all queries.
    """
    if not allowed.is_cpu:
        num_queries, num_keys = allowed.shape[1:]
        return [0] * num_keys, [num_queries] * num_keys
    reached = allowed.any(0)
    position = torch.arange(len(reached), device=allowed.device).unsqueeze(-1)
    first = torch.where(reached, position, len(reached)).amin(0)
    last = torch.where(reached, position + 1, 0).amax(0)
    first_list, last_list = torch.stack((first, last)).tolist()
    return first_list, last_list


def _tile_steps(queries: Tensor, keys: Tensor) -> tuple[int, int]:
    """How many sentences and how many keys a tile takes at once: all queries of one key and sentence at least."""
    num_sentences, num_queries, num_features = queries.shape
    fit = max(1, _TILE // max(1, num_queries * num_features))
    sentences_at_once = max(1, min(num_sentences, fit))
    return sentences_at_once, max(1, min(keys.shape[1], fit // sentences_at_once))


class Curve(NamedTuple):
    """How ``c tanh(x / c)`` is computed from ``y = bend(slope * x)``: it is ``height * y`` plus a constant.

    A constant per query makes no difference to a softmax, so any convenient one may be taken.
    """

    slope: float
    bend_: Callable[[Tensor], Tensor]
    height: float
    needs_highest: bool  # whether the largest score of a query is needed, so that its exponential does not overflow
    times_derivative_: Callable[[Tensor, Tensor], Tensor]  # of y, up to the factor
    derivative_factor: float


def select_curve(scale: float) -> Curve:
    """The faster of two curves, unless the scale is so large that it would be inaccurate."""
    # With ``y = sigmoid(-2 x / c)``, ``c tanh(x / c) = c - 2 c y``: a sigmoid costs a fifth of a hyperbolic tangent
    # here, and ``exp(-2 c y)`` stays in range without a maximum. The error of ``2 c y`` grows with ``c``, not with the
    # score.
    if scale <= LARGE_SCALE:
        return Curve(-2.0 / scale, torch.sigmoid_, -2.0 * scale, False, _times_sigmoid_derivative_, 4.0)
    return Curve(1.0 / scale, torch.tanh_, scale, True, _times_tanh_derivative_, 1.0)


def bend(tile: Tile, queries: Tensor, keys: Tensor, *, curve: Curve, memory: Tensor) -> Tensor:
    """``y`` of the curve for every pair of a tile.

    The parts are added first: for huge parts of opposite sign a product of exponentials would not be exact.
    """
    scores = tile.view(memory)
    torch.add(queries[tile.sentences, None, tile.queries], keys[tile.sentences, tile.keys, None], out=scores)
    return curve.bend_(scores.mul_(curve.slope))


def exponentiate(values: Tensor, tile: Tile, curve: Curve, *, highest: Tensor | None, out: Tensor) -> Tensor:
    """Exponentials of the scores, from their ``y``, up to a factor per query; zero where not allowed."""
    if highest is not None:
        values = torch.sub(values, highest[tile.sentences, None, tile.queries], out=out)
    # exp2 takes a third of the time of exp here.
    return torch.add(tile.penalty, values, alpha=curve.height * math.log2(math.e), out=out).exp2_()


def find_highest(queries: Tensor, keys: Tensor, allowed: Tensor, *, curve: Curve) -> Tensor | None:
    """The largest ``y`` of each query, if the curve needs it."""
    if not curve.needs_highest:
        return None
    highest = torch.full_like(queries, -1.0)
    memory = queries.new_empty(tile_size(queries, keys))
    for tile in iterate_tiles(queries, keys, allowed):
        values = bend(tile, queries, keys, curve=curve, memory=memory).add_(tile.penalty)
        view = highest[tile.sentences, tile.queries]
        torch.maximum(view, values.amax(1), out=view)
    return highest


def invert_(total: Tensor) -> Tensor:
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
