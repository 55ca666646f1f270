"""Feature-wise attention between words, exact, without ever holding one number per pair of words and feature.

Shen et al. 2018 (DiSAN), equation 10 in the form used inside a DiSA block. Separate because it streams: scores are
made tile by tile, used and forgotten, and made again in the backward pass. A compiled kernel fits behind the same
functions.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.functional.pair_tiles import Tile, tile_size, tiles

# Up to here the sigmoid form of the scores is as exact as their sum.
_LARGE_SCALE = 10.0


def token2token(
    a: Float[Tensor, "batch query feature"],
    b_keys: Float[Tensor, "batch key feature"],
    bias: Float[Tensor, " feature"],
    values: Float[Tensor, "batch key feature"],
    allowed: Bool[Tensor, "#batch query key"],
    scale: int | float = 5.0,
) -> Float[Tensor, "batch query feature"]:
    r"""Multi-dimensional attention: every feature has its own distribution over the keys.

    ``l_ij = c tanh((a_i + b_j + bias) / c)``, ``P_ij = softmax_j(l_ij)`` over allowed keys, ``s_i = sum_j P_ij * v_j``;
    all of them vectors over features (Shen et al. 2018, directional self-attention, where ``i`` is the word looked at;
    here ``i`` is the query). A query without any allowed key gets zero and passes no gradient.

    Memory beyond the arguments is linear in the number of words. Half precision is computed in single precision.
    Gradients are exact; gradients of gradients are refused with an error. What stands at keys that nobody may look at
    has no influence, as long as it is finite.

    Args:
        a: the queries' part of the score.
        b_keys: the keys' part of the score.
        bias: added to every score.
        values: what is averaged.
        allowed: ``True`` where a query may look at a key; the same for the whole batch if its first axis is 1.
        scale: the bound ``c`` of the scores.

    Raises:
        ValueError: if ``scale`` is not a positive number, or the shapes disagree.

    Example:
        >>> states = torch.tensor([[[1.0], [2.0], [3.0]]])
        >>> strictly_forward = torch.ones(1, 3, 3, dtype=torch.bool).tril(-1)
        >>> nothing = torch.zeros(1, 3, 1)
        >>> token2token(nothing, nothing, torch.zeros(1), states, strictly_forward)
        tensor([[[0.0000],
                 [1.0000],
                 [1.5000]]])
    """
    _check(a, b_keys, bias, values=values, allowed=allowed, scale=scale)
    arguments = [_at_least_single(argument) for argument in (a, b_keys, bias, values)]
    attended: Tensor = _Token2Token.apply(*arguments, allowed, scale)
    return attended.to(values.dtype)


@torch.no_grad()
def token2token_weights(
    a: Float[Tensor, "batch query feature"],
    b_keys: Float[Tensor, "batch key feature"],
    bias: Float[Tensor, " feature"],
    allowed: Bool[Tensor, "#batch query key"],
    scale: int | float = 5.0,
) -> Float[Tensor, "batch query key"]:
    """The weights of :func:`token2token`, averaged over features, for pictures; they carry no gradient.

    Args:
        a: as in :func:`token2token`.
        b_keys: as in :func:`token2token`.
        bias: as in :func:`token2token`.
        allowed: as in :func:`token2token`.
        scale: as in :func:`token2token`.

    Returns:
        Rows that sum to one, or to zero where nothing is allowed.

    Raises:
        ValueError: as in :func:`token2token`.

    Example:
        >>> nothing = torch.zeros(1, 2, 1)
        >>> token2token_weights(nothing, nothing, torch.zeros(1), torch.tensor([[[True, True], [False, False]]]))
        tensor([[[0.5000, 0.5000],
                 [0.0000, 0.0000]]])
    """
    _check(a, b_keys, bias, values=b_keys, allowed=allowed, scale=scale)
    queries, keys = _at_least_single(a) + _at_least_single(bias), _at_least_single(b_keys)
    curve = _curve(scale)
    memory = queries.new_empty(tile_size(queries, keys))
    highest, total = _highest(queries, keys, allowed, curve=curve), torch.zeros_like(queries)
    for tile in tiles(queries, keys, allowed):
        curved = _curved(tile, queries, keys, curve=curve, memory=memory)
        total[tile.sentences, tile.queries] += _exponentials(curved, tile, curve, highest=highest, out=curved).sum(1)
    inverse = _inverse_(total)
    weights = queries.new_zeros(len(a), a.shape[1], b_keys.shape[1])
    for tile in tiles(queries, keys, allowed):
        curved = _curved(tile, queries, keys, curve=curve, memory=memory)
        shares = _exponentials(curved, tile, curve, highest=highest, out=curved)
        shares *= inverse[tile.sentences, None, tile.queries]
        weights[tile.sentences, tile.queries, tile.keys] = shares.mean(-1).transpose(1, 2)
    return weights.to(a.dtype)


class _Token2Token(torch.autograd.Function):
    """Saves its arguments, its output and one normaliser per query; computes everything else twice."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b_keys: Tensor, bias: Tensor, values: Tensor, allowed: Tensor, scale: float
    ) -> Tensor:
        queries, curve = a + bias, _curve(scale)
        highest = _highest(queries, b_keys, allowed, curve=curve)
        total, attended = torch.zeros_like(queries), torch.zeros_like(queries)
        memory = queries.new_empty(tile_size(queries, b_keys))
        for tile in tiles(queries, b_keys, allowed):
            curved = _curved(tile, queries, b_keys, curve=curve, memory=memory)
            exponentials = _exponentials(curved, tile, curve, highest=highest, out=curved)
            total_here, attended_here = total[tile.sentences, tile.queries], attended[tile.sentences, tile.queries]
            if exponentials.shape[1] == 1:  # Nothing to sum, so nothing to write down first.
                total_here += exponentials[:, 0]
                attended_here.addcmul_(exponentials[:, 0], values[tile.sentences, tile.keys])
            else:
                total_here += exponentials.sum(1)
                attended_here += exponentials.mul_(values[tile.sentences, tile.keys, None]).sum(1)
        inverse = _inverse_(total)
        attended *= inverse
        ctx.save_for_backward(a, b_keys, bias, values, allowed, attended, inverse, highest)
        ctx.scale = scale
        return attended

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            gradients = _Token2Token.gradients(ctx, gradient)
        if torch.is_grad_enabled():
            # Marked as functions of everything they depend on, lest a second derivative silently be zero.
            gradients = _Once.apply(*gradients, gradient, *ctx.saved_tensors[:4])
        return *gradients, None, None

    @staticmethod
    def gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # With g the gradient of s: dv_j = sum_i P_ij g_i, and with eta_ij = P_ij g_i (v_j - s_i) (1 - tanh^2),
        # da_i = sum_j eta_ij and db_j = sum_i eta_ij.
        a, b_keys, bias, values, allowed, attended, inverse, highest = ctx.saved_tensors
        queries, incoming, curve = a + bias, gradient * inverse, _curve(ctx.scale)
        of_a, of_b, of_values = torch.zeros_like(a), torch.zeros_like(b_keys), torch.zeros_like(values)
        memory = queries.new_empty(2, tile_size(queries, b_keys))
        for tile in tiles(queries, b_keys, allowed):
            curved = _curved(tile, queries, b_keys, curve=curve, memory=memory[0])
            terms = _exponentials(curved, tile, curve, highest=highest, out=tile.view(memory[1]))
            terms *= incoming[tile.sentences, None, tile.queries]
            torch.sum(terms, 2, out=of_values[tile.sentences, tile.keys])
            curve.times_derivative_(terms, curved)
            differences = curved  # Its memory; the curve itself is no longer needed.
            torch.sub(
                values[tile.sentences, tile.keys, None], attended[tile.sentences, None, tile.queries], out=differences
            )
            terms *= differences
            of_a[tile.sentences, tile.queries] += terms[:, 0] if terms.shape[1] == 1 else terms.sum(1)
            torch.sum(terms, 2, out=of_b[tile.sentences, tile.keys])
        of_a *= curve.derivative_factor
        of_b *= curve.derivative_factor
        return of_a, of_b, of_a.sum((0, 1)), of_values


