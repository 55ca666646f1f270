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

from structattn.kernels.arrays import Scores
from structattn.kernels.family import Family

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
    """Where a function is evaluated and differentiated.

    Attributes:
        operators: of the family.
        scores: the arrays.
        lengths: number of words of each sentence.
        options: of the family.
        vectors: further inputs of the function, in groups of one array for each array of scores.
        parts: the marginals, if they are known.
    """

    operators: Differentiable
    scores: Scores
    lengths: Tensor
    options: Sequence[int]
    vectors: Sequence[Arrays] = ()
    parts: Arrays | None = None

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
            own.sum(0) if one_for_all and own is not None else own
            for own, one_for_all in zip(each, shared, strict=True)
        ]

    def tangents(self, given: Arrays) -> list[Tensor]:
        """Directions for the arrays of each sentence, zero where none is given."""
        filled = [
            torch.zeros_like(own) if along is None else along for own, along in zip(self.scores, given, strict=True)
        ]
        return self.operators.family.each(filled)


@dataclass(frozen=True)
class Rule:
    """A function of scores and vectors, and its derivatives.

    Attributes:
        name: of the torch operator.
        num_vectors: how many groups of vectors it takes.
        value: computes its outputs.
        pullback: maps cotangents of the outputs (None is zero), and flags for what is wanted, to cotangents of the
            scores and of each group of vectors.
        pushforward: maps tangents of the scores and of each group of vectors to tangents of the outputs.
        saves_parts: whether all outputs but the first are the marginals, which the derivatives use.
    """

    name: str
    num_vectors: int
    value: Callable[[Point], tuple[Tensor, ...]]
    pullback: Callable[[Point, Arrays, Sequence[Sequence[bool]]], list[Arrays]]
    pushforward: Callable[[Point, Sequence[Arrays]], tuple[Tensor, ...]]
    saves_parts: bool = False


def gradient(
    at: Point, to_log_partition: Tensor | None, to_parts: Arrays, wanted: Sequence[bool], *, overwrite: bool = False
) -> list[Tensor | None]:
    """``a mu + H v`` for each array: the gradient of the log-partition and the marginals.

    Args:
        at: where it is evaluated.
        to_log_partition: the cotangent ``a``, or None.
        to_parts: the cotangent ``v`` of the marginals of each array, or None.
        wanted: the arrays whose gradient is wanted.
        overwrite: whether the gradient may overwrite the marginals, which saves an array as large as the scores.
    """
    found: list[Tensor | None] = [None for _ in at.scores]
    if to_log_partition is not None:
        shared = at.operators.family.is_shared(at.scores)
        for index, own in enumerate(at.marginals()):
            if not wanted[index] or own is None:
                continue
            if shared[index]:
                found[index] = (to_log_partition.to(own.dtype) @ own.flatten(1)).view(at.scores[index].shape)
            else:
                factor = like_rows(to_log_partition, own)
                found[index] = own.mul_(factor) if overwrite else own * factor
    if any(vector is not None for vector in to_parts):
        products = at.summed(at.hvp(to_parts))
        found = [
            _sum(own, product) if want else None for own, product, want in zip(found, products, wanted, strict=True)
        ]
    return found


def like_rows(values: Tensor, arrays: Tensor) -> Tensor:
    """One number for each sentence, in the dtype of an array and in a shape to multiply it with."""
    return values.to(arrays.dtype).view(-1, *(1 for _ in arrays.shape[1:]))


def _evaluate(at: Point) -> tuple[Tensor, ...]:
    value, parts = at.operators.family.evaluate(at.scores, at.lengths, at.options)
    return (value, *parts)  # type: ignore[arg-type]  # all are wanted


def _pull_evaluation(at: Point, grads: Arrays, wanted: Sequence[Sequence[bool]]) -> list[Arrays]:
    return [gradient(at, grads[0], grads[1:], wanted[0])]


def _push_evaluation(at: Point, tangents: Sequence[Arrays]) -> tuple[Tensor, ...]:
    along = at.tangents(tangents[0])
    return _inner(at.marginals(), along), *at.hvp(along)


def _product(at: Point) -> tuple[Tensor, ...]:
    return tuple(at.operators.family.hvp(at.scores, at.lengths, at.vectors[0], at.options))  # type: ignore[arg-type]


