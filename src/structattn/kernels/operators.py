"""The entry point to the kernels: log-partition, marginals, derivatives, best and random structures of a family.

Reference: Kim et al. (2017), Structured attention networks, section 3.3.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from structattn.kernels import autograd, graph
from structattn.kernels.arrays import Scores
from structattn.kernels.family import Family
from structattn.kernels.rules import ENTROPY, EVALUATE, HVP, THIRD, Arrays, Point, Rule


class Operators:
    """The quantities that a family computes from arrays of scores with one batch axis.

    Log-partition and marginals can be differentiated, up to the third derivative of the log-partition; everything can
    be mapped (``torch.vmap``), transformed (``torch.func``), compiled and exported, as one node of the graph. Eager
    calls go directly to the kernel and bypass torch's dispatcher, which costs more than computing a short sentence.

    Attributes:
        family: the programs behind the calls.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self._nodes = graph.register(self)

    def log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Log-partition ``(batch,)``; ``-inf`` if nothing is allowed."""
        if not is_eager(*scores) or is_forward():
            return self.evaluate(scores, lengths, options)[0]
        if _is_recorded(*scores):
            return autograd.log_partition(self, scores, lengths, options)
        value = self.family.evaluate(scores, lengths, options, parts=[False for _ in scores])[0]
        assert value is not None  # it was asked for
        return value

    def marginals(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Marginals of the parts that are shaped like the first array."""
        if not is_eager(*scores) or is_forward():
            return self.evaluate(scores, lengths, options)[1][0]
        if _is_recorded(*scores):
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
        """Log-partition ``A``, entropy ``A - <mu, scores>`` and, for given values, ``A - <mu, values>``, in float64.

        Args:
            scores: arrays of scores.
            lengths: number of words of each sentence.
            options: of the family.
            values: of the parts of each array, for each sentence; see `Family.entropy`.
        """
        given: Arrays = [None for _ in scores] if values is None else values
        log_partition, entropy, gap = self._differentiable(ENTROPY, scores, lengths, [given], options)
        return log_partition, entropy, None if values is None else gap

    def exact_log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Log-partition in float64, whatever the dtype of the scores."""
        if is_eager(*scores) and not _is_recorded(*scores):
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
        own = [array.detach() for array in scores]
        if is_eager(*own):
            return self.family.argmax(own, lengths, options)
        found: Tensor = self._nodes.argmax(*own, lengths, list(options))
        return found

    def topk(self, scores: Scores, lengths: Tensor, options: Sequence[int], k: int) -> tuple[Tensor, Tensor]:
        """Scores ``(k, batch)`` and parts ``(k, batch, ...)`` of the best structures; no gradient.

        Where there are fewer structures, the score is ``-inf`` and the parts are zero.
        """
        own = [array.detach() for array in scores]
        if is_eager(*own):
            return self.family.topk(own, lengths, options, k)
        values, parts = self._nodes.topk(*own, lengths, list(options), k)
        return values, parts

    def sample(self, scores: Scores, lengths: Tensor, streams: Tensor, options: Sequence[int], count: int) -> Tensor:
        """Parts ``(count, batch, ...)`` of independent samples, zero if nothing is allowed; no gradient.

        Args:
            scores: arrays of scores.
            lengths: number of words of each sentence.
            streams: a random stream for each sentence, see `kernels.random.streams`.
            options: of the family.
            count: how many samples of each sentence.
        """
        own = [array.detach() for array in scores]
        if is_eager(*own, streams):
            return self.family.sample(own, lengths, streams, options, count)
        found: Tensor = self._nodes.sample(*own, lengths, streams, list(options), count)
        return found

    def _differentiable(
        self, rule: Rule, scores: Scores, lengths: Tensor, vectors: Sequence[Arrays], options: Sequence[int]
    ) -> Sequence[Tensor]:
        further = [vector for group in vectors for vector in group]
        given = [vector for vector in further if vector is not None]
        if torch.compiler.is_compiling() and is_forward():
            return _outside_of_graphs(rule, self, scores, lengths, vectors, options)
        if _is_traced(*scores, *given) or any(map(autograd.is_mapped, given)):
            found = self._nodes.rules[rule](*scores, lengths, *further, list(options))
            return (found,) if isinstance(found, Tensor) else tuple(found)
        if autograd.transforms_are_active() or _is_recorded(*scores, *given):
            return autograd.apply(rule, self, scores, lengths, vectors, options)
        return rule.value(Point(self, scores, lengths, options, vectors))


def _outside_of_graphs(*arguments: Any) -> Sequence[Tensor]:
    """A rule as an autograd function, which breaks the graph of ``torch.compile``, because nodes have no tangents.

    torch would silently treat the missing tangents as zero.
    """
    found: Sequence[Tensor] = torch.compiler.disable(autograd.apply)(*arguments)
    return found


def is_eager(*tensors: Tensor) -> bool:
    """Whether these are plain tensors with data, outside of ``torch.compile`` and ``torch.func``.

    Example:
        >>> is_eager(torch.zeros(2)), is_eager(torch.zeros(2, device="meta"))
        (True, False)
    """
    return not _is_traced(*tensors) and not autograd.transforms_are_active()


def _is_traced(*tensors: Tensor) -> bool:
    """Whether a graph is being traced, or the tensors have no data."""
    if torch.compiler.is_compiling():
        return True
    return any(type(tensor) not in (Tensor, Parameter) or tensor.is_meta for tensor in tensors)


def _is_recorded(*tensors: Tensor) -> bool:
    """Whether autograd must record the call: some tensor requires a gradient, or forward mode is active."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return is_forward()


def is_forward() -> bool:
    """Whether forward mode is active; always true in a torch that keeps its level elsewhere."""
    return getattr(forward_ad, "_current_level", 0) >= 0
