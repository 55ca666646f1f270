"""What is written once for every structured distribution: probabilities, entropies, the best and random structures.

Separate because a family adds only its dynamic program and the translation between parts and structures.

Reference: Kim et al. (2017), Structured attention networks, section 3; Wainwright and Jordan (2008), section 3
(exponential families: marginals are the gradient of the log-partition).
"""

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Num
from torch import Generator, Tensor
from torch.distributions import Distribution, register_kl

from structattn.distributions.flat_parts import (
    as_type,
    at_least_single,
    cross_entropy,
    finite,
    is_below_infinity,
    refuse_other_structures,
    refuse_undefined_scores,
)
from structattn.kernels.operators import Operators


@runtime_checkable
class Selector(Protocol):
    """How a family finds its best structures and draws random ones; scores are ``(batch, part)``, float64."""

    def best(self, scores: Tensor, lengths: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
        """The best ``count`` structures: scores ``(count, batch)``, parts ``(count, batch, part)`` as ``bool``."""
        ...

    def draw(self, scores: Tensor, lengths: Tensor, *, count: int, generator: Generator | None) -> Tensor:
        """``count`` independent structures: parts ``(count, batch, part)`` as ``bool``."""
        ...


class StructuredDistribution(Distribution, ABC):
    r"""``p(z) = exp(sum_parts z_part score_part - A)`` over the structures ``z`` of a family.

    A structure is a 0/1 tensor of *parts*, shaped like the scores; the mean, the marginals, lies between. Everything is
    computed in float64, whatever the type of the scores, and returned in their type. A score of ``-inf`` forbids a
    part. If nothing is allowed, the log-partition is ``-inf``, and marginals, samples and the best structure are zero.

    Args:
        scores: what the scores of the parts are made of, each with the batch axes in front unless it is shared; the
            first one as the parts of a structure are.
        lengths: number of words of each sentence.
        event_shape: shape of the parts of one structure.
        validate_args: check scores and arguments; None takes the default of ``torch.distributions``.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        *scores: Float[Tensor, "..."],
        lengths: Int[Tensor, "*batch"],
        event_shape: torch.Size,
        validate_args: bool | None = True,
    ) -> None:
        # Scores are packed and masked at each use: nothing of the graph that leads to them is shared by two calls.
        self._given = scores if torch.is_grad_enabled() else tuple(tensor.detach() for tensor in scores)
        self.lengths = lengths
        shape = scores[0].shape
        super().__init__(shape[: len(shape) - len(event_shape)], event_shape, validate_args=validate_args)
        if self._validate_args and not torch.compiler.is_compiling() and not all(map(is_below_infinity, scores)):
            refuse_undefined_scores(type(self).__name__, self._scores.detach(), self._real_parts())

    @property
    def _scores(self) -> Tensor:
        """Score of every part, flat: ``(*batch, part)``."""
        return self._given[0].flatten(len(self._batch_shape))

    @property
    @abstractmethod
    def _operators(self) -> Operators:
        """The kernel of the family."""

    @abstractmethod
    def _sizes(self) -> list[int]:
        """What else than scores and lengths the kernel has to know."""

    @abstractmethod
    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """Entropy ``(batch,)`` of flat scores."""

    @abstractmethod
    def _selector(self) -> Selector:
        """What finds the best structures and draws random ones."""

    @abstractmethod
    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """What may be subtracted from the scores ``(batch, part)`` and the sum of it, the same in every structure.

        It keeps huge scores from swallowing small differences. Zero is always right.
        """

    @abstractmethod
    def _real_parts(self) -> Tensor:
        """False where a flat part is padding or no part at all; its score is not read."""

    @abstractmethod
    def to_structure(self, parts: Tensor) -> Tensor:
        """The structure (tags, heads, spans) whose parts these are."""

    @abstractmethod
    def from_structure(self, structure: Tensor) -> Tensor:
        """The parts (0 or 1) of a structure."""

    def log_partition(self) -> Float[Tensor, "*batch"]:
        """``A = log sum_z exp(score(z))``; ``-inf`` if nothing is allowed."""
        return self._per_item(self._operators.log_partition(self._raw_scores(), self._flat_lengths(), self._sizes()))

    def marginals(self) -> Float[Tensor, "..."]:
        """``mu = E[z]``, the probability of every part: the gradient of the log-partition; zero on padding."""
        return self._to_parts(self._operators.parts(self._raw_scores(), self._flat_lengths(), self._sizes()))

    @property
    def mean(self) -> Tensor:
        """The same as `marginals`."""
        return self.marginals()

    @property
    def mode(self) -> Tensor:
        """The same as `argmax`."""
        return self.argmax()

    def argmax(self) -> Float[Tensor, "..."]:
        """Parts of a best structure; which of several equal ones, see `ChartSelector` and `SpanningTreeSelector`."""
        parts = self._operators.argmax(self._raw_scores().detach(), self._flat_lengths(), self._sizes())
        return self.topk(1)[0] if parts is None else self._to_parts(parts)

    def topk(self, k: int) -> Float[Tensor, "{k} ..."]:
        """Parts of the ``k`` best structures, the best first; zero where there are fewer structures."""
        return self._best(k)[1]

    def topk_scores(self, k: int) -> Float[Tensor, "{k} *batch"]:
        """Scores of the ``k`` best structures; ``-inf`` where there are fewer structures."""
        return self._best(k)[0]

    def sample(
        self, sample_shape: torch.Size | list[int] | tuple[int, ...] = (), generator: Generator | None = None
    ) -> Float[Tensor, "..."]:
        """Independent exact samples, as parts of shape ``sample_shape + batch_shape + event_shape``.

        Args:
            sample_shape: how many, as in ``torch.distributions``.
            generator: source of randomness; torch's own if not given.
        """
        shape = torch.Size(sample_shape)
        with torch.no_grad():
            scores, _ = self._shifted()
            parts = self._selector().draw(scores, self._flat_lengths(), count=shape.numel(), generator=generator)
        return self._to_parts(parts, *shape)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """``H = -sum_z p(z) log p(z)``; zero if nothing is allowed."""
        scores, _ = self._shifted()
        return self._per_item(self._entropy(scores, self._flat_lengths()))

    def cross_entropy(self, other: "StructuredDistribution") -> Float[Tensor, "*batch"]:
        """``-sum_z p(z) log q(z)`` for another distribution ``q`` over the same parts; ``inf`` where ``q`` forbids what
        ``p`` has.

        Raises:
            ValueError: if the other has another family or shape.
        """
        mine, theirs = self._comparable(other)
        _, log_partition, parts, _ = mine._evaluate()
        scores, other_log_partition, _, _ = theirs._evaluate()
        return self._per_item(cross_entropy(log_partition, parts, scores, other_log_partition))

    def log_prob(self, value: Num[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``score(z) - A`` of parts ``(*sample, *batch, *event)``; ``-inf`` if they use a forbidden part.

        Raises:
            ValueError: if the parts have a wrong shape or, with ``validate_args``, are no structure of this family.
        """
        event = tuple(self.event_shape)
        if value.shape[value.dim() - len(event) :] != event:
            raise ValueError(f"log_prob: parts of shape {tuple(value.shape)}: expected {event} at the end")
        parts = self._from_parts(value.double())
        if self._validate_args and not torch.compiler.is_compiling():
            self._refuse_parts_of_no_structure(parts)
        scores, log_partition, _, _ = self._evaluate()
        scores = scores.view(*self.batch_shape, scores.shape[-1])
        log_partition = log_partition.view(self.batch_shape)
        log_prob = (parts * finite(scores)).sum(-1) - log_partition
        impossible = ((parts > 0) & (scores == -torch.inf)).any(-1) | (log_partition == -torch.inf)
        return log_prob.masked_fill(impossible, -torch.inf).to(self._given[0].dtype)

    def log_count(self) -> Float[Tensor, "*batch"]:
        """Logarithm of the number of structures that are allowed."""
        with torch.no_grad():
            scores = self._flat_scores()
            allowed = torch.zeros_like(scores).masked_fill(scores == -torch.inf, -torch.inf)
            count = self._operators.log_partition(allowed, self._flat_lengths(), self._sizes())
        return self._per_item(count)

    def expand(
        self, batch_shape: torch.Size | list[int] | tuple[int, ...], _instance: Any = None
    ) -> "StructuredDistribution":
        """The same distribution for a larger batch, without copying the scores.

        Args:
            batch_shape: the new batch shape; the old one must broadcast to it.
        """
        shape = torch.Size(batch_shape)
        new = copy.copy(self)
        new._given = self._given_for(shape)
        new.lengths = self.lengths.expand(shape)
        new._batch_shape = shape
        return new

    def _given_for(self, shape: torch.Size) -> tuple[Tensor, ...]:
        """What the scores are made of, for a larger batch."""
        return tuple(tensor.expand(*shape, *self._event_shape) for tensor in self._given)

    def _best(self, count: int) -> tuple[Tensor, Tensor]:
        if count < 1:
            raise ValueError(f"topk of {count}: expected at least 1")
        with torch.no_grad():
            scores, total = self._shifted()
            values, parts = self._selector().best(scores, self._flat_lengths(), count=count)
        return self._per_item(values + total, count), self._to_parts(parts, count)

    def _evaluate(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Shifted scores, their log-partition, the marginals, and what the shift took from the log-partition."""
        scores, total = self._shifted()
        log_partition, parts = self._operators.marginals(scores, self._flat_lengths(), self._sizes())
        return scores, log_partition, parts, total

    def _shifted(self) -> tuple[Tensor, Tensor]:
        scores = self._flat_scores()
        shift, total = self._shift(scores.detach())
        return scores - shift, total

    def _flat_scores(self) -> Tensor:
        return self._one_batch_axis(self._scores.double().masked_fill(~self._real_parts(), -torch.inf), 1)

    def _raw_scores(self) -> Tensor:
        """Scores as they came, ``(batch, *event)``, for kernels that do not read padding; float32 at least."""
        return self._one_batch_axis(at_least_single(self._given[0]), len(self._event_shape))

    def _flat_lengths(self) -> Tensor:
        return self._one_batch_axis(self.lengths, 0)

    def _one_batch_axis(self, tensor: Tensor, part_axes: int) -> Tensor:
        # A view costs as much as a short sentence: none is made where there is one batch axis already.
        if len(self._batch_shape) == 1:
            return tensor
        return tensor.reshape(self._batch_shape.numel(), *tensor.shape[tensor.dim() - part_axes :])

    def _per_item(self, values: Tensor, *sample_shape: int) -> Tensor:
        if sample_shape or len(self._batch_shape) != 1:
            values = values.reshape((*sample_shape, *self._batch_shape))
        return as_type(values, self._given[0].dtype)

    def _to_parts(self, flat: Tensor, *sample_shape: int) -> Tensor:
        """Parts from flat parts; a family that keeps more parts than it shows drops the others here."""
        shape = torch.Size(sample_shape) + self._batch_shape + self._event_shape
        # Not even a view of what a kernel has written in the right shape.
        return as_type(flat if flat.shape == shape else flat.reshape(shape), self._given[0].dtype)

    def _from_parts(self, parts: Tensor) -> Tensor:
        """Flat parts ``(*sample, *batch, part)`` from parts."""
        return parts.flatten(parts.dim() - len(self.event_shape))

    def _comparable(self, other: "StructuredDistribution") -> tuple["StructuredDistribution", "StructuredDistribution"]:
        """Both distributions, over the same flat parts."""
        if type(other) is not type(self) or other.event_shape != self.event_shape:
            raise ValueError(
                f"{type(self).__name__} with parts {tuple(self.event_shape)} cannot be compared with "
                f"{type(other).__name__} with parts {tuple(other.event_shape)}: expected the same family and shape"
            )
        shape = torch.broadcast_shapes(self.batch_shape, other.batch_shape)
        return self.expand(shape), other.expand(shape)

    def _refuse_parts_of_no_structure(self, parts: Tensor) -> None:
        with torch.no_grad():
            lengths = self.lengths.expand(parts.shape[:-1]).reshape(parts.shape[:-1].numel())
            parts = parts.reshape(parts.shape[:-1].numel(), parts.shape[-1])
            only = torch.zeros_like(parts).masked_fill(parts == 0, -torch.inf)
            log_count, used = self._operators.marginals(only, lengths, self._sizes())
        refuse_other_structures(type(self).__name__, parts, log_count=log_count, used=used)


@register_kl(StructuredDistribution, StructuredDistribution)  # type: ignore[untyped-decorator]
def _kl_divergence(p: StructuredDistribution, q: StructuredDistribution) -> Tensor:
    """``KL(p || q) = sum_z p(z) (log p(z) - log q(z))``; ``inf`` where ``q`` forbids what ``p`` has."""
    p, q = p._comparable(q)
    scores, log_partition, parts, _ = p._evaluate()
    other_scores, other_log_partition, _, _ = q._evaluate()
    negative_entropy = -cross_entropy(log_partition, parts, scores, log_partition)
    divergence = negative_entropy + cross_entropy(log_partition, parts, other_scores, other_log_partition)
    return p._per_item(divergence)
