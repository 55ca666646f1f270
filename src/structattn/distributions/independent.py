"""Unstructured baselines as distributions: an independent softmax in each row, or a Bernoulli for each entry.

With these, simple attention is structured attention with another distribution, and nothing else changes.

Reference: Kim et al. (2017), section 2 (softmax) and section 4.2 (sigmoid).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor
from torch.nn import functional

from structattn.distributions.validation import check_broadcast, check_generator, check_sample_shape, check_scores
from structattn.functional.masked_attention import masked_softmax, very_negative


@dataclass(frozen=True, eq=False, repr=False)
class _IndependentRows(ABC):
    """Scores of keys, and which keys are allowed."""

    scores: Float[Tensor, "*#batch key"]
    allowed: Bool[Tensor, "*#batch key"]

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_scores(name, scores=self.scores)
        kind = getattr(self.allowed, "dtype", type(self.allowed).__name__)
        if kind != torch.bool:
            raise ValueError(f"{name}: allowed of type {kind}: expected a tensor of type torch.bool")
        scores, allowed = self.scores.shape, self.allowed.shape
        if scores != allowed:
            shape = check_broadcast(
                scores,
                allowed,
                lambda: f"{name}: allowed of shape {tuple(allowed)} does not fit scores of shape {tuple(scores)}",
            )
            object.__setattr__(self, "scores", self.scores.expand(shape))
            object.__setattr__(self, "allowed", self.allowed.expand(shape))

    def _possible(self) -> Bool[Tensor, "*batch key"]:
        """Keys that are allowed and whose score does not forbid them."""
        return self.allowed & (self.scores != -torch.inf)

    def sample(
        self, sample_shape: torch.Size | Sequence[int] | int = (), generator: Generator | None = None
    ) -> Float[Tensor, "*sample_and_batch key"]:
        """Independent samples.

        Args:
            sample_shape: how many, as in ``torch.distributions``; a number ``n`` is ``(n,)``.
            generator: source of randomness; torch's default generator if None.

        Raises:
            ValueError: if ``sample_shape`` is not a shape, or ``generator`` is not a ``torch.Generator``.
        """
        with torch.no_grad():
            scores = self.scores.expand(*check_sample_shape(sample_shape), *self.scores.shape)
            return self._draw(scores, check_generator(generator))

    @abstractmethod
    def _draw(self, scores: Tensor, generator: Generator | None) -> Tensor:
        """A sample for each of these scores."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(scores: {self.scores.shape}, allowed: {self.allowed.shape})"


class IndependentChoice(_IndependentRows):
    """In each row exactly one allowed key: ``p(z = k) = softmax_k(scores)``; no key if none is allowed.

    Args:
        scores: score of each key; ``-inf`` also forbids it.
        allowed: which keys may be chosen; ``True`` is allowed.

    Raises:
        ValueError: if the scores are not floating-point numbers, or the mask is not boolean or does not fit them.

    Example:
        >>> from structattn.distributions import IndependentChoice
        >>> choice = IndependentChoice(torch.zeros(3), torch.tensor([True, True, False]))
        >>> choice.marginals(), choice.argmax()
        (tensor([0.5000, 0.5000, 0.0000]), tensor([1., 0., 0.]))
    """

    def marginals(self) -> Float[Tensor, "*batch key"]:
        """Softmax over the allowed keys."""
        return masked_softmax(self.scores, self._possible())

    def argmax(self) -> Float[Tensor, "*batch key"]:
        """One at the first of the best keys."""
        forbidden = ~self._possible()
        best = self.scores.masked_fill(forbidden, -torch.inf).argmax(-1, keepdim=True)
        return torch.zeros_like(self.scores).scatter(-1, best, 1.0).masked_fill(forbidden, 0.0)

    def _draw(self, scores: Tensor, generator: Generator | None) -> Tensor:
        """By the Gumbel-max trick."""
        exponential = torch.empty_like(scores).exponential_(generator=generator)
        perturbed = scores - exponential.clamp(min=torch.finfo(scores.dtype).tiny).log()
        return IndependentChoice(perturbed, self.allowed.expand_as(perturbed)).argmax()

    def entropy(self) -> Float[Tensor, "*batch"]:
        """Entropy of the choice; zero if none is allowed."""
        log_shares = torch.where(self._possible(), self.scores, very_negative(self.scores.dtype)).log_softmax(-1)
        return -(self.marginals() * log_shares).sum(-1)


class IndependentSelection(_IndependentRows):
    """Each allowed key is selected or not, independently of the others: ``p(z_k = 1) = sigmoid(scores_k)``.

    Args:
        scores: score of each key; ``-inf`` also forbids it.
        allowed: which keys may be selected; ``True`` is allowed.

    Raises:
        ValueError: if the scores are not floating-point numbers, or the mask is not boolean or does not fit them.

    Example:
        >>> from structattn.distributions import IndependentSelection
        >>> selection = IndependentSelection(torch.zeros(3), torch.tensor([True, True, False]))
        >>> selection.marginals(), selection.argmax()
        (tensor([0.5000, 0.5000, 0.0000]), tensor([0., 0., 0.]))
    """

    def marginals(self) -> Float[Tensor, "*batch key"]:
        """Sigmoid of the scores."""
        return self.scores.sigmoid().masked_fill(~self.allowed, 0.0)

    def argmax(self) -> Float[Tensor, "*batch key"]:
        """One where the score is above zero."""
        return ((self.scores > 0) & self.allowed).to(self.scores.dtype)

    def _draw(self, scores: Tensor, generator: Generator | None) -> Tensor:
        uniform = torch.rand(scores.shape, generator=generator, dtype=scores.dtype, device=scores.device)
        return (uniform < self.marginals()).to(scores.dtype)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """Sum of the entropies of the Bernoulli variables."""
        forbidden = ~self._possible()
        scores = self.scores.masked_fill(forbidden, 0.0)  # zero times infinity would be NaN
        coins = functional.softplus(scores) - scores * scores.sigmoid()
        return coins.masked_fill(forbidden, 0.0).sum(-1)