class _Once(torch.autograd.Function):
    """Passes four gradients on and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:4])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError("token2token can be differentiated once; the gradient of its gradient was asked for")


class _Curve(NamedTuple):
    """How ``c tanh(x / c)`` is computed from ``y = bend(slope * x)``: it is ``height * y`` and a constant.

    A constant per query makes no difference to a softmax, so whatever suits the numbers may be chosen.
    """

    slope: float
    bend_: Callable[[Tensor], Tensor]
    height: float
    needs_highest: bool  # whether the largest score of a query must be found, for its exponential not to overflow
    times_derivative_: Callable[[Tensor, Tensor], Tensor]  # of y, up to the factor
    derivative_factor: float


def _curve(scale: float) -> _Curve:
    """The faster of two, unless the scale is so large that it would be inexact.

    With ``y = sigmoid(-2 x / c)``, ``c tanh(x / c) = c - 2 c y``: a sigmoid costs a fifth of a hyperbolic tangent here,
    and ``exp(-2 c y)`` stays in range without a maximum. The error of ``2 c y`` grows with ``c``, not with the score.
    """
    if scale <= _LARGE_SCALE:
        return _Curve(-2.0 / scale, torch.sigmoid_, -2.0 * scale, False, _times_sigmoid_derivative_, 4.0)
    return _Curve(1.0 / scale, torch.tanh_, scale, True, _times_tanh_derivative_, 1.0)


def _times_sigmoid_derivative_(terms: Tensor, curved: Tensor) -> Tensor:
    """In one pass over the memory; a quarter of ``1 - tanh^2``."""
    result: Tensor = torch.ops.aten.sigmoid_backward.grad_input(terms, curved, grad_input=terms)
    return result


def _times_tanh_derivative_(terms: Tensor, curved: Tensor) -> Tensor:
    result: Tensor = torch.ops.aten.tanh_backward.grad_input(terms, curved, grad_input=terms)
    return result


def _curved(tile: Tile, queries: Tensor, keys: Tensor, *, curve: _Curve, memory: Tensor) -> Tensor:
    """``y`` of the curve for every pair of a tile.

    The sum comes first, so it is exact for opposite huge parts; a product of their exponentials would not be.
    """
    scores = tile.view(memory)
    torch.add(queries[tile.sentences, None, tile.queries], keys[tile.sentences, tile.keys, None], out=scores)
    return curve.bend_(scores.mul_(curve.slope))


def _exponentials(curved: Tensor, tile: Tile, curve: _Curve, *, highest: Tensor | None, out: Tensor) -> Tensor:
    """Exponentials of the scores up to a factor per query, and zero where not allowed."""
    if highest is not None:
        curved = torch.sub(curved, highest[tile.sentences, None, tile.queries], out=out)
    # exp2 takes a third of the time of exp here.
    return torch.add(tile.penalty, curved, alpha=curve.height * math.log2(math.e), out=out).exp2_()


def _highest(queries: Tensor, keys: Tensor, allowed: Tensor, *, curve: _Curve) -> Tensor | None:
    """The largest ``y`` of each query, if the curve needs it."""
    if not curve.needs_highest:
        return None
    highest = torch.full_like(queries, -1.0)
    memory = queries.new_empty(tile_size(queries, keys))
    for tile in tiles(queries, keys, allowed):
        curved = _curved(tile, queries, keys, curve=curve, memory=memory).add_(tile.penalty)
        here = highest[tile.sentences, tile.queries]
        torch.maximum(here, curved.amax(1), out=here)
    return highest


def _inverse_(total: Tensor) -> Tensor:
    """``1 / total`` in place, zero where the total is zero."""
    nothing = total == 0
    return total.reciprocal_().masked_fill_(nothing, 0.0)


def _at_least_single(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _check(a: Tensor, b_keys: Tensor, bias: Tensor, *, values: Tensor, allowed: Tensor, scale: float) -> None:
    if not 0.0 < scale < math.inf:
        raise ValueError(f"token2token expects a positive, finite scale, got {scale}")
    batch, queries, features = a.shape
    expected = (batch, b_keys.shape[1], features)
    if b_keys.shape != expected or values.shape != expected or bias.shape != (features,):
        raise ValueError(
            f"token2token expects keys and values of shape {expected} and a bias of shape {(features,)} beside "
            f"queries of shape {tuple(a.shape)}, got {tuple(b_keys.shape)}, {tuple(values.shape)}, {tuple(bias.shape)}"
        )
    pairs = (queries, b_keys.shape[1])
    if allowed.dim() != 3 or allowed.shape[0] not in (1, batch) or allowed.shape[1:] != pairs:
        raise ValueError(
            f"token2token expects allowed of shape (1 or {batch}, {pairs[0]}, {pairs[1]}), got {tuple(allowed.shape)}"
        )
