"""The interface of every structured distribution: probabilities, entropies, best and random structures.

A family adds its kernel and the conversion between parts and structures.

Reference: Kim et al. (2017), Structured attention networks, section 3; Wainwright and Jordan (2008), section 3
(exponential families: marginals are the gradient of the log-partition).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Generator, Tensor
from torch.distributions import register_kl

from structattn.distributions.large_scores import LargeScores, are_large, at_least_zero
from structattn.distributions.score_arrays import ScoreArrays
from structattn.distributions.validation import (
    Structures,
    check_count,
    check_generator,
    check_sample_shape,
    convert_to_parts,
    should_check_values,
)
from structattn.kernels.family import Axes, gap
from structattn.kernels.operators import Operators
from structattn.kernels.random import make_streams

if TYPE_CHECKING:
    from structattn.kernels.labels import LabelledOperators


class StructuredDistribution(ScoreArrays, ABC):
    r"""``p(z) = exp(sum_parts z_part score_part - A)`` over the structures ``z`` of a family.

    A structure is a 0/1 tensor of *parts*, shaped like the scores; the mean (the marginals) lies between 0 and 1.
    Everything is computed in float64, whatever the dtype of the scores, and returned in their dtype. A score of
    ``-inf`` forbids a part. If nothing is allowed, the log-partition is ``-inf``, and marginals, samples and the best
    structure are zero.

    A subclass of a family may have options of its own, attributes without an underscore that are the same for the whole
    batch: they are shown, and distributions are compared only if theirs are equal. With `forbidden_parts` an option can
    forbid parts. Options are set before ``super().__init__`` is called.

    Args:
        arrays: scores of each kind of part, by name, with the batch axes in front unless the batch shares them; the
            first one is shaped like the parts of a structure.
        lengths: number of words of each sentence, as a tensor or as lists; all ``num_words`` if None.
        axes: for each array, how many of its last axes are those of the parts, and how many of these form a row in
            which each structure has exactly one part (0 if there are no such rows).
        num_words: the largest number of words; by default, as many as the first axis of the parts is long.
        kernel_options: numbers that the kernel takes.
        mask: True where a part is allowed, shaped like the parts, or broadcast against them; None allows all. The score
            of a part that is not allowed is not read and has no gradient, even if it is nan.
        validate_args: whether to check values: of scores and lengths here, of structures later. None checks on the CPU
            only, where nothing has to wait for the values; True also checks on an accelerator. Values are never checked
            within ``torch.compile``, ``torch.export`` and the transforms of ``torch.func``.

    Raises:
        ValueError: if a score that is read is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> trees = DependencyCRF(torch.zeros(2, 3), single_root=True)
        >>> round(trees.log_count().exp().item()), trees
        (2, DependencyCRF(scores: torch.Size([2, 3]), lengths: torch.Size([]), single_root: True))
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    _operators: "Operators | LabelledOperators"
    #: What `to_structure` returns, for messages.
    structures: ClassVar[str]

    def __init__(
        self,
        arrays: dict[str, Float[Tensor, "..."]],
        *,
        lengths: Tensor | Sequence[int] | int | None = None,
        axes: Axes,
        num_words: int | None = None,
        kernel_options: Sequence[int] = (),
        mask: Bool[Tensor, "..."] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(
            arrays,
            lengths,
            axes=axes,
            num_words=num_words,
            kernel_options=kernel_options,
            mask=mask,
            validate_args=validate_args,
        )

    @abstractmethod
    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether integers of this shape can be structures."""

    @abstractmethod
    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        """Why 0/1 parts are not a structure of this family for a sentence of this length."""

    @abstractmethod
    def to_structure(self, parts: Tensor) -> Tensor:
        """The structure (tags, heads, spans) with these parts; ``-1`` everywhere if there are none.

        Args:
            parts: 0/1 parts ``(*sample, *batch, *event)``.
        """

    @abstractmethod
    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ row"]:
        """The index of the part of each row of a structure, among the flattened parts; -1 for a row without one."""

    def from_structure(self, structure: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The parts (0 or 1) of a structure; none if it is ``-1`` everywhere. Words beyond the end are not read.

        Args:
            structure: integers, as `to_structure` returns them, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is no such tensor or, with ``validate_args``, a number is out of range.
        """
        return self._parts_at(self._find_parts(structure))

    def _parts_at(self, index: Int[Tensor, "*_ row"]) -> Float[Tensor, "..."]:
        """The parts with these indices; -1 is none."""
        parts = torch.zeros(*index.shape[:-1], self._event_shape.numel(), dtype=torch.float32, device=index.device)
        parts = parts.scatter_add(-1, index.clamp(min=0), (index >= 0).float())
        return parts.view(*index.shape[:-1], *self._event_shape).to(self.scores.dtype)

    @property
    def scores(self) -> Float[Tensor, "..."]:
        """The scores as they were passed, shaped like the parts of a structure; ``-inf`` where the mask is False."""
        return self._arrays[0]

    def log_partition(self) -> Float[Tensor, "*batch"]:
        """``A = log sum_z exp(score(z))``; ``-inf`` if nothing is allowed."""
        return self._per_item(self._operators.log_partition(*self._inputs()))

    def marginals(self) -> Float[Tensor, "..."]:
        """``mu = E[z]``, the probability of every part: the gradient of the log-partition; zero on padding."""
        return self._per_part(self._operators.marginals(*self._inputs()))

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
        return Structures(self, self._event_shape, self.lengths, self._evaluate_parts, self._describe)

    def argmax(self) -> Float[Tensor, "..."]:
        """Parts of a best structure; for ties, see `kernels.chart.ChartSelector` and `kernels.matrix_tree`."""
        return self._per_part(self._operators.argmax(*self._inputs()))

    def topk(self, k: int) -> Float[Tensor, "{k} ..."]:
        """Parts of the ``k`` best structures, the best first; zero where there are fewer structures.

        Args:
            k: how many, at least 1.

        Raises:
            ValueError: if ``k`` is not such a number.
        """
        count = check_count(k)
        return self._per_part(self._operators.topk(*self._inputs(), count)[1], count)

    def topk_scores(self, k: int) -> Float[Tensor, "{k} *batch"]:
        """Scores of the ``k`` best structures; ``-inf`` where there are fewer structures.

        They have no gradient; in a loss use ``log_prob(topk(k)) + log_partition()``, which has the same value and a
        gradient.

        Args:
            k: how many, at least 1.

        Raises:
            ValueError: if ``k`` is not such a number.
        """
        count = check_count(k)
        return self._per_item(self._operators.topk(*self._inputs(), count)[0], count)

    def sample(
        self, sample_shape: torch.Size | Sequence[int] | int = (), generator: Generator | None = None
    ) -> Float[Tensor, "..."]:
        """Independent exact samples, as parts of shape ``sample_shape + batch_shape + event_shape``.

        The samples of a sentence depend on the state of the generator and on the position of the sentence in the batch,
        not on the other sentences, padding, the number of threads, or the device of the scores.

        Args:
            sample_shape: how many, as in ``torch.distributions``; a number ``n`` is ``(n,)``.
            generator: source of randomness; torch's default generator if None.

        Raises:
            ValueError: if ``sample_shape`` is not a shape, or ``generator`` is not a ``torch.Generator``.
        """
        shape = check_sample_shape(sample_shape)
        scores, lengths, options = self._inputs()
        streams = make_streams(len(lengths), generator=check_generator(generator), device=lengths.device)
        return self._per_part(self._operators.sample(scores, lengths, streams, options, shape.numel()), *shape)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """``H = -sum_z p(z) log p(z) = A - <mu, scores>``; zero if nothing is allowed.

        Raises:
            ValueError: if scores that every structure needs are so large that the others are rounded away beside them;
                where values are not checked, the entropy is nan. `log_prob` and divergences do the same.
        """
        is_large = are_large(self._arrays, self._limits)
        inputs = self._centred_inputs(is_large)
        log_partition, entropy, _ = self._operators.entropy(*inputs)
        if is_large:
            guard = self._guard(log_partition, inputs[0])
            # A structure without a rival has no entropy, and that no gradient, whatever its score.
            is_certain = (entropy == 0) & log_partition.isfinite()
            entropy = guard.refuse(entropy.masked_fill(guard.lost & is_certain, 0), is_certain)
        return self._per_item(entropy)

    def cross_entropy(self, q: "StructuredDistribution") -> Float[Tensor, "*batch"]:
        """``-sum_z p(z) log q(z)`` for another distribution ``q`` over the same parts; ``inf`` where ``q`` forbids what
        ``p`` allows.

        Args:
            q: the other distribution.

        Raises:
            ValueError: if it has a different family, shape or options, or sentences of different lengths; if digits are
                lost, see `entropy`.
        """
        p, q = self._align(q)
        return p._compare(q)

    def log_prob(self, value: Shaped[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``score(z) - A`` of structures; ``-inf`` if they use a forbidden part.

        Args:
            value: floating-point numbers and ``bool`` are 0/1 parts ``(*sample, *batch, *event)``; integers are a
                structure as `to_structure` returns it. Integers whose shape only fits parts are parts; integers whose
                shape fits both are refused.

        Raises:
            ValueError: if the shape is wrong or, with ``validate_args``, an item is not a structure of this family; if
                digits are lost, see `entropy`.
        """
        parts = convert_to_parts(
            value,
            self._event_shape,
            self.lengths,
            structures=self.structures,
            is_structure_shape=self._is_structure_shape,
            from_structure=self.from_structure,
        )
        if should_check_values(self._checks_values, parts):
            self.support.refuse_invalid(parts, self._explain_invalid)
        is_large = are_large(self._arrays, self._limits)
        arrays, lengths, options = self._centred_inputs(is_large)
        log_partition = self._operators.exact_log_partition(arrays, lengths, options).reshape(self._batch_shape)
        scores = [
            (array if shared else array.reshape(self._batch_shape + array.shape[1:]))
            .double()
            .masked_fill(~readable, -torch.inf)
            for array, shared, readable in zip(
                arrays, self._operators.family.is_shared(arrays), self._readable_parts(), strict=True
            )
        ]
        surprisal = gap(self._parts_of_arrays(parts), log_partition, scores, self._axes)
        surprisal = surprisal.masked_fill(log_partition == -torch.inf, torch.inf)
        if is_large:
            guard = self._guard(log_partition, arrays)
            surprisal = guard.refuse(surprisal, guard.is_far(surprisal))
        return -at_least_zero(surprisal).to(self.scores.dtype)

    def log_count(self) -> Float[Tensor, "*batch"]:
        """Logarithm of the number of structures that are allowed."""
        scores, lengths, options = self._inputs()
        with torch.no_grad():
            allowed = [torch.zeros_like(array).masked_fill(array == -torch.inf, -torch.inf) for array in scores]
            count = self._operators.log_partition([array.double() for array in allowed], lengths, options)
        return self._per_item(count)

    def _describe(self, length: int) -> str:
        """What a sentence of this length has, for messages."""
        return f"{length} words"

    def _parts_of_arrays(self, parts: Tensor) -> list[Tensor]:
        """Parts for each array of scores, from those that are shaped like the first."""
        return [parts]

    def _evaluate_parts(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Log-partition and marginals where only the first array has scores."""
        value, parts = self._operators.evaluate([scores], lengths, self._kernel_options)
        return value, parts[0]

    def _centred_inputs(
        self, is_large: bool, dtype: torch.dtype | None = None
    ) -> tuple[list[Tensor], Tensor, tuple[int, ...]]:
        """What kernels read, less what all structures share if digits might be lost beside it."""
        arrays, lengths, options = self._inputs(dtype)
        return self._operators.family.centre(arrays, lengths, options) if is_large else arrays, lengths, options

    def _guard(self, log_partition: Tensor, centred: Sequence[Tensor]) -> LargeScores:
        return LargeScores(
            type(self).__name__, log_partition, centred, self.log_count, validate_args=self._checks_values
        )

    def _compare(self, q: Self, *, less_entropy: bool = False) -> Tensor:
        """The cross-entropy, or the divergence, of an aligned distribution; infinite or zero where one is empty."""
        is_large = are_large(self._arrays, self._limits) or are_large(q._arrays, q._limits)
        # In single or double precision, whichever the more precise of the two needs.
        dtype = torch.promote_types(torch.promote_types(self._arrays[0].dtype, q._arrays[0].dtype), torch.float32)
        p_scores, lengths, options = self._centred_inputs(is_large, dtype)
        q_scores, _, _ = q._centred_inputs(is_large, dtype)
        values = self._operators.family.each(q_scores)
        p_log_partition, entropy, gap_to_q = self._operators.entropy(p_scores, lengths, options, values)
        q_log_partition = self._operators.exact_log_partition(q_scores, lengths, options)
        assert gap_to_q is not None  # there are values
        if less_entropy:
            result = at_least_zero((q_log_partition - p_log_partition) + (gap_to_q - entropy))
        else:
            result = q_log_partition + (gap_to_q - p_log_partition)
        compared = ((self, p_log_partition, p_scores), (q, q_log_partition, q_scores)) if is_large else ()
        for distribution, log_partition, scores in compared:
            result = distribution._guard(log_partition, scores).refuse(result)
        result = result.masked_fill(q_log_partition == -torch.inf, torch.inf)
        return self._per_item(result.masked_fill(p_log_partition == -torch.inf, 0))


@register_kl(StructuredDistribution, StructuredDistribution)  # type: ignore[untyped-decorator]
def _kl_divergence(p: StructuredDistribution, q: StructuredDistribution) -> Tensor:
    """``KL(p || q) = sum_z p(z) (log p(z) - log q(z))``; ``inf`` where ``q`` forbids what ``p`` allows."""
    p, q = p._align(q)
    return p._compare(q, less_entropy=True)
