"""What a kernel computes and how it is differentiated: the one place for derivatives of a log-partition.

With ``mu`` the gradient of the log-partition ``A`` and ``H`` its Hessian, the gradient of ``(A, mu)`` for cotangents
``(a, v)`` is ``a mu + H v``, because ``H`` is symmetric, and the derivative along ``t`` (forward mode) is
``(<mu, t>, H t)``. The derivatives of ``H v`` contract the third derivative of ``A`` twice, which hyper-dual numbers
compute. Higher derivatives raise an error.

Reference: Kim et al. (2017), Structured attention networks, section 3.3; Pearlmutter (1994), Fast exact multiplication
by the Hessian.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from structattn.kernels.family import Family
from structattn.kernels.programs import Scores

# One array for each array of scores: marginals, vectors, values or cotangents of these; None is zero.
Arrays = Sequence[Tensor | None]


@runtime_checkable
class Differentiable(Protocol):
    """The calls of `kernels.operators.Operators` that derivatives use."""

    family: Family

    def evaluate(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """Log-partition and marginals."""
        ...

    def hvp(self, scores: Scores, lengths: Tensor, vectors: Arrays, options: Sequence[int]) -> list[Tensor]:
        """Hessian times a vector."""
        ...

    def third(
        self, scores: Scores, lengths: Tensor, first: Arrays, second: Arrays, options: Sequence[int]
    ) -> list[Tensor]:
        """Third derivative times two vectors."""
        ...


@dataclass(frozen=True)
class Point:
    """Where a function is evaluated and differentiated."""

    operators: Differentiable
    scores: Scores
    lengths: Tensor
    options: Sequence[int]
    vectors: Sequence[Arrays] = ()  # further inputs of the function, in groups of one array for each array of scores
    parts: Arrays | None = None  # the marginals, if they have been computed

    def marginals(self) -> Arrays:
        """Marginals of every array."""
        return self.operators.evaluate(self.scores, self.lengths, self.options)[1] if self.parts is None else self.parts

    def hvp(self, vectors: Arrays) -> list[Tensor]:
        """Hessian of the log-partition times a vector."""
        return self.operators.hvp(self.scores, self.lengths, vectors, self.options)

    def third(self, first: Arrays, second: Arrays) -> list[Tensor]:
        """Third derivative of the log-partition times two vectors."""
        return self.operators.third(self.scores, self.lengths, first, second, self.options)

    def summed(self, each: Arrays) -> list[Tensor | None]:
        """Gradients of the arrays from those of each sentence: a shared array gets their sum."""
        shared = self.operators.family.is_shared(self.scores)
        return [
            grad.sum(0) if is_shared and grad is not None else grad
            for grad, is_shared in zip(each, shared, strict=True)
        ]

    def tangents(self, directions: Arrays) -> list[Tensor]:
        """Directions for the arrays of each sentence, zero where there is none."""
        filled = [
            torch.zeros_like(array) if direction is None else direction
            for array, direction in zip(self.scores, directions, strict=True)
        ]
        return self.operators.family.each(filled)


@dataclass(frozen=True)
class Quantity:
    """A function of scores and vectors, and its derivatives."""

    name: str  # of the torch operator
    num_vectors: int  # how many groups of vectors it takes
    value: Callable[[Point], tuple[Tensor, ...]]
    # (point, cotangents of the outputs, which ones are requested) -> cotangents of scores and each group of vectors
    pullback: Callable[[Point, Arrays, Sequence[Sequence[bool]]], list[Arrays]]
    # (point, tangents of the scores and of each group of vectors) -> tangents of the outputs
    pushforward: Callable[[Point, Sequence[Arrays]], tuple[Tensor, ...]]
    saves_parts: bool = False  # whether all outputs but the first are the marginals, which the derivatives use


def gradient(
    point: Point,
    to_log_partition: Tensor | None,
    to_parts: Arrays,
    requested: Sequence[bool],
    *,
    overwrite: bool = False,
) -> list[Tensor | None]:
    """``a mu + H v`` for each requested array, for cotangents ``a`` of the log-partition and ``v`` of the marginals.

    It may overwrite the marginals, which saves an array as large as the scores.
    """
    grads: list[Tensor | None] = [None for _ in point.scores]
    if to_log_partition is not None:
        shared = point.operators.family.is_shared(point.scores)
        for index, parts in enumerate(point.marginals()):
            if not requested[index] or parts is None:
                continue
            if shared[index]:
                grads[index] = (to_log_partition.to(parts.dtype) @ parts.flatten(1)).view(point.scores[index].shape)
            else:
                factor = like_rows(to_log_partition, parts)
                grads[index] = parts.mul_(factor) if overwrite else parts * factor
    if any(vector is not None for vector in to_parts):
        products = point.summed(point.hvp(to_parts))
        grads = [
            _sum(grad, product) if is_requested else None
            for grad, product, is_requested in zip(grads, products, requested, strict=True)
        ]
    return grads


def like_rows(values: Tensor, arrays: Tensor) -> Tensor:
    """One number for each sentence, in the dtype of an array and in a shape to multiply it with."""
    return values.to(arrays.dtype).view(-1, *(1 for _ in arrays.shape[1:]))


def _evaluate(point: Point) -> tuple[Tensor, ...]:
    value, parts = point.operators.family.evaluate(point.scores, point.lengths, point.options)
    return (value, *parts)  # type: ignore[arg-type]  # all are requested


def _pull_evaluation(point: Point, grads: Arrays, requested: Sequence[Sequence[bool]]) -> list[Arrays]:
    return [gradient(point, grads[0], grads[1:], requested[0])]


def _push_evaluation(point: Point, tangents: Sequence[Arrays]) -> tuple[Tensor, ...]:
    along = point.tangents(tangents[0])
    return _inner(point.marginals(), along), *point.hvp(along)


def _product(point: Point) -> tuple[Tensor, ...]:
    family = point.operators.family
    return tuple(family.hvp(point.scores, point.lengths, point.vectors[0], point.options))  # type: ignore[arg-type]


def _pull_product(point: Point, grads: Arrays, requested: Sequence[Sequence[bool]]) -> list[Arrays]:
    none: Arrays = [None for _ in point.scores]
    to_scores = point.summed(point.third(point.vectors[0], grads)) if any(requested[0]) else none
    return [to_scores, point.hvp(grads) if any(requested[1]) else none]


def _push_product(point: Point, tangents: Sequence[Arrays]) -> tuple[Tensor, ...]:
    products = point.hvp(tangents[1])
    if any(along is not None for along in tangents[0]):
        third = point.third(point.vectors[0], point.tangents(tangents[0]))
        products = [product + change for product, change in zip(products, third, strict=True)]
    return tuple(products)


def _third(point: Point) -> tuple[Tensor, ...]:
    first, second = point.vectors
    return tuple(point.operators.family.third(point.scores, point.lengths, first, second, point.options))


def _refuse_fourth(point: Point, *_: Any) -> Any:
    raise NotImplementedError(
        f"structattn::{point.operators.family.name}: the fourth derivative of the log-partition was requested; "
        "derivatives are implemented, exactly, up to the third. For a Hessian-vector product, use "
        "torch.autograd.functional.vhp: hvp takes one derivative more than vhp, which returns the same"
    )


def _entropy(point: Point) -> tuple[Tensor, ...]:
    vectors = point.vectors[0]
    values = None if vectors[0] is None else [vector for vector in vectors if vector is not None]
    log_partition, entropy, gap = point.operators.family.entropy(point.scores, point.lengths, values, point.options)
    return log_partition, entropy, torch.zeros_like(entropy) if gap is None else gap


def _pull_entropy(point: Point, grads: Arrays, requested: Sequence[Sequence[bool]]) -> list[Arrays]:
    """For cotangents ``(a, b, c)``: ``(a + c) mu - H (b s + c v)`` to the scores ``s`` and ``-c mu`` to values ``v``.

    For the entropy alone, only the Hessian term remains.
    """
    to_log_partition, to_entropy, to_gap = grads
    to_parts: list[Tensor | None] = [None for _ in point.scores]
    for factor, values in ((to_entropy, point.operators.family.each(point.scores)), (to_gap, point.vectors[0])):
        if factor is not None and any(requested[0]):
            terms = [-like_rows(factor, array) * array for array in _finite(values)]
            to_parts = [_sum(total, term) for total, term in zip(to_parts, terms or to_parts, strict=True)]
    to_scores = gradient(point, _sum(to_log_partition, to_gap), to_parts, requested[0])
    to_values: Arrays = [None for _ in point.scores]
    if to_gap is not None and any(requested[1]):
        to_values = [None if parts is None else -like_rows(to_gap, parts) * parts for parts in point.marginals()]
    return [to_scores, to_values]


def _push_entropy(point: Point, tangents: Sequence[Arrays]) -> tuple[Tensor, ...]:
    along, values, parts = point.tangents(tangents[0]), point.vectors[0], point.marginals()
    products = point.hvp(along)
    through_log_partition = _inner(parts, along).double()
    to_entropy = -_inner(_finite(point.operators.family.each(point.scores)), products).double()
    to_gap = torch.zeros_like(to_entropy)
    if values[0] is not None:
        through_values = _inner(parts, point.tangents(tangents[1])) + _inner(_finite(values), products)
        to_gap = through_log_partition - through_values.double()
    return through_log_partition, to_entropy, to_gap


def _finite(values: Arrays) -> list[Tensor]:
    """Values, zero where infinite or nan: the part has zero probability, or makes the expectation infinite anyway."""
    return [array.masked_fill(array.isinf() | array.isnan(), 0) for array in values if array is not None]


def _inner(first: Arrays, second: Arrays) -> Tensor:
    """Sum of the products of all parts of a sentence."""
    products = [
        (a * b).flatten(1).sum(-1) for a, b in zip(first, second, strict=True) if a is not None and b is not None
    ]
    return torch.stack(products).sum(0)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


EVALUATE = Quantity("evaluate", 0, _evaluate, _pull_evaluation, _push_evaluation, saves_parts=True)
ENTROPY = Quantity("entropy", 1, _entropy, _pull_entropy, _push_entropy)
HVP = Quantity("hvp", 1, _product, _pull_product, _push_product)
THIRD = Quantity("third", 2, _third, _refuse_fourth, _refuse_fourth)
