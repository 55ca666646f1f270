"""Distributions over labelled segmentations of a sentence.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.segment_forms import FORMS, Form
from structattn.distributions.validation import (
    align_lengths,
    check_integers,
    check_parts,
    check_scores,
    is_missing,
    refuse_first,
    should_check_values,
)
from structattn.kernels.operators import Operators


class SemiMarkovCRF(StructuredDistribution):
    r"""Segmentations with a label for each segment: Sarawagi and Cohen (2004), equation 1.

    ``p(y) = exp( sum over segments of their scores - A )``. A segment covers the words ``start .. start + width - 1``;
    segments follow each other without a gap and end with the sentence. Scores take one of three forms:

    - ``scores[start, width - 1, previous label, label]``. The first segment has no predecessor: it reads
      ``scores[0, :, 0, :]``, and the other rows at ``start = 0`` are ignored.
    - ``scores[start, width - 1, label] + transition[previous label, label]``, without a transition into the first
      segment. ``n x width x states + states^2`` products, no array with two labels.
    - ``sum over its words of scores[word, first or further, label] + duration[width - 1, label] + transition[previous
      label, label]``: a hidden semi-Markov model (Rabiner, 1989, section IV.D). Memory does not grow with
      ``n x width``, so a sentence may have many thousand words. Word scores ``(n, states)`` that do not depend on where
      a segment starts are ``scores.unsqueeze(-2).expand(-1, 2, -1)``; its marginals are then those of boundaries,
      ``[:, 0]``, and of words within segments, ``[:, 1]``.

    Parts have the shape of the scores.

    Args:
        scores: ``(..., n, max_width, states, states)``; with ``transition``, ``(..., n, max_width, states)``; with
            ``duration`` too, ``(..., n, 2, states)``.
        lengths: number of words of each sentence, as a tensor or as lists; all ``n`` if None.
        transition: score of a label after another one, one matrix for the batch or one for each sentence.
        duration: score of each width, at most ``max_width``, of a segment with each label, likewise.
        mask: True where a part is allowed, a shape that broadcasts against the scores; None allows all.
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
        >>> words, duration = torch.zeros(3, 2, 1), torch.tensor([[0.0], [1.0]])
        >>> summed = SemiMarkovCRF(words, transition=torch.zeros(1, 1), duration=duration)
        >>> summed.to_structure(summed.argmax()).tolist(), summed.marginals()[:, 0].flatten()
        ([[0, 2, 0], [2, 3, 0], [0, 0, 0]], tensor([1.0000, 0.5777, 0.5777]))
    """

    structures: ClassVar[str] = "segments (..., rows, 3)"

    def __init__(
        self,
        scores: Float[Tensor, "..."],
        lengths: Tensor | Sequence[int] | int | None = None,
        *,
        transition: Float[Tensor, "*_ before after"] | None = None,
        duration: Float[Tensor, "*_ width state"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        named = {"scores": scores, "transition": transition, "duration": duration}
        named = {name: array for name, array in named.items() if array is not None}
        arrays = dict(zip(named, check_scores("SemiMarkovCRF", **named), strict=True))
        form = FORMS.get(tuple(arrays)[1:])
        if form is None:
            raise ValueError("SemiMarkovCRF: duration without transition: expected both, transition=(states, states)")
        scores, *further = arrays.values()
        batch, event = scores.shape[: -form.axes], scores.shape[scores.dim() - form.axes :]
        if scores.dim() < form.axes or 0 in event[1:] or not form.fits(event):
            raise ValueError(f"SemiMarkovCRF: scores of shape {tuple(scores.shape)}: expected (..., {form.expected})")
        for name, array in list(arrays.items())[1:]:
            rows = event[-1] if name == "transition" else max(array.shape[-2], 1) if array.dim() > 1 else 1
            if array.shape[-2:] != (rows, event[-1]) or array.shape[:-2] not in ((), batch):
                expected = f"({'states' if name == 'transition' else 'max_width'}, {event[-1]})"
                raise ValueError(
                    f"SemiMarkovCRF: {name} of shape {tuple(array.shape)}: expected {expected}, for scores of shape "
                    f"{tuple(scores.shape)}; or one for each sentence, with the batch axes {tuple(batch)} in front"
                )
        self._shared = (False, *(array.dim() == 2 for array in further))
        super().__init__(
            arrays,
            lengths=lengths,
            axes=((form.axes, form.row_axes), *((2, 0) for _ in self._shared[1:])),
            mask=mask,
            validate_args=validate_args,
        )

    @property
    def _form(self) -> Form:
        return FORMS[self._names[1:]]

    @property
    def _operators(self) -> Operators:  # type: ignore[override]
        return self._form.operators

    @property
    def _max_width(self) -> int:
        return int(self._arrays[2].shape[-2] if len(self._arrays) == 3 else self._event_shape[1])

    def to_structure(self, parts: Float[Tensor, "..."]) -> Int[Tensor, "*shape word 3"]:
        """Segments ``(start, end, label)`` from left to right, half-open, padded with ``(0, 0, 0)``.

        If there is no segmentation, every row is ``(-1, -1, -1)``.

        Args:
            parts: 0/1 parts, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is not a tensor of parts, or does not fit the batch.
        """
        lengths = check_parts(parts, self._event_shape, self.lengths, caller="to_structure")
        used, width, label = self._form.read(parts, lengths)
        start = torch.arange(self._event_shape[0], device=parts.device).expand_as(width)
        segments = torch.stack([start, start + width, label], -1)
        order = (~used).long().argsort(dim=-1, stable=True)
        segments = segments.masked_fill(~used.unsqueeze(-1), 0)
        segments = segments.gather(-2, order.unsqueeze(-1).expand_as(segments))
        return segments.masked_fill(is_missing(parts, self._form.axes, lengths).unsqueeze(-1), -1)

    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ row"]:
        # Segments are in order; (0, 0, 0) and (-1, -1, -1) are not segments.
        widths, states = self._max_width, self._event_shape[-1]
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
        width = end - start
        real = (start >= 0) & (end <= lengths.unsqueeze(-1)) & (width > 0) & (width <= widths)
        real = real & (label >= 0) & (label < states)
        return self._form.find(start, width, label, real, self._event_shape)

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return len(shape) >= 2 and shape[-1] == 3

    def _real_parts(self) -> list[Bool[Tensor, "..."]]:
        real = self._form.real(self.lengths, (self._event_shape[0], self._max_width, self._event_shape[-1]))
        return [real, *(real.new_ones(()) for _ in self._shared[1:])]

    def _parts_of_arrays(self, parts: Tensor) -> list[Tensor]:
        return [parts, *self._form.count(parts, self.lengths, self._max_width)]

    def _evaluate_parts(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        free = [scores.new_zeros(array.shape[-2:]) for array in self._arrays[1:]]
        value, parts = self._operators.evaluate([scores, *free], lengths)
        return value, parts[0]

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        return self._form.explain(parts, length, self._max_width)
