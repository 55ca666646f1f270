"""Attention through a latent structure: from scores to a distribution, to weights of its parts, to an output.

Weights are the distribution's marginals, its best structure or a random one; all have the gradient of the marginals.

Reference: Kim et al. (2017), Structured attention networks, section 3; Bengio, Léonard and Courville (2013), section 4
(straight through); Papandreou and Yuille (2011) and Corro and Titov (2019), section 4 (perturb and MAP).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Generator, Tensor, nn

from structattn.data import SentenceBatch
from structattn.functional.masked_attention import masked_states
from structattn.layers.batch_argument import read_mask, resolve_mask


@runtime_checkable
class PartDistribution(Protocol):
    """What a scorer returns: a distribution over structures made of parts, such as a ``StructuredDistribution``.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> isinstance(DependencyCRF(torch.zeros(2, 3)), PartDistribution)
        True
    """

    def marginals(self) -> Tensor:
        """Probability of every part."""
        ...

    def argmax(self) -> Tensor:
        """The parts, 0 or 1, of a best structure."""
        ...

    def sample(self, sample_shape: tuple[int, ...] = (), generator: Generator | None = None) -> Tensor:
        """The parts, 0 or 1, of random structures.

        Args:
            sample_shape: shape of the samples, in front of the batch.
            generator: source of randomness; torch's own if not given.
        """
        ...

    def entropy(self) -> Tensor:
        """Entropy for each item of the batch."""
        ...


Expectation = Callable[[PartDistribution], Tensor]


def marginals(distribution: PartDistribution) -> Float[Tensor, "..."]:
    """Soft attention: the probability of every part, Kim et al. (2017), section 3.

    Args:
        distribution: over structures.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> marginals(DependencyCRF(torch.zeros(2, 3)))[0]
        tensor([0.6667, 0.0000, 0.3333])
    """
    return distribution.marginals()


def straight_through_argmax(distribution: PartDistribution) -> Float[Tensor, "..."]:
    """Hard attention: the parts of a best structure, with the gradient of the marginals.

    With `GumbelNoise` on the scores this is perturb-and-MAP sampling.

    Args:
        distribution: over structures.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> scores = torch.tensor([[0.0, 0.0, 2.0], [0.5, 0.0, 0.0]], requires_grad=True)
        >>> straight_through_argmax(DependencyCRF(scores))
        tensor([[0., 0., 1.], [1., 0., 0.]], grad_fn=...)
    """
    return _straight_through(distribution.argmax(), distribution.marginals())


class StraightThroughSample:
    """Hard attention: the parts of an exact sample, with the gradient of the marginals.

    Args:
        generator: source of randomness; torch's own if not given.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> random = StraightThroughSample(torch.Generator().manual_seed(0))
        >>> random(DependencyCRF(torch.zeros(2, 3))).sum(-1)
        tensor([1., 1.])
    """

    def __init__(self, generator: Generator | None = None) -> None:
        self.generator = generator

    def __call__(self, distribution: PartDistribution) -> Float[Tensor, "..."]:
        """Draw one structure for each item of the batch."""
        return _straight_through(distribution.sample((), self.generator), distribution.marginals())


class GumbelNoise(nn.Module):
    r"""Scores plus independent noise ``-scale log(-log(uniform))`` while training; in evaluation the scores themselves.

    The best structure under perturbed scores is a random structure (Papandreou and Yuille 2011, section 2): an exact
    sample for a single choice, an approximate one for structures.

    Args:
        scale: how strong the noise is.
        generator: source of randomness, on the device of the scores; torch's own if not given.

    Raises:
        ValueError: for a negative scale.

    Example:
        >>> noise = GumbelNoise(generator=torch.Generator().manual_seed(0))
        >>> noise(torch.zeros(3)).unique().numel(), noise.eval()(torch.zeros(3))
        (3, tensor([0., 0., 0.]))
    """

    def __init__(self, scale: float = 1.0, *, generator: Generator | None = None) -> None:
        super().__init__()
        if scale < 0:
            raise ValueError(f"GumbelNoise expects a scale of at least 0, got {scale}")
        self.scale = scale
        self.generator = generator

    def forward(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Perturb scores; forbidden parts stay forbidden."""
        if not self.training:
            return scores
        # An exponential variable is -log(uniform); the smallest number keeps its logarithm finite.
        exponential = torch.empty_like(scores).exponential_(generator=self.generator)
        return scores - self.scale * exponential.clamp(min=torch.finfo(scores.dtype).tiny).log()


