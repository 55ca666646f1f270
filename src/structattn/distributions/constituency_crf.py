"""Distributions over binary phrase trees, by the inside-outside algorithm over spans.

Reference: Baker (1979), Trainable grammars for speech recognition; Stern, Andreas and Klein (2017), A minimal
span-based neural constituency parser; Kim et al. (2017), section 3.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.validation import (
    align_lengths,
    check_integers,
    check_parts,
    check_scores,
    is_missing,
    refuse_first,
    should_check_values,
)
from structattn.kernels.cky import OPERATORS, real_spans


class ConstituencyCRF(StructuredDistribution):
    r"""Binary trees over scored spans: Stern et al. (2017), section 3; Baker (1979).

    ``p(z) = exp( sum over spans of scores[i, j] - A )``, where the span ``(i, j)`` covers the words ``i .. j - 1``.
    Every span of the tree counts: the ``n`` words and the ``n - 1`` phrases, including the whole sentence. Entries with
    ``i >= j`` are ignored.

    Args:
        scores: score of each span between fenceposts ``0 .. n``.
        lengths: number of words of each sentence, as a tensor or as lists; all ``n`` if None.
        mask: True where a span is allowed, a shape that broadcasts against the scores; None allows all.
        validate_args: whether values are checked, see `StructuredDistribution`.

    Raises:
        ValueError: if shapes, types or lengths do not fit, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import ConstituencyCRF
        >>> scores = torch.zeros(4, 4)
        >>> scores[1, 3] = 2.0
        >>> trees = ConstituencyCRF(scores)
        >>> trees.to_structure(trees.argmax()).tolist()
        [[0, 3], [0, 1], [1, 3], [1, 2], [2, 3]]
    """

    _operators = OPERATORS
    structures: ClassVar[str] = "spans (..., rows, 2)"

    def __init__(
        self,
        scores: Float[Tensor, "*batch start end"],
        lengths: Tensor | Sequence[int] | int | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (scores,) = check_scores("ConstituencyCRF", scores=scores)
        if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
            raise ValueError(f"ConstituencyCRF: scores of shape {tuple(scores.shape)}: expected (..., n + 1, n + 1)")
        num_words = scores.shape[-1] - 1
        super().__init__(
            {"scores": scores},
            lengths=lengths,
            axes=((2, 0),),
            num_words=num_words,
            mask=mask,
            validate_args=validate_args,
        )

    def to_structure(self, parts: Float[Tensor, "*shape start end"]) -> Int[Tensor, "*shape span 2"]:
        """Spans ``(start, end)``, parent before child, left before right, in ``2 n - 1`` rows, padded with ``(0, 0)``.

        If there is no tree, every row is ``(-1, -1)``.

        Args:
            parts: 0/1 parts, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is not a tensor of parts, or does not fit the batch.
        """
        lengths = check_parts(parts, self._event_shape, self.lengths, caller="to_structure")
        posts = parts.shape[-1]
        post = torch.arange(posts, device=parts.device)
        order = (post[:, None] * posts + (posts - 1 - post)).flatten()
        unused = posts * posts
        span = order.where(parts.flatten(-2) > 0, unused).sort(-1).values[..., : max(2 * posts - 3, 0)]
        spans = torch.stack([span // posts, posts - 1 - span % posts], -1)
        spans = spans.masked_fill((span == unused).unsqueeze(-1), 0)
        return spans.masked_fill(is_missing(parts, 2, lengths).unsqueeze(-1), -1)

    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ span"]:
        # Spans are in any order; (0, 0) and (-1, -1) are not spans.
        spans = check_integers(structure, self.structures, self._is_structure_shape)
        shape, lengths = align_lengths(self.lengths, spans.shape[:-2], name="spans")
        start, end = spans.expand(*shape, *spans.shape[-2:]).unbind(-1)
        if should_check_values(self._checks_values, spans):
            blank = (start == end) & ((start == 0) | (start == -1))
            wrong = ~blank & ((start < 0) | (start >= end) | (end > lengths.unsqueeze(-1)))
            refuse_first(
                wrong,
                lambda *index: (
                    f"row {index[-1]} is the span ({int(start[index])}, {int(end[index])}): expected "
                    f"0 <= start < end <= {int(lengths[index[:-1]])}, the number of words; or (0, 0) for no span"
                ),
            )
        posts = self._event_shape[-1]
        real = (start >= 0) & (start < end) & (end <= lengths.unsqueeze(-1))
        return (start * posts + end).where(real, -1)

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return len(shape) >= 2 and shape[-1] == 2

    def _real_parts(self) -> list[Bool[Tensor, "*batch start end"]]:
        return [real_spans(self.lengths, self._event_shape[0] - 1)]

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        spans = {tuple(span) for span in parts.nonzero().tolist()}
        for start, end in sorted(spans):
            if not start < end <= length:
                return f"({start}, {end}) is not a span of the sentence"
        for start, end in sorted(spans):
            for other_start, other_end in sorted(spans):
                if start < other_start < end < other_end:
                    return f"the spans ({start}, {end}) and ({other_start}, {other_end}) cross"
        for start in range(length):
            if (start, start + 1) not in spans:
                return f"the span ({start}, {start + 1}) of word {start + 1} is missing"
        if length and (0, length) not in spans:
            return f"the span (0, {length}) of the whole sentence is missing"
        return f"it has {len(spans)} spans: expected {max(2 * length - 1, 0)}, a binary tree"
