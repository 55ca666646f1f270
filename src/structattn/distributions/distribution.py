"""The interface of every structured distribution: probabilities, entropies, best and random structures.

A family adds its kernel and the conversion between parts and structures.

Reference: Kim et al. (2017), Structured attention networks, section 3; Wainwright and Jordan (2008), section 3
(exponential families: marginals are the gradient of the log-partition).
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Generator, Tensor
from torch.distributions import Distribution, register_kl

from structattn.distributions.checks import (
    checked_broadcast,
    checked_count,
    checked_generator,
    checked_sample_shape,
    is_below_infinity,
    refuse_undefined_scores,
    values_matter,
)
from structattn.distributions.values import Structures, parts_of, refuse_other_structures
from structattn.kernels.gap import Axes, gap
from structattn.kernels.operators import Operators
from structattn.kernels.random import streams


class StructuredDistribution(Distribution, ABC):
    r"""``p(z) = exp(sum_parts z_part score_part - A)`` over the structures ``z`` of a family.

    A structure is a 0/1 tensor of *parts*, shaped like the scores; the mean (the marginals) lies between 0 and 1.
    Everything is computed in float64, whatever the dtype of the scores, and returned in their dtype. A score of
    ``-inf`` forbids a part. If nothing is allowed, the log-partition is ``-inf``, and marginals, samples and the best
    structure are zero.

    Args:
        arrays: scores of each kind of part, by name, with the batch axes in front unless the batch shares them; the
            first one is shaped like the parts of a structure.
        lengths: number of words of each sentence.
        axes: of each array, see `kernels.gap.Axes`.
        options: of the kernel.
        validate_args: whether to check values: of scores and lengths here, of structures later. None checks on the CPU
            only, where nothing has to wait for the values; True also checks on an accelerator. Values are never checked
            within ``torch.compile``, ``torch.export`` and the transforms of ``torch.func``.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    _operators: ClassVar[Operators]
    #: What `to_structure` returns, for messages.
    structures: ClassVar[str]

    def __init__(
        self,
        arrays: dict[str, Float[Tensor, "..."]],
        *,
        lengths: Int[Tensor, "*batch"],
        axes: Axes,
        options: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._names, scores = tuple(arrays), tuple(arrays.values())
        self._arrays = scores if torch.is_grad_enabled() else tuple(array.detach() for array in scores)
        self.lengths = lengths
        self._axes, self._options = tuple(axes), tuple(options)
        shape, first = scores[0].shape, len(scores[0].shape) - axes[0][0]
        super().__init__(shape[:first], shape[first:], validate_args=False)
        if validate_args is None and not Distribution._validate_args:
            validate_args = False  # Distribution.set_default_validate_args
        self._checks_values = validate_args
        if values_matter(validate_args, scores[0]) and not all(map(is_below_infinity, scores)):
            for array, real in zip(scores, self._real_parts(), strict=True):
                refuse_undefined_scores(type(self).__name__, array.detach(), real)

    @abstractmethod
    def _real_parts(self) -> list[Bool[Tensor, "..."]]:
        """For each array, False where a score is padding or belongs to no part; it is not read."""

    @abstractmethod
    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether integers of this shape can be structures."""

    @abstractmethod
    def _why_none(self, parts: Tensor, length: int) -> str:
        """Why 0/1 parts are not a structure of this family for a sentence of this length."""

    @abstractmethod
    def to_structure(self, parts: Tensor) -> Tensor:
        """The structure (tags, heads, spans) with these parts; ``-1`` everywhere if there are none."""

    @abstractmethod
    def from_structure(self, structure: Tensor) -> Tensor:
        """The parts (0 or 1) of a structure; none if it is ``-1`` everywhere."""

    @property
    def scores(self) -> Float[Tensor, "..."]:
        """The scores as they were given, shaped like the parts of a structure."""
        return self._arrays[0]

    def log_partition(self) -> Float[Tensor, "*batch"]:
        """``A = log sum_z exp(score(z))``; ``-inf`` if nothing is allowed."""
        return self._per_item(self._operators.log_partition(self._batched(), self._batched_lengths(), self._options))

    def marginals(self) -> Float[Tensor, "..."]:
        """``mu = E[z]``, the probability of every part: the gradient of the log-partition; zero on padding."""
        return self._shaped(self._operators.marginals(self._batched(), self._batched_lengths(), self._options))

    @property
    def mean(self) -> Float[Tensor, "..."]:
        """The same as `marginals`."""
        return self.marginals()

    @property
    def variance(self) -> Float[Tensor, "..."]:
        """Variance of every part, ``mu (1 - mu)``."""
        mean = self.marginals()
        return mean * (1 - mean)

    @property
    def mode(self) -> Float[Tensor, "..."]:
        """The same as `argmax`."""
        return self.argmax()

    @property
    def support(self) -> Structures:
        """All structures of the family for these lengths, as 0/1 parts."""
        return Structures(self)

    def argmax(self) -> Float[Tensor, "..."]:
        """Parts of a best structure; for ties, see `kernels.selection` and `kernels.arborescence`."""
        return self._shaped(self._operators.argmax(self._batched(), self._batched_lengths(), self._options))

    def topk(self, k: int) -> Float[Tensor, "{k} ..."]:
        """Parts of the ``k`` best structures, the best first; zero where there are fewer structures."""
        count = checked_count(k)
        return self._shaped(self._best(count)[1], count)

    def topk_scores(self, k: int) -> Float[Tensor, "{k} *batch"]:
        """Scores of the ``k`` best structures; ``-inf`` where there are fewer structures.

        They have no gradient; in a loss use ``log_prob(topk(k)) + log_partition()``, which has the same value and a
        gradient.
        """
        count = checked_count(k)
        return self._per_item(self._best(count)[0], count)

    def sample(
        self, sample_shape: torch.Size | Sequence[int] | int = (), generator: Generator | None = None
    ) -> Float[Tensor, "..."]:
        """Independent exact samples, as parts of shape ``sample_shape + batch_shape + event_shape``.

        The samples of a sentence depend on the state of the generator and on the position of the sentence in the batch,
        not on the other sentences, padding, the number of threads, or the device of the scores.

        Args:
            sample_shape: how many, as in ``torch.distributions``; a number ``n`` is ``(n,)``.
            generator: source of randomness; torch's default generator if not given.

        Raises:
            ValueError: if ``sample_shape`` is not a shape, or ``generator`` is not a ``torch.Generator``.
        """
        shape = checked_sample_shape(sample_shape)
        lengths = self._batched_lengths()
        own = streams(len(lengths), generator=checked_generator(generator), device=lengths.device)
        parts = self._operators.sample(self._batched(), lengths, own, self._options, shape.numel())
        return self._shaped(parts, *shape)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """``H = -sum_z p(z) log p(z) = A - <mu, scores>``; zero if nothing is allowed."""
        return self._per_item(self._operators.entropy(self._batched(), self._batched_lengths(), self._options)[1])

    def cross_entropy(self, other: "StructuredDistribution") -> Float[Tensor, "*batch"]:
        """``-sum_z p(z) log q(z)`` for another distribution ``q`` over the same parts; ``inf`` where ``q`` forbids what
        ``p`` allows.

        Raises:
            ValueError: if the other has a different family, shape or options, or sentences of different lengths.
        """
        mine, theirs = self._comparable(other)
        log_partition, _, gap_to_theirs, other_log_partition = mine._beside(theirs)
        found = other_log_partition + (gap_to_theirs - log_partition)
        return mine._per_item(_between(found, log_partition, other_log_partition))

    def log_prob(self, value: Shaped[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``score(z) - A`` of structures; ``-inf`` if they use a forbidden part.

        Floating-point numbers and ``bool`` are 0/1 parts ``(*sample, *batch, *event)``; integers are a structure as
        `to_structure` returns it. Integers whose shape only fits parts are parts; integers whose shape fits both are
        refused.

        Raises:
            ValueError: if the shape is wrong or, with ``validate_args``, an item is not a structure of this family.
        """
        parts = parts_of(self, value)
        if values_matter(self._checks_values, parts):
            refuse_other_structures(self, parts)
        log_partition = self._operators.exact_log_partition(self._batched(), self._batched_lengths(), self._options)
        log_partition = log_partition.reshape(self._batch_shape)
        scores = [
            array.double().masked_fill(~real, -torch.inf)
            for array, real in zip(self._arrays, self._real_parts(), strict=True)
        ]
        surprisal = gap(self._parts_of_arrays(parts), log_partition, scores, self._axes)
        surprisal = surprisal.masked_fill(log_partition == -torch.inf, torch.inf)
        return -_at_least_zero(surprisal).to(self.scores.dtype)

    def log_count(self) -> Float[Tensor, "*batch"]:
        """Logarithm of the number of structures that are allowed."""
        return self._per_item(self._log_count())

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> "StructuredDistribution":
        """The same distribution for a larger batch, without copying the scores.

        Args:
            batch_shape: the new batch shape; the old one must broadcast to it.

        Raises:
            ValueError: if it does not.
        """
        try:
            shape = torch.Size(batch_shape)
            fits = torch.broadcast_shapes(self._batch_shape, shape) == shape
        except (RuntimeError, TypeError):
            fits = False
        if not fits:
            raise ValueError(
                f"{type(self).__name__} with batch shape {tuple(self._batch_shape)} cannot be expanded to "
                f"{batch_shape!r}: expected a shape that the batch shape broadcasts to"
            )
        return self._with(lambda tensor, axes: tensor.expand(shape + tensor.shape[tensor.dim() - axes :]))

    def __getitem__(self, index: Any) -> "StructuredDistribution":
        """The distribution of some sentences, ``d[0]`` or ``d[1:3]``; an index selects along batch axes only."""
        index = index if isinstance(index, tuple) else (index,)
        try:
            self.lengths[index]
        except (IndexError, TypeError) as error:
            raise IndexError(
                f"{type(self).__name__} with batch shape {tuple(self._batch_shape)}, index {index}: {error}"
            ) from None
        return self._with(lambda tensor, axes: tensor[(*index, *(slice(None) for _ in range(axes)))])

    def __repr__(self) -> str:
        shapes = zip(self._names, (array.shape for array in self._arrays), strict=True)
        shown: dict[str, Any] = {**dict(shapes), "lengths": self.lengths.shape, **self._shown_options()}
        return f"{type(self).__name__}({', '.join(f'{name}: {value}' for name, value in shown.items())})"

    def _shown_options(self) -> dict[str, Any]:
        return {}

    def _parts_of_arrays(self, parts: Tensor) -> list[Tensor]:
        """Parts for each array of scores, from those that are shaped like the first."""
        return [parts]

    def _marginals_of_parts(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Log-partition and marginals where only the first array has scores."""
        value, parts = self._operators.evaluate([scores], lengths, self._options)
        return value, parts[0]

    def _is_shared(self) -> list[bool]:
        """Which arrays all sentences of a batch share."""
        return [False for _ in self._arrays]

    def _with(self, change: Callable[[Tensor, int], Tensor]) -> "StructuredDistribution":
        """A copy whose scores and lengths have other batch axes: ``change(tensor, number of axes that stay)``."""
        new = copy.copy(self)
        new._arrays = tuple(
            array if shared else change(array, axes)
            for array, shared, (axes, _) in zip(self._arrays, self._is_shared(), self._axes, strict=True)
        )
        new.lengths = change(self.lengths, 0)
        new._batch_shape = new.lengths.shape
        return new

    def _batched(self, dtype: torch.dtype | None = None) -> list[Tensor]:
        """The arrays with one batch axis; in single or double precision, which the kernels read."""
        found = []
        for array, shared in zip(self._arrays, self._is_shared(), strict=True):
            own = array if shared else self._one_batch_axis(array)
            wanted = dtype or (own.dtype if own.dtype in (torch.float32, torch.float64) else torch.float32)
            found.append(own if own.dtype == wanted else own.to(wanted))
        return found

    def _batched_lengths(self) -> Tensor:
        return self._one_batch_axis(self.lengths)

    def _one_batch_axis(self, tensor: Tensor) -> Tensor:
        # A view costs as much as computing a short sentence, so none is made if there already is one batch axis.
        if len(self._batch_shape) == 1:
            return tensor
        # Flattened, not reshaped: in a graph the size of the batch then stays dynamic.
        return tensor.flatten(0, len(self._batch_shape) - 1) if self._batch_shape else tensor.unsqueeze(0)

    def _per_item(self, values: Tensor, *sample_shape: int) -> Tensor:
        if sample_shape or len(self._batch_shape) != 1:
            values = values.reshape((*sample_shape, *self._batch_shape))
        dtype = self._arrays[0].dtype
        return values if values.dtype == dtype else values.to(dtype)

    def _shaped(self, parts: Tensor, *sample_shape: int) -> Tensor:
        shape, dtype = torch.Size(sample_shape) + self._batch_shape + self._event_shape, self._arrays[0].dtype
        parts = parts if parts.shape == shape else parts.reshape(shape)
        return parts if parts.dtype == dtype else parts.to(dtype)

    def _beside(self, other: "StructuredDistribution") -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``A_p``, the entropy, ``A_p - <mu_p, scores_q>`` and ``A_q`` for another distribution ``q``, in float64."""
        lengths, options, operators = self._batched_lengths(), self._options, self._operators
        mine, theirs = self._batched(), other._batched()
        dtype = torch.promote_types(mine[0].dtype, theirs[0].dtype)
        if mine[0].dtype != theirs[0].dtype:
            mine, theirs = self._batched(dtype), other._batched(dtype)
        values = operators.family.each(theirs)
        log_partition, entropy, gap_to_theirs = operators.entropy(mine, lengths, options, values)
        assert gap_to_theirs is not None  # values were given
        return log_partition, entropy, gap_to_theirs, operators.exact_log_partition(theirs, lengths, options)

    def _log_count(self) -> Tensor:
        with torch.no_grad():
            allowed = [torch.zeros_like(own).masked_fill(own == -torch.inf, -torch.inf) for own in self._batched()]
            allowed = [own.double() for own in allowed]
            return self._operators.log_partition(allowed, self._batched_lengths(), self._options)

    def _best(self, k: int) -> tuple[Tensor, Tensor]:
        return self._operators.topk(self._batched(), self._batched_lengths(), self._options, k)

    def _comparable(self, other: "StructuredDistribution") -> tuple["StructuredDistribution", "StructuredDistribution"]:
        """Both distributions, over the same arrays of parts."""
        if type(other) is not type(self) or other.event_shape != self.event_shape:
            parts = f" with parts {tuple(other.event_shape)}" if isinstance(other, Distribution) else ""
            raise ValueError(
                f"{type(self).__name__} with parts {tuple(self.event_shape)} cannot be compared with "
                f"{type(other).__name__}{parts}: expected the same family and shape"
            )
        if other._options != self._options:
            raise ValueError(f"{self!r} cannot be compared with {other!r}: expected the same options")
        mine, theirs = self, other
        if self._batch_shape != other._batch_shape:
            shape = checked_broadcast(
                self._batch_shape,
                other._batch_shape,
                lambda: f"{self!r} cannot be compared with {other!r}: expected batch shapes that broadcast",
            )
            mine, theirs = self.expand(shape), other.expand(shape)
        if values_matter(None, self.lengths) and not torch.equal(mine.lengths, theirs.lengths):
            place = tuple((mine.lengths != theirs.lengths).nonzero()[0].tolist())
            item = f"item {place[0] if len(place) == 1 else place}" if place else "the sentence"
            raise ValueError(
                f"{type(self).__name__}: sentences of different lengths cannot be compared: {item} has "
                f"{int(mine.lengths[place])} and {int(theirs.lengths[place])} words"
            )
        return mine, theirs


@register_kl(StructuredDistribution, StructuredDistribution)  # type: ignore[untyped-decorator]
def _kl_divergence(p: StructuredDistribution, q: StructuredDistribution) -> Tensor:
    """``KL(p || q) = sum_z p(z) (log p(z) - log q(z))``; ``inf`` where ``q`` forbids what ``p`` allows."""
    p, q = p._comparable(q)
    log_partition, entropy, gap_to_q, other_log_partition = p._beside(q)
    divergence = _at_least_zero((other_log_partition - log_partition) + (gap_to_q - entropy))
    return p._per_item(_between(divergence, log_partition, other_log_partition))


def _between(found: Tensor, log_partition: Tensor, other_log_partition: Tensor) -> Tensor:
    """Infinite where the other distribution is empty, and zero where the first one is."""
    found = found.masked_fill(other_log_partition == -torch.inf, torch.inf)
    return found.masked_fill(log_partition == -torch.inf, 0)


def _at_least_zero(found: Tensor) -> Tensor:
    """Clamp values that rounding has left below zero, but keep their derivatives."""
    if not found.requires_grad:
        return found.clamp(min=0)
    value, finite = found.detach().clamp(min=0), found.masked_fill(found.detach().isinf(), 0)
    return value + (finite - finite.detach())