class Reader(nn.Module, ABC):
    """Turns the weights of a structure's parts into an output and ``(query, key)`` weights.

    Example:
        >>> class First(Reader):
        ...     def forward(self, parts, values, mask):
        ...         weights = parts[..., :1]
        ...         return weights @ values[:, :1], weights[:, None]
        >>> First()(torch.ones(1, 2, 3), torch.ones(1, 3, 4), None)[0].shape
        torch.Size([1, 2, 4])
    """

    #: Whether the parts are the heads of words, so that the distribution is one over trees.
    reads_heads: ClassVar[bool] = False

    def enter(self, states: Float[Tensor, "batch *step word dim"]) -> Float[Tensor, "batch *step node dim"]:
        """The states that the scorer reads, such as those of the words with that of a root in front."""
        return states

    @abstractmethod
    def forward(
        self,
        parts: Float[Tensor, "batch ..."],
        values: Float[Tensor, "batch *step word value"],
        mask: Bool[Tensor, "batch word"] | None,
    ) -> tuple[Float[Tensor, "batch ..."], Float[Tensor, "batch 1 query key"]]:
        """Read the values.

        Args:
            parts: the weight of every part.
            values: what is read: the states themselves unless others are given.
            mask: which queries are real, if these are the words; otherwise ``None``.

        Returns:
            The output, and the weights of keys for each query.
        """


