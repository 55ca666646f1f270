"""Distributions over tag sequences: one state for each word, with scores of states and of transitions.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields; Kim et al. (2017), section 3.1.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from torch.distributions import Distribution

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
from structattn.kernels.forward_backward import OPERATORS


class LinearChainCRF(StructuredDistribution):
    r"""A linear chain over states ``y_i``: Lafferty et al. (2001); Kim et al. (2017), section 3.1.

    ``p(y) = exp( sum_i unary[i, y_i] + sum_i transition[(i,) y_i, y_{i+1}] - A )``. Parts are ``z[i, c] = 1`` if
    ``y_i = c``. Start and stop scores belong in the first and last unary.

    Args:
        unary: score of each state of each word.
        transition: ``[from, to]`` for all positions, or ``[position, from, to]`` for ``n - 1`` positions, with the
            batch axes.
        lengths: number of words of each sentence, as a tensor or as lists; all ``n`` if None.
        mask: True where a state is allowed, a shape that broadcasts against ``unary``; None allows all.
        validate_args: whether values are checked, see `StructuredDistribution`.

    Raises:
        ValueError: if shapes, types or lengths do not fit, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import LinearChainCRF
        >>> unary, transition = torch.tensor([[0.0, 1.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, -torch.inf]])
        >>> chain = LinearChainCRF(unary, transition)
        >>> chain.to_structure(chain.argmax()).tolist(), round(chain.log_count().exp().item())
        ([0, 1], 3)
    """

    _operators = OPERATORS
    structures: ClassVar[str] = "tags (..., n)"

    def __init__(
        self,
        unary: Float[Tensor, "*batch word state"],
        transition: Float[Tensor, "*_ before after"],
        lengths: Tensor | Sequence[int] | int | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        unary, transition = check_scores("LinearChainCRF", unary=unary, transition=transition)
        if unary.dim() < 2 or unary.shape[-1] == 0:
            raise ValueError(f"LinearChainCRF: unary of shape {tuple(unary.shape)}: expected (..., n, states)")
        *batch, words, states = unary.shape
        expected = (*batch, max(words - 1, 0), states, states)
        one_matrix = transition.dim() == 2
        shape = expected[-2:] if one_matrix else expected
        if transition.shape != shape:
            try:
                transition = transition.expand(shape)
            except RuntimeError:
                raise ValueError(
                    f"LinearChainCRF: transition of shape {tuple(transition.shape)}: "
                    f"expected {expected[-2:]} or {expected}"
                ) from None
        self._shared = (False, one_matrix)
        super().__init__(
            {"unary": unary, "transition": transition},
            lengths=lengths,
            # A matrix for all positions counts how often each transition is used.
            axes=((2, 1), (2, 0) if one_matrix else (3, 2)),
            mask=mask,
            validate_args=validate_args,
        )

    @property
    def unary(self) -> Float[Tensor, "*batch word state"]:
        """Scores of the states as they were passed, the same as `scores`."""
        return self._arrays[0]

    @property
    def transition(self) -> Float[Tensor, "*_ before after"]:
        """Scores of the transitions: one matrix, or one for each position."""
        return self._arrays[1]

    def edge_marginals(self) -> Float[Tensor, "*batch position state state"]:
        """``p(y_i = a, y_{i+1} = b)`` for each of the ``n - 1`` positions; zero at padding."""
        scores, lengths, _ = self._per_position()._inputs()
        _, (_, edges) = self._operators.evaluate(scores, lengths)
        return edges.reshape(self._batch_shape + edges.shape[1:]).to(self.scores.dtype)

    def to_structure(self, parts: Float[Tensor, "*shape word state"]) -> Int[Tensor, "*shape word"]:
        """Tags, 0 beyond the end of a sentence; -1 everywhere if there is no sequence.

        Args:
            parts: 0/1 parts, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is not a tensor of parts, or does not fit the batch.
        """
        lengths = check_parts(parts, self._event_shape, self.lengths, caller="to_structure")
        return parts.argmax(-1).masked_fill(is_missing(parts, 2, lengths), -1)

    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ word"]:
        words, states = self._event_shape
        tags = check_integers(structure, f"tags (..., {words})", self._is_structure_shape)
        _, lengths = align_lengths(self.lengths, tags.shape[:-1], name="tags")
        position = torch.arange(words, device=tags.device)
        real = position < lengths.unsqueeze(-1)
        if should_check_values(self._checks_values, tags):
            none = ((tags == -1) | ~real).all(-1, keepdim=True)
            wrong = real & ~none & ((tags < 0) | (tags >= states))
            refuse_first(
                wrong,
                lambda *index: (
                    f"word {index[-1] + 1} has tag {int(tags.expand_as(wrong)[index])}: expected 0 to "
                    f"{states - 1}; or -1 at every word for no sequence"
                ),
            )
        return (position * states + tags).where(real & (tags >= 0) & (tags < states), -1)

    @property
    def _one_matrix(self) -> bool:
        return self._shared[1]

    def _per_position(self) -> Self:
        """The same chain with a transition matrix for every position."""
        if not self._one_matrix:
            return self
        words, states = self._event_shape
        chain = copy.copy(self)
        transition = self.transition.expand(*self._batch_shape, max(words - 1, 0), states, states)
        chain._arrays, chain._axes, chain._shared = (self.unary, transition), ((2, 1), (3, 2)), (False, False)
        return chain

    def _align(self, q: Distribution) -> "tuple[Self, Self]":
        p, q = super()._align(q)
        return (p, q) if p._one_matrix == q._one_matrix else (p._per_position(), q._per_position())

    def _parts_of_arrays(self, parts: Tensor) -> list[Tensor]:
        previous, following = parts[..., :-1, :], parts[..., 1:, :]
        edges = previous.mT @ following if self._one_matrix else previous.unsqueeze(-1) * following.unsqueeze(-2)
        return [parts, edges]

    def _evaluate_parts(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        free = scores.new_zeros(scores.shape[-1], scores.shape[-1])
        value, parts = self._operators.evaluate([scores, free], lengths)
        return value, parts[0]

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return bool(shape) and shape[-1] == self._event_shape[0]

    def _real_parts(self) -> list[Bool[Tensor, "..."]]:
        real = torch.arange(self._event_shape[0], device=self.lengths.device) < self.lengths.unsqueeze(-1)
        edges = real.new_ones(()) if self._one_matrix else real[..., 1:, None, None]
        return [real.unsqueeze(-1), edges]

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        count = parts.sum(-1)
        wrong = int((count != (torch.arange(len(count)) < length)).nonzero()[0])
        end = "" if wrong < length else ", beyond the end,"
        return f"word {wrong + 1}{end} has {int(count[wrong])} states"


@dataclass(frozen=True, eq=False)
class Segmentation:
    """A chain of two states, of which only the second one, *selected*, is a part.

    Attributes:
        chain: the whole distribution, for its entropy and other quantities.

    Example:
        >>> Segmentation(LinearChainCRF(torch.zeros(3, 2), torch.zeros(2, 2))).marginals()
        tensor([0.5000, 0.5000, 0.5000])
    """

    chain: LinearChainCRF

    def marginals(self) -> Float[Tensor, "*batch key"]:
        """``p(z_i = 1)``."""
        return self.chain.marginals()[..., 1]

    def argmax(self) -> Float[Tensor, "*batch key"]:
        """A best selection."""
        return self.chain.argmax()[..., 1]

    def sample(
        self, sample_shape: tuple[int, ...] = (), generator: Generator | None = None
    ) -> Float[Tensor, "*sample_and_batch key"]:
        """Independent exact samples.

        Args:
            sample_shape: how many, as in ``torch.distributions``.
            generator: source of randomness; torch's default generator if None.

        Raises:
            ValueError: if ``sample_shape`` is not a shape, or ``generator`` is not a ``torch.Generator``.
        """
        return self.chain.sample(sample_shape, generator)[..., 1]

    def entropy(self) -> Float[Tensor, "*batch"]:
        """Entropy of the selection."""
        return self.chain.entropy()
