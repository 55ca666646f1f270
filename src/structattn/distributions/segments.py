"""Distributions over labelled segmentations of a sentence.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn import kernels
from structattn.distributions.checks import checked_lengths, checked_scores, values_matter
from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.values import aligned_lengths, integers, is_missing, lengths_of_parts, refuse_first


class SemiMarkovCRF(StructuredDistribution):
    r"""Segmentations with a label for each segment: Sarawagi and Cohen (2004), equation 1.

    ``p(y) = exp( sum over segments of scores[start, width - 1, previous label, label] - A )``. A segment covers the
    words ``start .. start + width - 1``; segments follow each other without a gap and end with the sentence. The first
    segment has no predecessor: it reads ``scores[0, :, 0, :]``, and the other rows at ``start = 0`` are ignored. Parts
    have the shape of the scores.

    Args:
        scores: score of each segment after each label.
        lengths: number of words of each sentence, as a tensor or as lists; all ``n`` if not given.
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

    _operators = kernels.segments.OPERATORS
    structures: ClassVar[str] = "segments (..., rows, 3)"

    def __init__(
        self,
        scores: Float[Tensor, "*batch word width before state"],
        lengths: Tensor | Sequence[int] | int | None = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        (scores,) = checked_scores("SemiMarkovCRF", scores=scores)
        if scores.dim() < 4 or scores.shape[-1] != scores.shape[-2] or 0 in scores.shape[-3:]:
            raise ValueError(
                f"SemiMarkovCRF: scores of shape {tuple(scores.shape)}: expected (..., n, max_width, states, states)"
            )
        num_words = scores.shape[-4]
        super().__init__(
            {"scores": scores},
            lengths=checked_lengths(
                lengths, scores.shape[:-4], num_words=num_words, like=scores, validate_args=validate_args
            ),
            axes=((4, 0),),
            validate_args=validate_args,
        )

    def to_structure(self, parts: Float[Tensor, "*shape word width state state"]) -> Int[Tensor, "*shape word 3"]:
        """Segments ``(start, end, label)`` from left to right, half-open, padded with ``(0, 0, 0)``.

        If there is no segmentation, every row is ``(-1, -1, -1)``.
        """
        words, _, _, states = self._event_shape
        lengths = lengths_of_parts(self, parts, what="to_structure")
        used, index = parts.sum(-2).flatten(-2).max(-1)
        start = torch.arange(words, device=parts.device).expand_as(index)
        segments = torch.stack([start, start + index // states + 1, index % states], -1)
        order = (used == 0).long().argsort(dim=-1, stable=True)
        segments = segments.masked_fill((used == 0).unsqueeze(-1), 0)
        segments = segments.gather(-2, order.unsqueeze(-1).expand_as(segments))
        return segments.masked_fill(is_missing(parts, 4, lengths).unsqueeze(-1), -1)

    def from_structure(self, structure: Int[Tensor, "*_ row 3"]) -> Float[Tensor, "*_ word width state state"]:
        """Parts of segments ``(start, end, label)`` in order; ``(0, 0, 0)`` and ``(-1, -1, -1)`` are not segments.

        Raises:
            ValueError: if this is not a tensor of segments or, with ``validate_args``, a segment is out of range.
        """
        _, widths, states, _ = self._event_shape
        rows = integers(structure, self.structures, self._is_structure_shape)
        shape, lengths = aligned_lengths(self, rows.shape[:-2], what="segments")
        start, end, label = rows.expand(*shape, *rows.shape[-2:]).unbind(-1)
        if values_matter(self._checks_values, rows):
            blank = (start == end) & ((start == 0) | (start == -1))
            wrong = ~blank & ((start < 0) | (start >= end) | (end > lengths.unsqueeze(-1)))
            refuse_first(
                wrong,
                lambda *place: (
                    f"row {place[-1]} is the segment ({int(start[place])}, {int(end[place])}): expected "
                    f"0 <= start < end <= {int(lengths[place[:-1]])}, the number of words; or (0, 0, 0) for no segment"
                ),
            )
            refuse_first(
                ~blank & (end - start > widths),
                lambda *place: f"a segment has {int((end - start)[place])} words: expected at most {widths}",
            )
            refuse_first(
                ~blank & ((label < 0) | (label >= states)),
                lambda *place: f"row {place[-1]} has label {int(label[place])}: expected 0 to {states - 1}",
            )
        before = torch.cat([torch.zeros_like(label[..., :1]), label[..., :-1]], -1)
        width = end - start
        real = (start >= 0) & (end <= lengths.unsqueeze(-1)) & (width > 0) & (width <= widths)
        real = real & (label >= 0) & (label < states) & (before >= 0) & (before < states)
        index = (((start * widths + width - 1) * states + before) * states + label).where(real, 0)
        none = torch.zeros(*shape, self._event_shape.numel(), dtype=torch.float32, device=rows.device)
        parts = none.scatter_add(-1, index, real.float())
        return parts.view(*shape, *self._event_shape).to(self.scores.dtype)

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return len(shape) >= 2 and shape[-1] == 3

    def _real_parts(self) -> list[Bool[Tensor, "*batch word width state state"]]:
        return [kernels.segments.real_segments(self.lengths, self._event_shape[:3])]

    def _why_none(self, parts: Tensor, length: int) -> str:
        end, label = 0, 0
        for start, width, before, after in parts.nonzero().tolist():
            if start != end:
                return f"a segment starts at word {start + 1}: expected word {end + 1}, where the one before it ends"
            if before != label:
                return f"the segment from word {start + 1} follows label {before}: expected {label}"
            end, label = start + width + 1, after
        return f"the segments end after word {end}: expected {length}, the number of words"
