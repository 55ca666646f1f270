"""Distributions over binary phrase trees, by the inside-outside program over spans.

Separate because its parts are spans between words, not words.

Reference: Baker (1979), Trainable grammars for speech recognition; Stern, Andreas and Klein (2017), A minimal
span-based neural constituency parser; Kim et al. (2017), section 3.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from structattn import kernels
from structattn.distributions.distribution import Selector, StructuredDistribution
from structattn.distributions.lengths import checked_lengths
from structattn.distributions.semirings import ChartSelector
from structattn.kernels.operators import Operators


class ConstituencyCRF(StructuredDistribution):
    r"""Binary trees over scored spans: Stern et al. (2017), section 3; Baker (1979).

    ``p(z) = exp( sum over spans of scores[i, j] - A )``, where the span ``(i, j)`` covers the words ``i .. j - 1``.
    Every span of the tree counts: the ``n`` words, the ``n - 1`` phrases and so the whole sentence. Entries with
    ``i >= j`` are ignored.

    Args:
        scores: score of each span between fences ``0 .. n``.
        lengths: number of words of each sentence; all ``n`` if not given.
        validate_args: check the scores and the arguments of `log_prob`; False saves time, and ``torch.vmap`` needs it.

    Raises:
        ValueError: if shapes or lengths do not fit together, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import ConstituencyCRF
        >>> scores = torch.zeros(4, 4)
        >>> scores[1, 3] = 2.0
        >>> trees = ConstituencyCRF(scores)
        >>> trees.to_structure(trees.argmax()).tolist()
        [[0, 3], [0, 1], [1, 3], [1, 2], [2, 3]]
    """

    def __init__(
        self,
        scores: Float[Tensor, "*batch start end"],
        lengths: Tensor | None = None,
        *,
        validate_args: bool | None = True,
    ) -> None:
        if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
            raise ValueError(f"ConstituencyCRF: scores of shape {tuple(scores.shape)}: expected (..., n + 1, n + 1)")
        fences = scores.shape[-1]
        lengths = checked_lengths(lengths, scores.shape[:-2], num_words=fences - 1, like=scores)
        super().__init__(scores, lengths=lengths, event_shape=scores.shape[-2:], validate_args=validate_args)

    def to_structure(self, parts: Float[Tensor, "*shape fence fence"]) -> Int[Tensor, "*shape span 2"]:
        """Spans ``(start, end)``, ``2 n - 1`` rows, parent before child, left before right; then ``(0, 0)``."""
        fences = parts.shape[-1]
        fence = torch.arange(fences, device=parts.device)
        order = (fence[:, None] * fences + (fences - 1 - fence)).flatten()
        unused = fences * fences
        place = order.where(parts.flatten(-2) > 0, unused).sort(-1).values[..., : max(2 * fences - 3, 0)]
        spans = torch.stack([place // fences, fences - 1 - place % fences], -1)
        return spans.masked_fill((place == unused)[..., None], 0)

    def from_structure(self, structure: Int[Tensor, "*shape span 2"]) -> Float[Tensor, "*shape fence fence"]:
        """Parts of spans ``(start, end)`` in any order; empty spans are ignored."""
        fences = self.event_shape[-1]
        start, end = structure.unbind(-1)
        parts = torch.zeros(*structure.shape[:-2], fences * fences, device=structure.device)
        parts = parts.scatter_add(-1, start * fences + end, (end > start).to(parts.dtype))
        return parts.reshape((*structure.shape[:-2], fences, fences)).to(self._given[0].dtype)

    @property
    def _operators(self) -> Operators:
        return kernels.constituency.OPERATORS

    def _sizes(self) -> list[int]:
        return [self.event_shape[0] - 1]

    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return kernels.constituency.ENTROPY(scores, lengths, self._sizes())[0]

    def _selector(self) -> Selector:
        return ChartSelector(kernels.constituency.chart(self.event_shape[0] - 1))

    def _real_parts(self) -> Tensor:
        return kernels.constituency.real_spans(self.lengths, self.event_shape[0] - 1).flatten(-2)

    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return kernels.constituency.best_span(scores, self._flat_lengths())
