"""The entry point to the kernels: log-partition, marginals, derivatives, best and random structures of a family.

Reference: Kim et al. (2017), Structured attention networks, section 3.3.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from structattn.kernels import autograd
from structattn.kernels.derivatives import ENTROPY, EVALUATE, HVP, THIRD, Arrays, Point, Quantity
from structattn.kernels.family import Family
from structattn.kernels.programs import Scores
from structattn.kernels.tracing import (
    is_eager,
    is_forward,
    is_mapped,
    is_recorded,
    is_traced,
    transforms_are_active,
)


class Operators:
    """The quantities that a family computes from arrays of scores with one batch axis."""

    # Log-partition and marginals can be differentiated, up to the third derivative of the log-partition; everything can
    # be mapped (``torch.vmap``), transformed (``torch.func``), compiled and exported, as one node of the graph. Eager
    # calls go directly to the kernel and bypass torch's dispatcher, which costs more than a short sentence.

    def __init__(self, family: Family) -> None:
        from structattn.kernels import graph_nodes

        self.family = family
        self._nodes = graph_nodes.register(self)

    def log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Log-partition ``(batch,)``; ``-inf`` if nothing is allowed."""
        if not is_eager(*scores) or is_forward():
            return self.evaluate(scores, lengths, options)[0]
        if is_recorded(*scores):
            return autograd.log_partition(self, scores, lengths, options)
        value = self.family.evaluate(scores, lengths, options, parts=[False for _ in scores])[0]
        assert value is not None  # it was requested
        return value

    def marginals(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Marginals of the parts that are shaped like the first array."""
        if not is_eager(*scores) or is_forward():
            return self.evaluate(scores, lengths, options)[1][0]
        if is_recorded(*scores):
            return autograd.marginals(self, scores, lengths, options)
        return autograd.first_marginals(self.family, scores, lengths, options)

    def evaluate(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> tuple[Tensor, list[Tensor]]:
        """Log-partition, and marginals of the parts of every array, for each sentence."""
        value, *parts = self._differentiable(EVALUATE, scores, lengths, (), options)
        return value, parts

    def entropy(
        self,
        scores: Scores,
        lengths: Tensor,
        options: Sequence[int] = (),
        values: Sequence[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Log-partition ``A``, entropy and, for values of the parts, ``A - <mu, values>``; see `Family.entropy`."""
        vector: Arrays = [None for _ in scores] if values is None else values
        log_partition, entropy, gap = self._differentiable(ENTROPY, scores, lengths, [vector], options)
        return log_partition, entropy, None if values is None else gap

    def exact_log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Log-partition in float64, whatever the dtype of the scores."""
        if is_eager(*scores) and not is_recorded(*scores):
            return self.family.exact_log_partition(scores, lengths, options)
        return self.log_partition([array.double() for array in scores], lengths, options)

    def hvp(self, scores: Scores, lengths: Tensor, vectors: Arrays, options: Sequence[int] = ()) -> list[Tensor]:
        """Hessian of the log-partition times a vector (None is zero), for every array of each sentence."""
        return list(self._differentiable(HVP, scores, lengths, [vectors], options))

    def third(
        self, scores: Scores, lengths: Tensor, first: Arrays, second: Arrays, options: Sequence[int] = ()
    ) -> list[Tensor]:
        """Third derivative of the log-partition times two vectors (None is zero), for every array of each sentence."""
        return list(self._differentiable(THIRD, scores, lengths, [first, second], options))

    def argmax(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Parts of a best structure, all zero if nothing is allowed; no gradient."""
        detached = [array.detach() for array in scores]
        if is_eager(*detached):
            return self.family.argmax(detached, lengths, options)
        parts: Tensor = self._nodes.argmax(*detached, lengths, list(options))
        return parts

    def topk(self, scores: Scores, lengths: Tensor, options: Sequence[int], k: int) -> tuple[Tensor, Tensor]:
        """Scores ``(k, batch)`` and parts ``(k, batch, ...)`` of the best structures (`Family.topk`); no gradient."""
        detached = [array.detach() for array in scores]
        if is_eager(*detached):
            return self.family.topk(detached, lengths, options, k)
        values, parts = self._nodes.topk(*detached, lengths, list(options), k)
        return values, parts

    def sample(self, scores: Scores, lengths: Tensor, streams: Tensor, options: Sequence[int], count: int) -> Tensor:
        """Parts ``(count, batch, ...)`` of samples, from a random stream for each sentence; no gradient."""
        detached = [array.detach() for array in scores]
        if is_eager(*detached, streams):
            return self.family.sample(detached, lengths, streams, options, count)
        parts: Tensor = self._nodes.sample(*detached, lengths, streams, list(options), count)
        return parts

    def _differentiable(
        self, quantity: Quantity, scores: Scores, lengths: Tensor, vectors: Sequence[Arrays], options: Sequence[int]
    ) -> Sequence[Tensor]:
        flat = [vector for group in vectors for vector in group]
        tensors = [vector for vector in flat if vector is not None]
        if torch.compiler.is_compiling() and is_forward():
            return _outside_of_graphs(quantity, self, scores, lengths, vectors, options)
        if is_traced(*scores, *tensors) or any(map(is_mapped, tensors)):
            results = self._nodes.quantities[quantity](*scores, lengths, *flat, list(options))
            return (results,) if isinstance(results, Tensor) else tuple(results)
        if transforms_are_active() or is_recorded(*scores, *tensors):
            return autograd.apply(quantity, self, scores, lengths, vectors, options)
        return quantity.value(Point(self, scores, lengths, options, vectors))


def _outside_of_graphs(*arguments: Any) -> Sequence[Tensor]:
    """A quantity as an autograd function, which breaks the graph of ``torch.compile``, because nodes have no tangents.

    torch would silently treat the missing tangents as zero.
    """
    results: Sequence[Tensor] = torch.compiler.disable(autograd.apply)(*arguments)
    return results