def _pull_product(at: Point, grads: Arrays, wanted: Sequence[Sequence[bool]]) -> list[Arrays]:
    none: Arrays = [None for _ in at.scores]
    to_scores = at.summed(at.third(at.vectors[0], grads)) if any(wanted[0]) else none
    return [to_scores, at.hvp(grads) if any(wanted[1]) else none]


def _push_product(at: Point, tangents: Sequence[Arrays]) -> tuple[Tensor, ...]:
    found = at.hvp(tangents[1])
    if any(along is not None for along in tangents[0]):
        third = at.third(at.vectors[0], at.tangents(tangents[0]))
        found = [own + other for own, other in zip(found, third, strict=True)]
    return tuple(found)


def _third(at: Point) -> tuple[Tensor, ...]:
    first, second = at.vectors
    return tuple(at.operators.family.third(at.scores, at.lengths, first, second, at.options))


def _refuse_fourth(at: Point, *_: Any) -> Any:
    raise NotImplementedError(
        f"structattn::{at.operators.family.name}: the fourth derivative of the log-partition was requested; "
        "derivatives are implemented, exactly, up to the third. For a Hessian-vector product, use "
        "torch.autograd.functional.vhp: hvp takes one derivative more than vhp, which returns the same"
    )


def _entropy(at: Point) -> tuple[Tensor, ...]:
    values = at.vectors[0]
    given = None if values[0] is None else [own for own in values if own is not None]
    log_partition, entropy, gap = at.operators.family.entropy(at.scores, at.lengths, given, at.options)
    return log_partition, entropy, torch.zeros_like(entropy) if gap is None else gap


def _pull_entropy(at: Point, grads: Arrays, wanted: Sequence[Sequence[bool]]) -> list[Arrays]:
    """For cotangents ``(a, b, c)``: ``(a + c) mu - H (b s + c v)`` to the scores ``s`` and ``-c mu`` to values ``v``.

    For the entropy alone, only the Hessian term remains.
    """
    to_log_partition, to_entropy, to_gap = grads
    to_parts: list[Tensor | None] = [None for _ in at.scores]
    for factor, given in ((to_entropy, at.operators.family.each(at.scores)), (to_gap, at.vectors[0])):
        if factor is not None and any(wanted[0]):
            terms = [-like_rows(factor, own) * own for own in _finite(given)]
            to_parts = [_sum(own, term) for own, term in zip(to_parts, terms or to_parts, strict=True)]
    to_scores = gradient(at, _sum(to_log_partition, to_gap), to_parts, wanted[0])
    to_values: Arrays = [None for _ in at.scores]
    if to_gap is not None and any(wanted[1]):
        to_values = [None if own is None else -like_rows(to_gap, own) * own for own in at.marginals()]
    return [to_scores, to_values]


def _push_entropy(at: Point, tangents: Sequence[Arrays]) -> tuple[Tensor, ...]:
    along, values, parts = at.tangents(tangents[0]), at.vectors[0], at.marginals()
    products = at.hvp(along)
    through_log_partition = _inner(parts, along).double()
    to_entropy = -_inner(_finite(at.operators.family.each(at.scores)), products).double()
    to_gap = torch.zeros_like(to_entropy)
    if values[0] is not None:
        through_values = _inner(parts, at.tangents(tangents[1])) + _inner(_finite(values), products)
        to_gap = through_log_partition - through_values.double()
    return through_log_partition, to_entropy, to_gap


def _finite(values: Arrays) -> list[Tensor]:
    """Values, zero where infinite or nan: the part has zero probability, or makes the expectation infinite anyway."""
    return [own.masked_fill(own.isinf() | own.isnan(), 0) for own in values if own is not None]


def _inner(first: Arrays, second: Arrays) -> Tensor:
    """Sum of the products of all parts of a sentence."""
    products = [
        (own * other).flatten(1).sum(-1)
        for own, other in zip(first, second, strict=True)
        if own is not None and other is not None
    ]
    return torch.stack(products).sum(0)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


EVALUATE = Rule("evaluate", 0, _evaluate, _pull_evaluation, _push_evaluation, saves_parts=True)
ENTROPY = Rule("entropy", 1, _entropy, _pull_entropy, _push_entropy)
HVP = Rule("hvp", 1, _product, _pull_product, _push_product)
THIRD = Rule("third", 2, _third, _refuse_fourth, _refuse_fourth)