class Scorer(nn.Module, ABC):
    """Scores of the parts of a structure, and a distribution over structures.

    Its ``forward`` takes the states and the mask of the words, and queries if there are any, and returns a
    `PartDistribution`.

    Args:
        temperature: all scores are divided by it.
        noise: module that perturbs the scores, such as `GumbelNoise`.

    Raises:
        ValueError: if the temperature is not positive.

    Example:
        >>> from structattn.layers.segmentation import SelectionReader, SigmoidSelection
        >>> class Same(Scorer):
        ...     def reader(self):
        ...         return SelectionReader()
        ...     def forward(self, states, mask):
        ...         scores = self.adjusted(states @ states.mT)
        ...         return SigmoidSelection()(scores, mask.sum(-1), temperature=1.0)
        >>> StructuredAttention(Same())(torch.zeros(1, 2, 3))[0].shape
        torch.Size([1, 2, 3])
    """

    #: Whether the words that count must come first, as they do in a batch; otherwise any mask will do.
    needs_words_first: ClassVar[bool] = True

    def __init__(self, *, temperature: float = 1.0, noise: nn.Module | None = None) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"{type(self).__name__} expects a temperature above 0, got {temperature}")
        self.temperature = temperature
        self.noise = nn.Identity() if noise is None else noise

    def adjusted(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Scores with noise, divided by the temperature.

        Args:
            scores: of any shape.
        """
        noisy: Tensor = self.noise(scores)
        return noisy / self.temperature

    @abstractmethod
    def reader(self) -> Reader:
        """A new reader of the parts that this scorer scores, with default options."""


class StructuredAttention(nn.Module):
    r"""Attention under a distribution over structures: ``context = E_{z ~ p(z | x, q)} [ f(x, z) ]``.

    Kim et al. (2017), section 3. The scorer determines the structure, the expectation turns its distribution into
    weights of parts, and the reader turns these into the output:

    ===================  =========================================================  ============================
    structure            scorer                                                     reader
    ===================  =========================================================  ============================
    heads of words       `DependencyScorer`, trees or independent heads (3.2, 4.1)  `HeadReader`
    segments of words    `SegmentationScorer`, a two-state chain (3.1, 4.2)         `SelectionReader`
    phrases around       `SpanScorer`, binary trees                                 `PhraseReader`
    a sequence of facts  `ChainScorer`, a chain over steps (4.3)                    `StepReader`
    an alignment         `SegmentationScorer` with `AlignmentSelection`             `SelectionReader`
    ===================  =========================================================  ============================

    Padding gives zeros. So do words that a mask leaves out, wherever they are: the output for the others is exactly
    that for the sentence without them.

    Args:
        scorer: module ``(states, mask)``, or ``(states, mask, queries)``, to a distribution over structures.
        expectation: from the distribution to weights of parts: `marginals`, `straight_through_argmax`,
            `StraightThroughSample`, `SparseMap`.
        reader: from weights of parts to the output; ``scorer.reader()`` if ``None``.

    Raises:
        TypeError: without a reader, for a scorer that has none of its own.

    Example:
        >>> from structattn.layers import DependencyScorer
        >>> attention = StructuredAttention(DependencyScorer(4))
        >>> output, weights = attention(torch.ones(1, 2, 4), need_weights=True)
        >>> output.shape, weights.shape, weights[0, 0].diagonal()
        (torch.Size([1, 2, 4]), torch.Size([1, 1, 2, 2]), tensor([0., 0.], grad_fn=...))
    """

    weights_axes: ClassVar[str] = "head query key"

    def __init__(
        self, scorer: nn.Module, expectation: Expectation = marginals, *, reader: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.scorer = scorer
        self.expectation = expectation
        if reader is None:
            if not isinstance(scorer, Scorer):
                raise TypeError(
                    f"StructuredAttention expects a reader for the parts of {type(scorer).__name__}, got none"
                )
            reader = scorer.reader()
        self.reader = reader

    def distribution(
        self,
        states: Float[Tensor, "batch *step word dim"],
        batch: SentenceBatch | Shaped[Tensor, "batch word"] | None = None,
        *,
        queries: Float[Tensor, "batch ..."] | None = None,
        query_mask: Shaped[Tensor, "batch query"] | None = None,
    ) -> PartDistribution:
        """The distribution over structures, for its entropy, its best structure or a supervised loss.

        If a mask has holes, the distribution is over the remaining words, in their order.

        Args:
            states: states of the words, which the scorer reads.
            batch: the sentences, or a mask that is ``True`` at the words that count; all of them if ``None``.
            queries: the states that attend, for scorers that take queries; the words themselves if ``None``.
            query_mask: which queries count, for scorers that take it; all of them if ``None``.
        """
        words = self._words(states, batch)
        return self._distribution(words.first(states), words.mask, queries, query_mask)

    def forward(
        self,
        states: Float[Tensor, "batch *step word dim"],
        batch: SentenceBatch | Shaped[Tensor, "batch word"] | None = None,
        *,
        queries: Float[Tensor, "batch ..."] | None = None,
        query_mask: Shaped[Tensor, "batch query"] | None = None,
        values: Float[Tensor, "batch *step word value"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch ..."], Float[Tensor, "batch 1 query key"] | None]:
        """Attend.

        Args:
            states: states of the words, which the scorer reads. Padding may contain anything, except in states of each
                step, which are not copied to clear it: there it must be finite.
            batch: the sentences, or a mask that is ``True`` at the words that count; all of them if ``None``.
            queries: the states that attend, for scorers that take queries; the words themselves if ``None``.
            query_mask: which queries count, for scorers that take it; all of them if ``None``.
            values: the values to read; the states themselves if ``None``.
            need_weights: also return the weights.
        """
        words = self._words(states, batch)
        read = words.first(states)
        if query_mask is not None:
            if queries is None:
                raise ValueError("StructuredAttention: query_mask: expected queries with it; words have their own mask")
            query_mask = read_mask(query_mask, wanted_by=self)
            queries = masked_states(queries, query_mask)
        parts = self.expectation(self._distribution(read, words.mask, queries, query_mask))
        values = read if values is None else words.first(values)
        output, weights = self.reader(parts, values, words.mask if queries is None else query_mask)
        if queries is None:
            output = words.back(output)
        if not need_weights:
            return output, None
        weights = words.back(weights.mT.squeeze(1)).mT
        return output, (words.back(weights) if queries is None else weights).unsqueeze(1)

    def _distribution(self, states: Tensor, mask: Tensor, *asking: Tensor | None) -> PartDistribution:
        enter: Callable[[Tensor], Tensor] = self.reader.enter  # type: ignore[assignment]  # torch: a tensor or module
        queries = [tensor for tensor in asking if tensor is not None]
        distribution: PartDistribution = self.scorer(enter(states), mask, *queries)
        return distribution

    def _words(self, states: Tensor, batch: SentenceBatch | Tensor | None) -> "_Words":
        needs_order = getattr(self.scorer, "needs_words_first", True)
        if states.dim() > 3:  # states of each step
            states = states[:, 0]
        mask = resolve_mask(states, batch, wanted_by=self)
        return _Words(mask, mask.cumsum(1) - 1 if needs_order and isinstance(batch, Tensor) else None)


def normalised(weights: Float[Tensor, "*batch key"], total: float | None) -> Float[Tensor, "*batch key"]:
    """Weights scaled to sum to ``total``, unless it is ``None``: Kim et al. (2017), section 4.2; zeros stay zeros."""
    if total is None:
        return weights
    return total * weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).eps)


def _straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    return hard + (soft - soft.detach())


class _Words:
    """The words that count, moved to the front and back again; left in place without a ``rank`` for each."""

    def __init__(self, mask: Bool[Tensor, "batch word"], rank: Tensor | None) -> None:
        self._mask, self._rank = mask, None if rank is None else rank.clamp(min=0)
        self._order = None if rank is None else (~mask).int().argsort(dim=1, stable=True)
        #: the mask of the words at the front.
        self.mask = mask if self._order is None else mask.gather(1, self._order)

    def first(self, states: Tensor) -> Tensor:
        """The states of the words that count, then zeros; states of each step are unchanged."""
        if states.dim() > 3:
            return states
        if self._order is not None:
            states = states.gather(1, self._order.unsqueeze(-1).expand_as(states))
        return masked_states(states, self.mask)

    def back(self, states: Tensor) -> Tensor:
        """Rows moved back to where their words are; zero for words that do not count."""
        if self._rank is None:
            return states
        rows = states.gather(1, self._rank.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
        return masked_states(rows, self._mask)
