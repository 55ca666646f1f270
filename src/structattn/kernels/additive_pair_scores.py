"""Additive scores of pairs of words: compiled, or a few rows at a time in plain torch.

``s_ij = sum_d w_d tanh(a_id + b_jd)``, Kim et al. (2017), section 4.1. Neither path ever stores a number for every pair
of words and every feature: hyperbolic tangents are computed, used and discarded, then recomputed in the backward pass.
Within ``torch.compile`` and ``torch.func``, and for gradients of gradients, the whole expression is evaluated at once.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from structattn.kernels.programs import empty_like, find_compiled
from structattn.kernels.tracing import is_eager, is_forward, is_mapped

# How many numbers plain torch has in memory at once: 16 megabytes in single precision.
_AT_ONCE = 2**22


def additive_scores(
    first: Float[Tensor, "batch row feature"],
    second: Float[Tensor, "batch column feature"],
    weight: Float[Tensor, " feature"],
    sizes: Int[Tensor, "batch 2"],
) -> Float[Tensor, "batch row column"]:
    """``s_ij = sum_d w_d tanh(a_id + b_jd)``, differentiable any number of times.

    Rows and columns beyond the sizes of a sentence have no influence, and score zero.
    """
    if is_eager(first, second, weight) and not is_forward():
        scores: Tensor = _AdditiveScores.apply(first, second, weight, sizes)
        return scores
    return write_out(first, second, weight, sizes)


def write_out(first: Tensor, second: Tensor, weight: Tensor, sizes: Tensor) -> Tensor:
    """The same as one expression, which stores a number for every pair of words and every feature unless compiled."""
    first, second = _fill(first, second, sizes)
    scores = torch.einsum("bijd,d->bij", torch.tanh(first.unsqueeze(2) + second.unsqueeze(1)), weight)
    return scores.masked_fill(~_are_real(scores, sizes), 0.0)


class _AdditiveScores(Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, weight: Tensor, sizes: Tensor) -> Tensor:
        ctx.save_for_backward(first, second, weight, sizes)
        first, second, weight = (tensor.detach() for tensor in (first, second, weight))
        scores = first.new_empty(*first.shape[:2], second.shape[1])
        compiled = find_compiled("additive_scores", first, pointers=5, numbers=4)
        if compiled is not None:
            _call(compiled, first, second, weight, sizes, scores)
            return scores
        for rows, tangents in _tangents(*_fill(first, second, sizes)):
            scores[:, rows] = tangents @ weight
        return scores.masked_fill_(~_are_real(scores, sizes), 0.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        first, second, weight, sizes = ctx.saved_tensors
        if torch.is_grad_enabled() or is_mapped(gradient):
            return *_write_out_gradients(first, second, weight, sizes, gradient), None
        of_first, of_second = empty_like(first), empty_like(second)
        of_weight = weight.new_empty(len(first), len(weight))  # of each sentence
        compiled = find_compiled("additive_scores_backward", first, pointers=8, numbers=4)
        if compiled is not None:
            _call(compiled, first, second, weight, sizes, gradient.contiguous(), of_first, of_second, of_weight)
            return of_first, of_second, of_weight.sum(0), None
        gradient = gradient.masked_fill(~_are_real(gradient, sizes), 0.0)
        of_second.zero_()
        of_weight.zero_()
        for rows, tangents in _tangents(*_fill(first, second, sizes)):
            shares = gradient[:, rows].unsqueeze(-1)
            of_weight += (tangents * shares).sum((1, 2))
            slopes = tangents.square_().neg_().add_(1.0).mul_(shares)
            of_first[:, rows] = slopes.sum(2) * weight
            of_second += slopes.sum(1)
        return of_first, of_second * weight, of_weight.sum(0), None


def _write_out_gradients(
    first: Tensor, second: Tensor, weight: Tensor, sizes: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``da_id = w_d sum_j g_ij (1 - tanh^2)``, the same for ``b``, and ``dw_d = sum_ij g_ij tanh``, differentiable."""
    first, second = _fill(first, second, sizes)
    tangents = torch.tanh(first.unsqueeze(2) + second.unsqueeze(1))
    shares = gradient.masked_fill(~_are_real(gradient, sizes), 0.0).unsqueeze(-1)
    slopes = (1.0 - tangents.square()) * shares * weight
    return slopes.sum(2), slopes.sum(1), (tangents * shares).sum((0, 1, 2))


def _tangents(first: Tensor, second: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield the hyperbolic tangents, a few rows at a time."""
    step = max(1, _AT_ONCE // max(1, len(first) * second.shape[1] * second.shape[2]))
    for start in range(0, first.shape[1], step):
        rows = slice(start, start + step)
        yield rows, torch.tanh_(first[:, rows].unsqueeze(2) + second.unsqueeze(1))


def _fill(first: Tensor, second: Tensor, sizes: Tensor) -> list[Tensor]:
    """Replace the words beyond each size by zeros, because a zero gradient does not cancel a NaN there."""
    words = zip((first, second), sizes.unbind(-1), strict=True)
    return [part.masked_fill(_beyond(part.shape[1], size).unsqueeze(-1), 0.0) for part, size in words]


def _are_real(scores: Tensor, sizes: Tensor) -> Tensor:
    """Which pairs of words are within the sizes."""
    rows, columns = (~_beyond(most, size) for most, size in zip(scores.shape[-2:], sizes.unbind(-1), strict=True))
    return rows.unsqueeze(2) & columns.unsqueeze(1)


def _beyond(most: int, sizes: Tensor) -> Tensor:
    """Which of ``most`` words of each sentence lie beyond its size."""
    return torch.arange(most, device=sizes.device) >= sizes.unsqueeze(-1)


def _call(compiled: Any, first: Tensor, second: Tensor, weight: Tensor, sizes: Tensor, *further: Tensor) -> None:
    inputs = [tensor.contiguous() for tensor in (first, second, weight, sizes.long())]
    pointers = [tensor.data_ptr() for tensor in (*inputs, *further)]
    compiled(*pointers, *first.shape[:2], second.shape[1], first.shape[2])
