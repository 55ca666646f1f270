"""Numbers that carry their derivatives: the arithmetic of every plain-torch program.

A tensor of numbers has a leading *order* axis: one slice for plain numbers, two for dual numbers ``x + x1 e``
(``e^2 = 0``), four for hyper-dual numbers ``x + x1 e1 + x2 e2 + x12 e1 e2``. One program over these numbers gives
marginals, their directional derivative and their second directional derivative, without a tape.

Reference: Li and Eisner (2009), First- and second-order expectation semirings; Fike and Alonso (2011), hyper-dual
numbers.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def make_dual(scores: Float[Tensor, "*shape"], *directions: Float[Tensor, "*shape"]) -> Float[Tensor, "order *shape"]:
    """Scores with zero, one or two directions of differentiation; a forbidden score (``-inf``) has no derivative."""
    forbidden = scores == -torch.inf
    slices = [scores, *(direction.masked_fill(forbidden, 0) for direction in directions)]
    if len(directions) == 2:
        slices.append(torch.zeros_like(scores))
    return torch.stack(slices)


def multiply(a: Float[Tensor, "order *_"], b: Float[Tensor, "order *_"]) -> Float[Tensor, "order *_"]:
    """Product of two tensors of numbers: the Leibniz rule."""
    if a.shape[0] == 1:
        return a * b
    if a.shape[0] == 2:
        return torch.stack([a[0] * b[0], a[0] * b[1] + a[1] * b[0]])
    return torch.stack(
        [
            a[0] * b[0],
            a[0] * b[1] + a[1] * b[0],
            a[0] * b[2] + a[2] * b[0],
            a[0] * b[3] + a[1] * b[2] + a[2] * b[1] + a[3] * b[0],
        ]
    )


def ones_like(numbers: Float[Tensor, "order *shape"]) -> Float[Tensor, "order *shape"]:
    """The number one, in the shape of a tensor of numbers."""
    ones = torch.zeros_like(numbers)
    ones[0] = 1
    return ones


def logsumexp_and_shares(
    terms: Float[Tensor, "order *_"], axes: tuple[int, ...]
) -> tuple[Float[Tensor, "order *_"], Float[Tensor, "order *_"]]:
    """Log-sum-exp over some negative axes, which stay with size one, and the share of every term in the sum.

    Shares sum to one at any magnitude of the scores; if nothing is allowed, the value is ``-inf`` and all are zero.
    """
    raised, total, top = _raise(terms[0], axes)
    value = total.log() + top
    share = raised / total.masked_fill(total == 0, 1)
    if len(terms) == 1:
        return value.unsqueeze(0), share.unsqueeze(0)
    first = (share * terms[1]).sum(axes, keepdim=True)
    first_gap = terms[1] - first
    if len(terms) == 2:
        return torch.stack([value, first]), torch.stack([share, share * first_gap])
    second = (share * terms[2]).sum(axes, keepdim=True)
    second_gap = terms[2] - second
    curved = terms[3] + first_gap * second_gap
    both = (share * curved).sum(axes, keepdim=True)
    values = torch.stack([value, first, second, both])
    return values, torch.stack([share, share * first_gap, share * second_gap, share * (curved - both)])


def log_shares(terms: Float[Tensor, "order *_"], axes: tuple[int, ...]) -> Float[Tensor, "order *_"]:
    """Logarithm of the shares of `logsumexp_and_shares`, without underflow; ``-inf`` where a term is impossible."""
    _, total, top = _raise(terms[0], axes)
    plain = terms[0] - top - total.masked_fill(total == 0, 1).log()
    value, _ = logsumexp_and_shares(terms, axes)
    return torch.cat([plain.unsqueeze(0), terms[1:] - value[1:]])


def _raise(terms: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """``exp(terms - top)``, its sum, and the highest term (zero if nothing is allowed)."""
    top = terms.amax(axes, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0)
    raised = (terms - top).exp_()
    return raised, raised.sum(axes, keepdim=True), top
