"""Distributions over labelled structures: each part of a structure of any family has a label.

Reference: Dozat and Manning (2017), Deep biaffine attention for neural dependency parsing, section 2 (scores of
relations, there chosen apart from the tree); Stern, Andreas and Klein (2017), section 3 (labelled spans).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.validation import check_scores, should_check_values
from structattn.kernels.labels import LabelledOperators, label_shares, sum_labels
from structattn.kernels.operators import Operators


class Labelled(StructuredDistribution):
    r"""Structures of a family with a label for each part.

    ``p(z, l) = exp( sum over parts of scores[part, l_part] - A )``. Given the structure, labels are independent, so
    ``A`` is the log-partition of the family for ``log sum_l exp scores[part, l]``. Parts have the shape of the scores,
    with the labels as their last axis. What only the family has, such as the edges of a chain, is a method of
    `unlabelled`.

    With raw scores, labels that fit speak for their part; where ``log_softmax`` of each part is added to its own score,
    labels leave the probabilities of structures as they are.

    Args:
        family: a class of distributions, such as `DependencyCRF`, or anything that builds one from scores.
        scores: score of each label of each part, the shape of the family's scores and the labels.
        lengths: number of words of each sentence, as the family takes them.
        options: further arguments of the family: ``single_root``, ``transition``, ``mask`` (of parts, without labels),
            ``validate_args``.

    Raises:
        ValueError: if the family refuses the scores without their axis of labels, its options, or a score.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> scores = torch.zeros(2, 3, 4)
        >>> scores[0, 2, 3], scores[1, 0, 1] = 2.0, 1.0
        >>> trees = Labelled(DependencyCRF, scores, single_root=True)
        >>> heads, labels = trees.to_structure(trees.argmax())
        >>> heads.tolist(), labels.tolist(), round(trees.log_count().exp().item())
        ([2, 0], [3, 1], 32)
        >>> trees.log_prob(heads, labels) <= trees.log_prob(heads)
        tensor(True)
    """

    structures: ClassVar[str] = "structures of the family, and labels"

    def __init__(
        self,
        family: Callable[..., StructuredDistribution],
        scores: Float[Tensor, "*batch_and_part label"],
        lengths: Tensor | Sequence[int] | int | None = None,
        **options: Any,
    ) -> None:
        (scores,) = check_scores("Labelled", scores=scores)
        if not scores.dim() or not scores.shape[-1]:
            raise ValueError(
                f"Labelled: scores of shape {tuple(scores.shape)}: expected at least one label, on the last axis"
            )
        try:
            outline = family(scores.new_zeros(()).expand(scores.shape[:-1]), lengths=lengths, **options)
        except ValueError as error:
            raise ValueError(f"Labelled, without the last axis of the scores, the labels: {error}") from None
        self._outline, self._shared = outline, outline._shared
        self.family = type(outline).__name__
        vars(self).update(outline._options())
        axes, rows = outline._axes[0]
        super().__init__(
            dict(zip(outline._names, (scores.to(outline.scores.dtype), *outline._arrays[1:]), strict=True)),
            lengths=outline.lengths,
            num_words=torch.iinfo(torch.int64).max,  # the family has checked the lengths, and says what they count
            axes=((axes + 1, rows + 1 if rows else 0), *outline._axes[1:]),
            kernel_options=outline._kernel_options,
            mask=None if outline._mask is None else outline._mask.unsqueeze(-1),
            validate_args=outline._checks_values,
        )

    @property
    def _operators(self) -> LabelledOperators:  # type: ignore[override]
        operators = self._outline._operators
        assert isinstance(operators, Operators)
        return LabelledOperators(operators)

    def unlabelled(self) -> StructuredDistribution:
        """The distribution over structures with their labels summed out, of the family itself."""
        readable = self._readable_parts()[0]
        # In float64, as the sums are what is computed with.
        total = sum_labels(self.scores.double().masked_fill(~readable, -torch.inf))
        new = self._plain(total, *(array.double() for array in self._arrays[1:]))
        new._limits = new._check_values()
        return new

    def log_prob(self, value: Tensor | tuple[Tensor, Tensor], labels: Tensor | None = None) -> Float[Tensor, "..."]:
        """Log-probability of labelled structures; ``-inf`` if they use a forbidden part.

        Args:
            value: integers are a structure of the family; floating-point numbers and ``bool`` are 0/1 parts with their
                labels. A pair is a structure and its labels, as `to_structure` returns them.
            labels: the label of each row of a structure in integers: of each word for heads and tags, of each span for
                spans, of each segment for segments. None sums over all labels.

        Raises:
            ValueError: as `StructuredDistribution.log_prob`; for labels beside parts, of another shape or out of range.
        """
        if isinstance(value, tuple):
            value, labels = value
        is_parts = isinstance(value, Tensor) and (value.is_floating_point() or value.dtype == torch.bool)
        if is_parts and labels is None:
            return super().log_prob(value)
        if is_parts:
            raise ValueError("log_prob: labels beside parts: expected labels only beside a structure in integers")
        unlabelled = self.unlabelled()
        result = unlabelled.log_prob(value)
        if labels is not None:
            index = self._find_parts(value)
            label = self._check_labels(labels, index)
            total = unlabelled.scores.flatten(-len(unlabelled.event_shape))
            scores = self.scores.double().flatten(-len(self.event_shape))
            number = index.clamp(min=0) * self._event_shape[-1] + label.clamp(0, self._event_shape[-1] - 1)
            leading = index.shape[:-1]
            total = total.expand(*leading, -1).gather(-1, index.clamp(min=0).expand(*leading, -1))
            picked = scores.expand(*leading, -1).gather(-1, number.expand(*leading, -1))
            is_label = (label >= 0) & (label < self._event_shape[-1])
            log_share = (picked - total.masked_fill(total == -torch.inf, 0)).masked_fill(~is_label, -torch.inf)
            result = result + log_share.where(index >= 0, 0).sum(-1)
        return result.to(self.scores.dtype)

    def to_structure(self, parts: Float[Tensor, "..."]) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The structure of the family, and the label of each of its rows; -1 for a row without a part.

        Args:
            parts: 0/1 parts, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is not a tensor of parts, or does not fit the batch.
        """
        structure = self._plain().to_structure(parts.sum(-1))
        index = self._find_parts(structure)
        label = parts.argmax(-1).flatten(1 - len(self._event_shape)).expand(*index.shape[:-1], -1)
        return structure, label.gather(-1, index.clamp(min=0)).where(index >= 0, -1)

    def from_structure(
        self, structure: Tensor | tuple[Tensor, Tensor], labels: Tensor | None = None
    ) -> Float[Tensor, "..."]:
        """The parts (0 or 1) of a structure with labels; none if it is ``-1`` everywhere.

        Args:
            structure: integers, with any axes in front that fit the batch; or a pair as `to_structure` returns it.
            labels: the label of each row.

        Raises:
            ValueError: without labels, if one is out of range, or as `StructuredDistribution.from_structure`.
        """
        if isinstance(structure, tuple):
            structure, labels = structure
        if labels is None:
            raise ValueError("from_structure: a structure without labels: expected from_structure(structure, labels)")
        index = self._find_parts(structure)
        label = self._check_labels(labels, index)
        return self._parts_at((index * self._event_shape[-1] + label).where(index >= 0, -1))

    def forbidden_parts(self) -> list[Bool[Tensor, "..."]]:
        """What the family does not read, padding included: sums over labels would read it."""
        return [~mask for mask in self._readable_parts()]

    def _readable_parts(self) -> list[Bool[Tensor, "..."]]:
        first, *others = self._plain()._readable_parts()
        return [first.unsqueeze(-1), *others]

    def _real_parts(self) -> list[Bool[Tensor, "..."]]:
        first, *others = self._plain()._real_parts()
        return [first.unsqueeze(-1), *others]

    def _plain(self, *arrays: Tensor) -> StructuredDistribution:
        """A distribution of the family for these sentences; without arrays, the scores of the first label."""
        plain = copy.copy(self._outline)
        plain._arrays = arrays or (self.scores[..., 0], *self._arrays[1:])
        plain._mask = None if self._mask is None else self._mask[..., 0]
        plain.lengths, plain._batch_shape = self.lengths, self._batch_shape
        return plain

    def _check_labels(self, labels: Any, index: Int[Tensor, "*_ row"]) -> Int[Tensor, "*_ row"]:
        """A label for each row; those of rows without a part are not read."""
        if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
            kind = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
            raise ValueError(f"labels of type {kind}: expected integers")
        try:
            label: Tensor = labels.long().expand(index.shape)
        except RuntimeError:
            raise ValueError(
                f"labels of shape {tuple(labels.shape)}: expected {tuple(index.shape)}, one for each row of a structure"
            ) from None
        number = self._event_shape[-1]
        wrong = (index >= 0) & ((label < 0) | (label >= number))
        if should_check_values(self._checks_values, label) and wrong.any():
            *item, row = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"labels: {f'item {tuple(item)}, ' if item else ''}row {row} has label {int(label[wrong][0])}: "
                f"expected 0 to {number - 1}"
            )
        return label

    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ row"]:
        return self._plain()._find_parts(structure)

    def _parts_of_arrays(self, parts: Tensor) -> list[Tensor]:
        return [parts, *self._plain()._parts_of_arrays(parts.sum(-1))[1:]]

    def _evaluate_parts(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        value, parts = self._plain()._evaluate_parts(sum_labels(scores), lengths)
        return value, parts.unsqueeze(-1) * label_shares(scores)

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return self._outline._is_structure_shape(shape)

    def _describe(self, length: int) -> str:
        return self._outline._describe(length)

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        count = parts.sum(-1)
        if (count > 1).any():
            return f"part {tuple((count > 1).nonzero()[0].tolist())} has {int(count.max())} labels"
        return self._outline._explain_invalid(count, length)
