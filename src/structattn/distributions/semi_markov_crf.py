"""Distributions over labelled segmentations of a sentence.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
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
from structattn.kernels.semi_markov import OPERATORS, real_segments


class SemiMarkovCRF(StructuredDistribution):
    r"""Segmentations with a label for each segment: Sarawagi and Cohen (2004), equation 1.

    ``p(y) = exp( sum over segments of scores[start, width - 1, previous label, label] - A )``. A segment covers the
    words ``start .. start + width - 1``; segments follow each other without a gap and end with the sentence. The first
    segment has no predecessor: it reads ``scores[0, :, 0, :]``, and the other rows at ``start = 0`` are ignored. Parts
    have the shape of the scores.

    Args:
        scores: score of each segment after each label.
        lengths: number of words of each sentence, as a tensor or as lists; all ``n`` if None.
        mask: True where a segment is allowed, a shape that broadcasts against the scores; None allows all.
        validate_args: whether values are checked, see `StructuredDistribution`.

    Raises:
        ValueError: if shapes, types or lengths do not fit, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import SemiMarkovCRF
        >>> segments = SemiMarkovCRF(torch.zeros(3, 2, 1, 1))
        >>> round(segments.log_count().exp().item())
        3
        >>> segments.to_structure(segments.topk(3))[:, :, :2].tolist()
        [[[0, 1], [1, 3], [0, 0]], [[0, 2], [2, 3], [0, 0]], [[0, 1], [1, 2], [2, 3]]]
    """

    _operators = OPERATORS
    structures: ClassVar[str] = "segments (..., rows, 3)"

    def __init__(
        self,
        scores: Float[Tensor, "*batch word width before state"],
        lengths: Tensor | Sequence[int] | int | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (scores,) = check_scores("SemiMarkovCRF", scores=scores)
        if scores.dim() < 4 or scores.shape[-1] != scores.shape[-2] or 0 in scores.shape[-3:]:
            raise ValueError(
                f"SemiMarkovCRF: scores of shape {tuple(scores.shape)}: expected (..., n, max_width, states, states)"
            )
        super().__init__({"scores": scores}, lengths=lengths, axes=((4, 0),), mask=mask, validate_args=validate_args)

    def to_structure(self, parts: Float[Tensor, "*shape word width state state"]) -> Int[Tensor, "*shape word 3"]:
        """Segments ``(start, end, label)`` from left to right, half-open, padded with ``(0, 0, 0)``.

        If there is no segmentation, every row is ``(-1, -1, -1)``.

        Args:
            parts: 0/1 parts, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is not a tensor of parts, or does not fit the batch.
        """
        words, _, _, states = self._event_shape
        lengths = check_parts(parts, self._event_shape, self.lengths, caller="to_structure")
        used, index = parts.sum(-2).flatten(-2).max(-1)
        start = torch.arange(words, device=parts.device).expand_as(index)
        segments = torch.stack([start, start + index // states + 1, index % states], -1)
        order = (used == 0).long().argsort(dim=-1, stable=True)
        segments = segments.masked_fill((used == 0).unsqueeze(-1), 0)
        segments = segments.gather(-2, order.unsqueeze(-1).expand_as(segments))
        return segments.masked_fill(is_missing(parts, 4, lengths).unsqueeze(-1), -1)

    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ row"]:
        # Segments are in order; (0, 0, 0) and (-1, -1, -1) are not segments.
        _, widths, states, _ = self._event_shape
        rows = check_integers(structure, self.structures, self._is_structure_shape)
        shape, lengths = align_lengths(self.lengths, rows.shape[:-2], name="segments")
        start, end, label = rows.expand(*shape, *rows.shape[-2:]).unbind(-1)
        if should_check_values(self._checks_values, rows):
            blank = (start == end) & ((start == 0) | (start == -1))
            wrong = ~blank & ((start < 0) | (start >= end) | (end > lengths.unsqueeze(-1)))
            refuse_first(
                wrong,
                lambda *index: (
                    f"row {index[-1]} is the segment ({int(start[index])}, {int(end[index])}): expected "
                    f"0 <= start < end <= {int(lengths[index[:-1]])}, the number of words; or (0, 0, 0) for no segment"
                ),
            )
            refuse_first(
                ~blank & (end - start > widths),
                lambda *index: f"a segment has {int((end - start)[index])} words: expected at most {widths}",
            )
            refuse_first(
                ~blank & ((label < 0) | (label >= states)),
                lambda *index: f"row {index[-1]} has label {int(label[index])}: expected 0 to {states - 1}",
            )
        previous = torch.cat([torch.zeros_like(label[..., :1]), label[..., :-1]], -1)
        width = end - start
        real = (start >= 0) & (end <= lengths.unsqueeze(-1)) & (width > 0) & (width <= widths)
        real = real & (label >= 0) & (label < states) & (previous >= 0) & (previous < states)
        return (((start * widths + width - 1) * states + previous) * states + label).where(real, -1)

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return len(shape) >= 2 and shape[-1] == 3

    def _real_parts(self) -> list[Bool[Tensor, "*batch word width state state"]]:
        return [real_segments(self.lengths, self._event_shape[:3])]

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        end, label = 0, 0
        for start, width, previous, following in parts.nonzero().tolist():
            if start != end:
                return f"a segment starts at word {start + 1}: expected word {end + 1}, where the one before it ends"
            if previous != label:
                return f"the segment from word {start + 1} follows label {previous}: expected {label}"
            end, label = start + width + 1, following
        return f"the segments end after word {end}: expected {length}, the number of words"
