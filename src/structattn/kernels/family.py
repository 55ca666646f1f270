"""A family of structures: its compiled programs, and the plain-torch ones (reference, fallback and GPU path).

Autograd differentiates nothing here; `kernels.operators` makes these calls differentiable. The entropy is
``A - <mu, scores>``. Computed directly, the difference would lose precision where one structure has nearly all the
probability, because both terms are then its score. Therefore, in each row in which a structure has exactly one part,
the score of the probable part is subtracted from both terms, which leaves small probabilities times gaps between
scores. The remaining rounding error is bounded by the entropies of single parts: the entropy of a structure is at least
that of any part, and at most the sum over parts that determine it, those with a probability of at most one half.

Reference: Kim et al. (2017), Structured attention networks, section 3.3; Pearlmutter (1994), Fast exact multiplication
by the Hessian; Wainwright and Jordan (2008), Graphical models, exponential families, and variational inference, section
3; Cover and Thomas (2006), Elements of information theory, section 2.6 (the bounds).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from structattn.kernels import programs
from structattn.kernels.dual_numbers import make_dual
from structattn.kernels.programs import Scores, Tensors, allocate, empty_like, failed_rows, fill_rows, flatten

Sizes = tuple[int, ...]
# For each array of scores: how many of its last axes are those of the parts, and how many of these form a row in which
# each structure has exactly one part (0 if there are no such rows).
Axes = Sequence[tuple[int, int]]


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

    Everything is computed in float64 and returned in the dtype of the scores.
    """

    name: str  # unique in the process; the prefix of the operators and of the compiled functions
    # (arrays, options) -> the integers that the programs need besides scores and lengths
    sizes: Callable[[Scores, Sequence[int]], Sizes]
    # (flat scores (batch, part), lengths, sizes) -> scores with -inf on padding and without a constant, that constant
    # (batch,); compiled programs do the same internally
    prepare: Callable[[Tensor, Tensor, Sizes], tuple[Tensor, Tensor]]
    # (numbers (order, batch, part), lengths, sizes) -> log_partition (order, batch), marginals (order, batch, part)
    program: Callable[[Tensor, Tensor, Sizes], tuple[Tensor, Tensor]]
    selector: Callable[[Sizes], Selector]
    # For each array, how many axes it has when the whole batch shares it; None if it is never shared.
    shared_axes: tuple[int | None, ...] = (None,)
    # For each array, how many of its last axes form a row, see `Axes`.
    row_axes: Callable[[Scores], Sequence[int]] = lambda scores: [0 for _ in scores]
    # Whether two structures may differ in probable parts alone, because a part may be left out without another one.
    has_optional_parts: bool = False

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
        """Log-partition ``(batch,)`` and marginals of the parts of each array, for each sentence, as requested."""
        sizes = self.sizes(scores, options)
        program = self._find("marginals", scores, sizes, pointers=len(scores) + 1)
        if program is None:
            value, marginals = self._run(scores, lengths, sizes)
            return value, list(marginals)
        results = [scores[0].new_empty(len(scores[0])) if log_partition else None]
        results += allocate(self.each(scores), parts)
        if not program(scores, lengths, [], results, sizes):
            failed = failed_rows(next(result for result in results if result is not None))
            value, marginals = self._run(self._rows(scores, failed), lengths[failed], sizes)
            fill_rows(results, failed, [value, *marginals])
        return results[0], results[1:]

    def hvp(
        self,
        scores: Scores,
        lengths: Tensor,
        vectors: Tensors,
        options: Sequence[int],
        *,
        requested: Sequence[bool] | None = None,
    ) -> list[Tensor | None]:
        """Hessian of the log-partition times a vector (None is zero), for each array of each sentence, as requested."""
        sizes, each = self.sizes(scores, options), self.each(scores)
        program = self._find("hvp", scores, sizes, pointers=2 * len(scores))
        if program is None:
            return list(self._run(scores, lengths, sizes, flatten(each, vectors))[1])
        # The compiled programs always read the vector of the first array.
        filled = [torch.zeros_like(each[0]) if vectors[0] is None else vectors[0], *vectors[1:]]
        results = allocate(each, requested)
        if not program(scores, lengths, filled, results, sizes):
            failed = failed_rows(next(result for result in results if result is not None))
            direction = flatten(each, vectors)[failed]
            fill_rows(results, failed, self._run(self._rows(scores, failed), lengths[failed], sizes, direction)[1])
        return results

    def third(
        self, scores: Scores, lengths: Tensor, first: Tensors, second: Tensors, options: Sequence[int]
    ) -> list[Tensor]:
        """The third derivative of the log-partition contracted with two vectors, for each array of each sentence."""
        each = self.each(scores)
        sizes = self.sizes(scores, options)
        return self._run(scores, lengths, sizes, flatten(each, first), flatten(each, second))[1]

    def entropy(
        self, scores: Scores, lengths: Tensor, values: Sequence[Tensor] | None, options: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Log-partition ``A``, entropy and, for values of the parts of each sentence, ``A - <mu, values>``, in float64.

        Zero if nothing is allowed. Of a part with zero probability no value is read; elsewhere ``-inf`` gives ``inf``.
        """
        log_partition, entropy = (scores[0].new_empty(len(scores[0]), dtype=torch.float64) for _ in range(2))
        inputs = [None for _ in scores] if values is None else [array.to(scores[0].dtype) for array in values]
        gap_to_values = None if values is None else torch.empty_like(entropy)
        outcome = self._call_entropy(scores, lengths, inputs, [log_partition, entropy, gap_to_values], options)
        if outcome is None:
            return self._entropy(scores, lengths, values, options)
        if not outcome:
            failed = entropy.isnan()
            failed_values = values if values is None else [array[failed] for array in values]
            answers = self._entropy(self._rows(scores, failed), lengths[failed], failed_values, options)
            fill_rows((log_partition, entropy, gap_to_values), failed, answers)
        return log_partition, entropy, gap_to_values

    def exact_log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
        """Log-partition in float64, whatever the dtype of the scores."""
        value = scores[0].new_empty(len(scores[0]), dtype=torch.float64)
        outcome = self._call_entropy(scores, lengths, [None for _ in scores], [value, None, None], options)
        if outcome is None:
            return self._log_partition(scores, lengths, options)
        if not outcome:
            failed = value.isnan()
            value[failed] = self._log_partition(self._rows(scores, failed), lengths[failed], options)
        return value

    def _log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
        value, _ = self.evaluate([array.double() for array in scores], lengths, options, parts=[False for _ in scores])
        assert value is not None  # it was requested
        return value

    def _call_entropy(
        self, scores: Scores, lengths: Tensor, values: Tensors, results: Tensors, options: Sequence[int]
    ) -> bool | None:
        """Whether the compiled program has an answer for every sentence; None if there is no such program."""
        sizes = self.sizes(scores, options)
        program = self._find("entropy", scores, sizes, pointers=len(scores) + 3)
        return None if program is None else program(scores, lengths, values, results, sizes)

    def _entropy(
        self, scores: Scores, lengths: Tensor, values: Sequence[Tensor] | None, options: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The same from marginals, with special care for small entropies."""
        exact = [array.double() for array in scores]
        log_partition, marginals = self.evaluate(exact, lengths, options)
        assert log_partition is not None  # it was requested
        parts, each = [array for array in marginals if array is not None], self.each(exact)
        axes = [(array.dim() - 1, rows) for array, rows in zip(each, self.row_axes(scores), strict=True)]
        entropy = gap(parts, log_partition, each, axes)
        if parts[0].numel():
            # Probabilities near one are rounded, but in most families the improbable parts determine the structure.
            rare = torch.where(parts[0] > 0.5, 1 - parts[0] if self.has_optional_parts else 0, parts[0])
            terms = torch.special.entr(rare) - (1 - rare) * (-rare).log1p()
            last = _last_axes(axes[0][0])
            entropy = entropy.clamp(terms.amax(last), terms.sum(last))
        entropy = entropy.masked_fill(log_partition == -torch.inf, 0)
        if values is None:
            return log_partition, entropy, None
        gap_to_values = gap(parts, log_partition, [array.double() for array in values], axes)
        return log_partition, entropy, gap_to_values.masked_fill(log_partition == -torch.inf, 0)

    def argmax(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
        """Parts of a best structure, all zero if nothing is allowed."""
        sizes = self.sizes(scores, options)
        program = self._find("argmax", scores, sizes, pointers=1)
        parts = empty_like(scores[0])
        if program is None or not program(scores, lengths, [], [parts], sizes):
            return self.topk(scores, lengths, options, 1)[1][0]
        return parts

    def topk(self, scores: Scores, lengths: Tensor, options: Sequence[int], k: int) -> tuple[Tensor, Tensor]:
        """Scores ``(k, batch)`` and parts ``(k, batch, ...)`` of the best structures; ``-inf`` and zero if too few."""
        sizes, first = (*self.sizes(scores, options), k), scores[0]
        program = self._find("topk", scores, sizes, pointers=2)
        if program is None:
            prepared, constant = self._prepare(scores, lengths, sizes[:-1])
            values, selected = self.selector(sizes[:-1]).best(prepared, lengths, count=k)
            return (values + constant).to(first.dtype), self._parts_of_first(selected, first)
        values, parts = first.new_empty(k, len(first)), first.new_empty(k, *first.shape)
        program(scores, lengths, [], [values, parts], sizes)
        return values, parts

    def sample(self, scores: Scores, lengths: Tensor, streams: Tensor, options: Sequence[int], count: int) -> Tensor:
        """Parts ``(count, batch, ...)`` of samples, from a random stream for each sentence; zero if none is allowed."""
        sizes, first = (*self.sizes(scores, options), count), scores[0]
        program = self._find("sample", scores, sizes, pointers=2)
        if program is None:
            return self._draw(scores, lengths, streams, sizes)
        parts = first.new_empty(count, *first.shape)
        if count and not program(scores, lengths, [streams], [parts], sizes):
            failed = failed_rows(parts[0])
            parts[:, failed] = self._draw(self._rows(scores, failed), lengths[failed], streams[failed], sizes)
        return parts

    def _find(self, quantity: str, scores: Scores, sizes: Sizes, *, pointers: int) -> programs.Program | None:
        """The compiled program for scores like these, if there is one, that takes some vectors and results."""
        name, first = f"{self.name}_{quantity}", scores[0]
        on_device = programs.find_on_device(name, first)
        if on_device is not None:
            return on_device
        compiled = programs.find_compiled(name, first, pointers=len(scores) + 1 + pointers, numbers=1 + len(sizes))
        return None if compiled is None else partial(programs.call, compiled)

    def _draw(self, scores: Scores, lengths: Tensor, streams: Tensor, sizes: Sizes) -> Tensor:
        prepared, _ = self._prepare(scores, lengths, sizes[:-1])
        selected = self.selector(sizes[:-1]).draw(prepared, lengths, streams, count=sizes[-1])
        return self._parts_of_first(selected, scores[0])

    def _run(self, scores: Scores, lengths: Tensor, sizes: Sizes, *directions: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The plain-torch program: log-partition, and the marginals or their derivative along all directions."""
        each = self.each(scores)
        prepared, constant = self._prepare(scores, lengths, sizes)
        # Derivatives are linear in each direction; sums of large ones may be beyond a double.
        units = [_power_near(direction) for direction in directions]
        scaled = [direction / unit for direction, unit in zip(directions, units, strict=True)]
        log_partition, parts = self.program(make_dual(prepared, *scaled), lengths, sizes)
        dtype, part = scores[0].dtype, math.prod(units, start=parts[-1])
        results = [
            piece.to(dtype, memory_format=torch.contiguous_format, copy=True) for piece in self._split(part, each)
        ]
        return (log_partition[0] + constant).to(dtype), results

    def centre(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> list[Tensor]:
        """The arrays of each sentence in float64, less what all its structures share; ``-inf`` on padding."""
        prepared, _ = self._prepare(scores, lengths, self.sizes(scores, options))
        return self._split(prepared, self.each(scores))

    def _split(self, values: Tensor, each: Scores) -> list[Tensor]:
        """Values ``(batch, part)`` of all arrays as one tensor for each array."""
        pieces = values.split([math.prod(array.shape[1:]) for array in each], -1)
        return [piece.reshape(array.shape) for piece, array in zip(pieces, each, strict=True)]

    def _prepare(self, scores: Scores, lengths: Tensor, sizes: Sizes) -> tuple[Tensor, Tensor]:
        each = self.each(scores)
        return self.prepare(flatten(each, each), lengths, sizes)

    def _parts_of_first(self, parts: Tensor, first: Tensor) -> Tensor:
        """Of parts ``(count, batch, part)`` of all arrays, those of the first, in the shape and dtype of its scores."""
        parts = parts[..., : math.prod(first.shape[1:])].to(first.dtype, memory_format=torch.contiguous_format)
        return parts.view(len(parts), *first.shape)

    def _rows(self, scores: Scores, rows: Tensor) -> list[Tensor]:
        return [array if shared else array[rows] for array, shared in zip(scores, self.is_shared(scores), strict=True)]


def _power_near(vectors: Tensor) -> Tensor:
    """For each row, a power of two near its largest number."""
    size = vectors.abs().amax(1, keepdim=True) if vectors.shape[1] else vectors.new_zeros(len(vectors), 1)
    return torch.ldexp(torch.ones_like(size), size.frexp().exponent.clamp(-1000, 1000))


def gap(parts: Sequence[Tensor], log_partition: Tensor, values: Sequence[Tensor], axes: Axes) -> Tensor:
    """``A - <mu, values>``, with the values of the probable parts subtracted from both; differentiable.

    Values are not read where the probability (or the part of a structure) is zero.
    """
    difference, expected = log_partition, None
    for used, array, (part_axes, row_axes) in zip(parts, values, axes, strict=True):
        constant = used.detach()
        read = torch.where(constant > 0, array, 0)
        if row_axes:
            probable = torch.where(constant > 0.5, read.detach(), 0).sum(_last_axes(row_axes), keepdim=True)
            # A value that is infinite, because another distribution forbids the part, is not subtracted.
            probable = probable.masked_fill(probable.isinf(), 0)
            read = read - probable
            difference = difference - probable.sum(_last_axes(part_axes))
        product = torch.where(constant > 0, used * read, 0).sum(_last_axes(part_axes))
        expected = product if expected is None else expected + product
    return difference if expected is None else difference - expected


def _last_axes(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))
