"""A family of structures: its compiled programs, and the plain-torch ones (reference, fallback and GPU path).

Autograd differentiates nothing here; `kernels.operators` makes these calls differentiable.

Reference: Kim et al. (2017), Structured attention networks, section 3.3; Pearlmutter (1994), Fast exact multiplication
by the Hessian.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from structattn.kernels import gap, gpu, native
from structattn.kernels.arrays import Scores, call, empty_like, failed_rows, fill_rows, flattened, memory_for
from structattn.kernels.numbers import make_dual

Sizes = tuple[int, ...]
# (numbers (order, batch, part), lengths, sizes) -> (log_partition (order, batch), marginals (order, batch, part))
Program = Callable[[Tensor, Tensor, Sizes], tuple[Tensor, Tensor]]
# (scores (batch, part), lengths, sizes) -> (scores with -inf on padding and without a constant, that constant (batch,))
Preparation = Callable[[Tensor, Tensor, Sizes], tuple[Tensor, Tensor]]

# Above this log-partition, the rounding error of huge scores may be larger than an entropy.
_HUGE = 1e5


@runtime_checkable
class Selector(Protocol):
    """Best and random structures in plain torch, from prepared scores ``(batch, part)`` in float64."""

    def best(self, scores: Tensor, lengths: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
        """The best ``count`` structures: scores ``(count, batch)``, parts ``(count, batch, part)`` as ``bool``."""
        ...

    def draw(self, scores: Tensor, lengths: Tensor, streams: Tensor, *, count: int) -> Tensor:
        """``count`` independent structures: parts ``(count, batch, part)`` as ``bool``."""
        ...


@dataclass(frozen=True)
class Family:
    """A family of structures over one or several arrays of scores; the parts of a structure are shaped like the first.

    Everything is computed in float64 and returned in the dtype of the scores. Where the compiled library has
    ``<name>_marginals``, ``_hvp``, ``_argmax``, ``_topk`` or ``_sample``, that function is called.

    Attributes:
        name: unique in the process; the prefix of the operators and of the compiled functions.
        sizes: given the arrays and the options, the integers that the programs need besides scores and lengths.
        prepare: prepares flat scores for the plain-torch programs; a compiled program does the same internally.
        program: the sum-product program over numbers that carry their derivatives.
        selector: finds best structures and draws random ones, for given sizes.
        shared_axes: for each array, how many axes it has when the whole batch shares it; None if it is never shared.
        row_axes: for each of the given arrays, how many of its last axes form a row in which a structure has exactly
            one part; 0 if there are no such rows.
    """

    name: str
    sizes: Callable[[Scores, Sequence[int]], Sizes]
    prepare: Preparation
    program: Program
    selector: Callable[[Sizes], Selector]
    shared_axes: tuple[int | None, ...] = (None,)
    row_axes: Callable[[Scores], Sequence[int]] = lambda scores: [0 for _ in scores]

    def is_shared(self, scores: Scores) -> list[bool]:
        """Which arrays the whole batch shares."""
        return [array.dim() == axes for array, axes in zip(scores, self.shared_axes, strict=True)]

    def each(self, scores: Scores) -> list[Tensor]:
        """The arrays of each sentence, with the batch axis in front."""
        batch = scores[0].shape[0]
        return [
            array.expand(batch, *array.shape) if array.dim() == axes else array
            for array, axes in zip(scores, self.shared_axes, strict=True)
        ]

    def evaluate(
        self,
        scores: Scores,
        lengths: Tensor,
        options: Sequence[int],
        *,
        log_partition: bool = True,
        parts: Sequence[bool] | None = None,
    ) -> tuple[Tensor | None, list[Tensor | None]]:
        """Log-partition ``(batch,)`` and marginals of the parts of each array, where they are wanted (all by default).

        Marginals have a batch axis even where an array of scores has none: they are computed for each sentence.
        """
        sizes = self.sizes(scores, options)
        compiled = self._function("marginals", scores, sizes, pointers=len(scores) + 1)
        if compiled is None:
            value, found = self._run(scores, lengths, sizes)
            return value, list(found)
        results = [scores[0].new_empty(len(scores[0])) if log_partition else None]
        results += memory_for(self.each(scores), parts)
        if not compiled(scores, lengths, [], results, sizes):
            rest = failed_rows(next(result for result in results if result is not None))
            exact, exact_parts = self._run(self._rows(scores, rest), lengths[rest], sizes)
            fill_rows(results, rest, [exact, *exact_parts])
        return results[0], results[1:]

    def hvp(
        self,
        scores: Scores,
        lengths: Tensor,
        vectors: Sequence[Tensor | None],
        options: Sequence[int],
        *,
        wanted: Sequence[bool] | None = None,
    ) -> list[Tensor | None]:
        """Hessian of the log-partition times a vector (None is zero), for each array of each sentence where wanted."""
        sizes, each = self.sizes(scores, options), self.each(scores)
        compiled = self._function("hvp", scores, sizes, pointers=2 * len(scores))
        if compiled is None:
            return list(self._run(scores, lengths, sizes, flattened(each, vectors))[1])
        # The compiled programs always read the vector of the first array.
        given = [torch.zeros_like(each[0]) if vectors[0] is None else vectors[0], *vectors[1:]]
        results = memory_for(each, wanted)
        if not compiled(scores, lengths, given, results, sizes):
            rest = failed_rows(next(result for result in results if result is not None))
            flat = flattened(each, vectors)[rest]
            fill_rows(results, rest, self._run(self._rows(scores, rest), lengths[rest], sizes, flat)[1])
        return results

    def third(
        self,
        scores: Scores,
        lengths: Tensor,
        first: Sequence[Tensor | None],
        second: Sequence[Tensor | None],
        options: Sequence[int],
    ) -> list[Tensor]:
        """The third derivative of the log-partition contracted with two vectors, for each array of each sentence."""
        each = self.each(scores)
        sizes = self.sizes(scores, options)
        return self._run(scores, lengths, sizes, flattened(each, first), flattened(each, second))[1]

    def entropy(
        self, scores: Scores, lengths: Tensor, values: Sequence[Tensor] | None, options: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Log-partition ``A``, entropy ``A - <mu, scores>`` and, for given values, ``A - <mu, values>``, in float64.

        Both differences are zero if nothing is allowed. Values are given for each sentence. A part with zero
        probability may have any value; ``-inf`` makes the difference infinite where the part has nonzero probability.
        """
        log_partition, found = (scores[0].new_empty(len(scores[0]), dtype=torch.float64) for _ in range(2))
        given = [None for _ in scores] if values is None else [own.to(scores[0].dtype) for own in values]
        gap_to_values = None if values is None else torch.empty_like(found)
        outcome = self._call_entropy(scores, lengths, given, [log_partition, found, gap_to_values], options)
        if outcome is None:
            return self._entropy(scores, lengths, values, options)
        if not outcome:
            rest = found.isnan()
            own = values if values is None else [value[rest] for value in values]
            answers = self._entropy(self._rows(scores, rest), lengths[rest], own, options)
            for result, answer in zip((log_partition, found, gap_to_values), answers, strict=True):
                if result is not None and answer is not None:
                    result[rest] = answer
        return log_partition, found, gap_to_values

    def exact_log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
        """Log-partition in float64, whatever the dtype of the scores."""
        found = scores[0].new_empty(len(scores[0]), dtype=torch.float64)
        outcome = self._call_entropy(scores, lengths, [None for _ in scores], [found, None, None], options)
        rest = found.isnan() if outcome is False else None
        if outcome:
            return found
        own = scores if rest is None else self._rows(scores, rest)
        exact = [array.double() for array in own]
        value, _ = self.evaluate(
            exact, lengths if rest is None else lengths[rest], options, parts=[False for _ in scores]
        )
        assert value is not None  # it was asked for
        if rest is None:
            return value
        found[rest] = value
        return found

    def _call_entropy(
        self,
        scores: Scores,
        lengths: Tensor,
        values: Sequence[Tensor | None],
        results: Sequence[Tensor | None],
        options: Sequence[int],
    ) -> bool | None:
        """Whether the compiled program has an answer for every sentence; None if there is no such program."""
        sizes = self.sizes(scores, options)
        compiled = self._function("entropy", scores, sizes, pointers=len(scores) + 3)
        return None if compiled is None else compiled(scores, lengths, values, results, sizes)

    def _entropy(
        self, scores: Scores, lengths: Tensor, values: Sequence[Tensor] | None, options: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The same from marginals, with special care for small entropies and huge scores."""
        exact = [array.double() for array in scores]
        log_partition, marginals = self.evaluate(exact, lengths, options)
        assert log_partition is not None  # it was asked for
        parts, each = [own for own in marginals if own is not None], self.each(exact)
        axes = [(own.dim() - 1, rows) for own, rows in zip(each, self.row_axes(scores), strict=True)]
        found = gap.entropy(parts, log_partition, each, axes)
        # Always on an accelerator, where checking would have to wait for the device.
        if not found.is_cpu or (log_partition.abs() > _HUGE).any():
            # Rounding of huge scores may make the difference arbitrary; the number of structures bounds the entropy.
            allowed = [torch.zeros_like(own).masked_fill(own == -torch.inf, -torch.inf) for own in exact]
            log_count = self.evaluate(allowed, lengths, options, parts=[False for _ in exact])[0]
            assert log_count is not None  # it was asked for
            found = found.minimum(log_count.clamp(min=0))
        if values is None:
            return log_partition, found, None
        gap_to_values = gap.gap(parts, log_partition, [own.double() for own in values], axes)
        return log_partition, found, gap_to_values.masked_fill(log_partition == -torch.inf, 0)

    def argmax(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
        """Parts of a best structure, all zero if nothing is allowed."""
        sizes = self.sizes(scores, options)
        compiled = self._function("argmax", scores, sizes, pointers=1)
        parts = empty_like(scores[0])
        if compiled is None or not compiled(scores, lengths, [], [parts], sizes):
            return self.topk(scores, lengths, options, 1)[1][0]
        return parts

    def topk(self, scores: Scores, lengths: Tensor, options: Sequence[int], k: int) -> tuple[Tensor, Tensor]:
        """Scores ``(k, batch)`` and parts ``(k, batch, ...)`` of the best structures; ``-inf`` and zero where none is
        left."""
        sizes, first = (*self.sizes(scores, options), k), scores[0]
        compiled = self._function("topk", scores, sizes, pointers=2)
        if compiled is None:
            ready, taken = self._prepared(scores, lengths, sizes[:-1])
            values, selected = self.selector(sizes[:-1]).best(ready, lengths, count=k)
            return (values + taken).to(first.dtype), self._shown(selected, first)
        values, parts = first.new_empty(k, len(first)), first.new_empty(k, *first.shape)
        compiled(scores, lengths, [], [values, parts], sizes)
        return values, parts

    def sample(self, scores: Scores, lengths: Tensor, streams: Tensor, options: Sequence[int], count: int) -> Tensor:
        """Parts ``(count, batch, ...)`` of independent samples; zero if nothing is allowed.

        Args:
            scores: the arrays.
            lengths: number of words of each sentence.
            streams: the random stream of each sentence's samples, see `kernels.random`.
            options: of the family.
            count: how many samples of each sentence.
        """
        sizes, first = (*self.sizes(scores, options), count), scores[0]
        compiled = self._function("sample", scores, sizes, pointers=2)
        if compiled is None:
            return self._drawn(scores, lengths, streams, sizes)
        parts = first.new_empty(count, *first.shape)
        if count and not compiled(scores, lengths, [streams], [parts], sizes):
            rest = failed_rows(parts[0])
            parts[:, rest] = self._drawn(self._rows(scores, rest), lengths[rest], streams[rest], sizes)
        return parts

    def _function(self, what: str, scores: Scores, sizes: Sizes, *, pointers: int) -> gpu.Function | None:
        """The compiled program for scores like these, if there is one.

        Args:
            what: the quantity, such as ``marginals``.
            scores: the arrays.
            sizes: of the call.
            pointers: how many vectors and results it takes.
        """
        name, first = f"{self.name}_{what}", scores[0]
        on_device = gpu.function(name, first)
        if on_device is not None:
            return on_device
        compiled = native.function(name, first, pointers=len(scores) + 1 + pointers, numbers=1 + len(sizes))
        return None if compiled is None else partial(call, compiled)

    def _drawn(self, scores: Scores, lengths: Tensor, streams: Tensor, sizes: Sizes) -> Tensor:
        ready, _ = self._prepared(scores, lengths, sizes[:-1])
        selected = self.selector(sizes[:-1]).draw(ready, lengths, streams, count=sizes[-1])
        return self._shown(selected, scores[0])

    def _run(self, scores: Scores, lengths: Tensor, sizes: Sizes, *directions: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The plain-torch program: log-partition, and the marginals or their derivative along all directions."""
        each = self.each(scores)
        ready, taken = self._prepared(scores, lengths, sizes)
        log_partition, parts = self.program(make_dual(ready, *directions), lengths, sizes)
        dtype = scores[0].dtype
        pieces = parts[-1].split([math.prod(array.shape[1:]) for array in each], -1)
        found = [
            piece.to(dtype, memory_format=torch.contiguous_format, copy=True).view(array.shape)
            for piece, array in zip(pieces, each, strict=True)
        ]
        return (log_partition[0] + taken).to(dtype), found

    def _prepared(self, scores: Scores, lengths: Tensor, sizes: Sizes) -> tuple[Tensor, Tensor]:
        each = self.each(scores)
        return self.prepare(flattened(each, each), lengths, sizes)

    def _shown(self, parts: Tensor, first: Tensor) -> Tensor:
        """Of parts ``(count, batch, part)`` of all arrays, those of the first, in the shape and dtype of its scores."""
        own = parts[..., : math.prod(first.shape[1:])].to(first.dtype, memory_format=torch.contiguous_format)
        return own.view(len(parts), *first.shape)

    def _rows(self, scores: Scores, rows: Tensor) -> list[Tensor]:
        return [array if shared else array[rows] for array, shared in zip(scores, self.is_shared(scores), strict=True)]
