"""Distributions over sequences: one state per word (linear chain), or labelled segments of words (semi-Markov).

Separate from trees because a sequence is read from left to right.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields; Sarawagi and Cohen (2004), Semi-Markov
conditional random fields; Kim et al. (2017), section 3.1.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from structattn import kernels
from structattn.distributions.distribution import Selector, StructuredDistribution
from structattn.distributions.flat_parts import as_type, at_least_single
from structattn.distributions.lengths import checked_lengths, within
from structattn.distributions.semirings import ChartSelector
from structattn.kernels import chain_arrays
from structattn.kernels.operators import Operators


class LinearChainCRF(StructuredDistribution):
    r"""A linear chain over states ``y_i``: Lafferty et al. (2001); Kim et al. (2017), section 3.1.

    ``p(y) = exp( sum_i unary[i, y_i] + sum_i transition[(i,) y_i, y_{i+1}] - A )``. Parts are ``z[i, c] = 1`` if
    ``y_i = c``. Start and stop scores belong into the first and last unary.

    Args:
        unary: score of each state of each word.
        transition: ``[from, to]`` for all positions, or ``[position, from, to]`` for ``n - 1`` positions, with the
            batch axes.
        lengths: number of words of each sentence; all ``n`` if not given.
        validate_args: check the scores and the arguments of `log_prob`; False saves time, and ``torch.vmap`` needs it.

    Raises:
        ValueError: if shapes or lengths do not fit together, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import LinearChainCRF
        >>> unary, transition = torch.tensor([[0.0, 1.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, -torch.inf]])
        >>> chain = LinearChainCRF(unary, transition)
        >>> chain.to_structure(chain.argmax()).tolist(), round(chain.log_count().exp().item())
        ([0, 1], 3)
    """

    def __init__(
        self,
        unary: Float[Tensor, "*batch word state"],
        transition: Float[Tensor, "*_ before after"],
        lengths: Tensor | None = None,
        *,
        validate_args: bool | None = True,
    ) -> None:
        if unary.dim() < 2 or unary.shape[-1] == 0:
            raise ValueError(f"LinearChainCRF: unary of shape {tuple(unary.shape)}: expected (..., n, states)")
        *batch, words, states = unary.shape
        steps = max(words - 1, 0)
        expected = (*batch, steps, states, states)
        self._shared = transition.dim() == 2
        wanted = expected[-2:] if self._shared else expected
        if transition.shape != wanted:
            try:
                transition = transition.expand(wanted)
            except RuntimeError:
                raise ValueError(
                    f"LinearChainCRF: transition of shape {tuple(transition.shape)}: "
                    f"expected {expected[-2:]} or {expected}"
                ) from None
        lengths = checked_lengths(lengths, unary.shape[:-2], num_words=words, like=unary)
        transition = as_type(transition, unary.dtype)
        super().__init__(unary, transition, lengths=lengths, event_shape=unary.shape[-2:], validate_args=validate_args)

    @property
    def _scores(self) -> Float[Tensor, "*batch part"]:
        unary, transition = self._given
        batch = self._batch_shape
        if self._shared:
            transition = transition.expand(*batch, *transition.shape)
        return torch.cat([unary.flatten(-2), transition.flatten(len(batch))], -1)

    def _given_for(self, shape: torch.Size) -> tuple[Tensor, ...]:
        unary, transition = self._given
        matrices = transition if self._shared else transition.expand(*shape, *transition.shape[-3:])
        return unary.expand(*shape, *self._event_shape), matrices

    def _separate(self) -> tuple[Tensor, Tensor, Tensor]:
        """Unaries, transitions and lengths with one batch axis, for kernels that read them as they are."""
        transition = at_least_single(self._given[1])
        if not self._shared:
            transition = self._one_batch_axis(transition, 3)
        return super()._raw_scores(), transition, self._flat_lengths()

    def log_partition(self) -> Float[Tensor, "*batch"]:
        """``A = log sum_y exp(score(y))``; ``-inf`` if nothing is allowed."""
        found = chain_arrays.log_partition(*self._separate())
        return super().log_partition() if found is None else self._per_item(found)

    def marginals(self) -> Float[Tensor, "*batch word state"]:
        """``mu = E[z]``, the probability of every state at every word; zero on padding."""
        found = chain_arrays.state_marginals(*self._separate())
        return super().marginals() if found is None else super()._to_parts(found)

    def edge_marginals(self) -> Float[Tensor, "*batch position state state"]:
        """``p(y_i = a, y_{i+1} = b)`` for each of the ``n - 1`` positions; zero where padding begins."""
        chain = self._per_position()
        parts = chain._operators.parts(chain._raw_scores(), chain._flat_lengths(), chain._sizes())
        words, states = self.event_shape
        edges = parts[..., words * states :]
        return edges.reshape(*self.batch_shape, max(words - 1, 0), states, states).to(self._given[0].dtype)

    def to_structure(self, parts: Float[Tensor, "*shape word state"]) -> Int[Tensor, "*shape word"]:
        """Tags; 0 beyond the end of a sentence."""
        return parts.argmax(-1)

    def from_structure(self, structure: Int[Tensor, "*shape word"]) -> Float[Tensor, "*shape word state"]:
        """Parts of a sequence of tags; tags beyond the end are ignored."""
        words, states = self.event_shape
        real = within(self.lengths, words)
        parts = torch.nn.functional.one_hot(structure.where(real, 0), states) * real[..., None]
        return parts.to(self._given[0].dtype)

    def _per_position(self) -> "LinearChainCRF":
        """The same chain with a transition matrix for every position."""
        if not self._shared:
            return self
        words, states = self.event_shape
        unary, transition = self._given
        transition = transition.expand(*self.batch_shape, max(words - 1, 0), states, states)
        return LinearChainCRF(unary, transition, self.lengths, validate_args=False)

    def _comparable(self, other: StructuredDistribution) -> tuple[StructuredDistribution, StructuredDistribution]:
        mine, theirs = super()._comparable(other)
        if isinstance(mine, LinearChainCRF) and isinstance(theirs, LinearChainCRF) and mine._shared != theirs._shared:
            return mine._per_position(), theirs._per_position()
        return mine, theirs

    def _sizes(self) -> list[int]:
        return [*self.event_shape, int(self._shared)]

    @property
    def _operators(self) -> Operators:
        return kernels.chain.OPERATORS

    def _raw_scores(self) -> Float[Tensor, "batch part"]:
        return self._one_batch_axis(at_least_single(self._scores), 1)

    def argmax(self) -> Float[Tensor, "*batch word state"]:
        """States of a best sequence; of several equal ones see `ChartSelector`."""
        unary, transition, lengths = self._separate()
        found = chain_arrays.argmax(unary.detach(), transition.detach(), lengths)
        return super().argmax() if found is None else super()._to_parts(found)

    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return kernels.chain.ENTROPY(scores, lengths, self._sizes())[0]

    def _selector(self) -> Selector:
        words, states = self.event_shape
        return ChartSelector(kernels.chain.chart(words, states, self._shared))

    def _real_parts(self) -> Tensor:
        words, states = self.event_shape
        return kernels.chain.real_parts(self.lengths, num_words=words, num_states=states, shared=self._shared)

    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return kernels.chain.best_states(scores, tuple(self._sizes()))

    def _to_parts(self, flat: Tensor, *sample_shape: int) -> Tensor:
        words, states = self.event_shape
        return super()._to_parts(flat[..., : words * states], *sample_shape)

    def _from_parts(self, parts: Tensor) -> Tensor:
        edges = parts[..., :-1, :, None] * parts[..., 1:, None, :]
        edges = edges.sum(-3) if self._shared else edges.flatten(-3, -2)
        return torch.cat([parts.flatten(-2), edges.flatten(-2)], -1)


class SemiMarkovCRF(StructuredDistribution):
    r"""Segmentations with a label for each segment: Sarawagi and Cohen (2004), equation 1.

    ``p(y) = exp( sum over segments of scores[start, width - 1, previous label, label] - A )``. A segment covers the
    words ``start .. start + width - 1``; segments follow each other without a gap and end with the sentence. The first
    segment has no predecessor: it reads ``scores[0, :, 0, :]``, and the other rows at ``start = 0`` are ignored. Parts
    have the shape of the scores.

    Args:
        scores: score of each segment after each label.
        lengths: number of words of each sentence; all ``n`` if not given.
        validate_args: check the scores and the arguments of `log_prob`; False saves time, and ``torch.vmap`` needs it.

    Raises:
        ValueError: if shapes or lengths do not fit together, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import SemiMarkovCRF
        >>> segments = SemiMarkovCRF(torch.zeros(3, 2, 1, 1))
        >>> round(segments.log_count().exp().item())
        3
        >>> segments.to_structure(segments.topk(3))[:, :, :2].tolist()
        [[[0, 1], [1, 3], [0, 0]], [[0, 2], [2, 3], [0, 0]], [[0, 1], [1, 2], [2, 3]]]
    """

    def __init__(
        self,
        scores: Float[Tensor, "*batch word width before state"],
        lengths: Tensor | None = None,
        *,
        validate_args: bool | None = True,
    ) -> None:
        if scores.dim() < 4 or scores.shape[-1] != scores.shape[-2] or 0 in scores.shape[-3:]:
            raise ValueError(
                f"SemiMarkovCRF: scores of shape {tuple(scores.shape)}: expected (..., n, max_width, states, states)"
            )
        lengths = checked_lengths(lengths, scores.shape[:-4], num_words=scores.shape[-4], like=scores)
        event_shape = scores.shape[-4:]
        super().__init__(scores, lengths=lengths, event_shape=event_shape, validate_args=validate_args)

    def to_structure(self, parts: Float[Tensor, "*shape word width state state"]) -> Int[Tensor, "*shape word 3"]:
        """Segments ``(start, end, label)`` from left to right, half-open; ``(0, 0, 0)`` where there are no more."""
        words, _, _, states = self.event_shape
        labelled = parts.sum(-2).flatten(-2)
        used, index = labelled.max(-1)
        start = torch.arange(words, device=parts.device).expand_as(index)
        segments = torch.stack([start, start + index // states + 1, index % states], -1)
        order = (used == 0).long().argsort(dim=-1, stable=True)
        segments = segments.masked_fill((used == 0)[..., None], 0)
        return segments.gather(-2, order[..., None].expand_as(segments))

    def from_structure(self, structure: Int[Tensor, "*shape word 3"]) -> Float[Tensor, "*shape word width state state"]:
        """Parts of segments ``(start, end, label)`` in order."""
        _, widths, states, _ = self.event_shape
        start, end, label = structure.unbind(-1)
        before = torch.cat([torch.zeros_like(label[..., :1]), label[..., :-1]], -1)
        width = (end - start).clamp(min=1)
        if self._validate_args and (width > widths).any():
            raise ValueError(f"a segment has {int(width.max())} words: expected at most {widths}")
        index = ((start * widths + width - 1) * states + before) * states + label
        parts = torch.zeros(*structure.shape[:-2], self._event_shape.numel(), device=structure.device)
        real = (end > start).to(parts.dtype)
        parts = parts.scatter_add(-1, index * real.long(), real)
        return parts.reshape((*structure.shape[:-2], *self.event_shape)).to(self._given[0].dtype)

    @property
    def _operators(self) -> Operators:
        return kernels.segments.OPERATORS

    def _sizes(self) -> list[int]:
        return list(self.event_shape[:3])

    def _real_parts(self) -> Tensor:
        return kernels.segments.real_segments(self.lengths, self._sizes()).flatten(-4)

    def _entropy(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return kernels.segments.ENTROPY(scores, lengths, self._sizes())[0]

    def _selector(self) -> Selector:
        words, widths, states, _ = self.event_shape
        return ChartSelector(kernels.segments.chart(words, widths, states))

    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Nothing can be taken out: structures differ in their number of segments."""
        return torch.zeros_like(scores), scores.new_zeros(len(scores))
