"""Segments of words: scores of words for a query, distributions over selections, and a reader of the selected words.

Several words may be selected, and neighbouring choices depend on each other.

Reference: Kim et al. (2017), Structured attention networks, section 3.1 and section 4.2.
"""

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from structattn.distributions import IndependentChoice, IndependentSelection, LinearChainCRF
from structattn.distributions.linear_chain_crf import Segmentation
from structattn.layers.batch_argument import count_words, read_mask
from structattn.layers.linear import glorot_linear
from structattn.layers.structured_attention import PartDistribution, Reader, Scorer, normalised


class TwoStateChain(nn.Module):
    r"""Turns scores into a chain over ``z_i`` in {0, 1}: Kim et al. (2017), section 3.1.

    ``p(z) = softmax( sum_i theta_i(z_i) + sum_i b_{z_i, z_{i+1}} )`` with ``theta_i(1)`` the score of word ``i``,
    ``theta_i(0) = 0``, and a learnt 2x2 matrix ``b``, initialised to zero.

    Example:
        >>> chain = TwoStateChain()(torch.zeros(1, 1, 3), torch.tensor([2]), temperature=1.0)
        >>> chain.marginals()
        tensor([[[0.5000, 0.5000, 0.0000]]], grad_fn=...)
    """

    def __init__(self) -> None:
        super().__init__()
        self.transition = nn.Parameter(torch.zeros(2, 2))

    def forward(
        self, scores: Float[Tensor, "batch query key"], lengths: Int[Tensor, " batch"], *, temperature: float
    ) -> Segmentation:
        """A chain over the keys for each query.

        Args:
            scores: for each query the scores of the keys.
            lengths: how many keys of each sentence are real; these come first.
            temperature: scores are divided by it.
        """
        unary = torch.stack([torch.zeros_like(scores), scores], -1)
        transition = self.transition.to(unary.dtype)
        return Segmentation(LinearChainCRF(unary / temperature, transition / temperature, lengths[:, None]))


class _IndependentKeys(nn.Module):
    """Turns scores into a distribution that knows no order of the keys."""

    distribution: type[IndependentChoice | IndependentSelection]

    def forward(
        self, scores: Float[Tensor, "batch query key"], lengths: Int[Tensor, " batch"], *, temperature: float
    ) -> IndependentChoice | IndependentSelection:
        """A distribution over the keys for each query.

        Args:
            scores: for each query the scores of the keys.
            lengths: how many keys of each sentence are real; these come first.
            temperature: scores are divided by it.
        """
        real = torch.arange(scores.shape[-1], device=scores.device) < lengths[:, None, None]
        return self.distribution(scores / temperature, real.expand_as(scores))


class SigmoidSelection(_IndependentKeys):
    """Turns scores into independent Bernoulli variables, a chain without transitions: Kim et al. (2017), section 4.2.

    Example:
        >>> SigmoidSelection()(torch.zeros(1, 1, 3), torch.tensor([2]), temperature=1.0).marginals()
        tensor([[[0.5000, 0.5000, 0.0000]]])
    """

    distribution = IndependentSelection


class SoftmaxSelection(_IndependentKeys):
    """Turns scores into the choice of one word: simple attention, Kim et al. (2017), section 2.

    Example:
        >>> SoftmaxSelection()(torch.zeros(1, 1, 3), torch.tensor([2]), temperature=1.0).marginals()
        tensor([[[0.5000, 0.5000, 0.0000]]])
    """

    distribution = IndependentChoice


class SegmentationScorer(Scorer):
    r"""Bilinear scores ``theta_i = x_i^T W q`` and a distribution over selections: Kim et al. (2017), 2 and 4.2.

    Args:
        dim: width of the states.
        query_dim: width of the queries; ``dim`` if ``None``.
        selection: from scores to a distribution: `TwoStateChain` (if ``None``), `SigmoidSelection`, `SoftmaxSelection`;
            or `AlignmentSelection`, one distribution for all queries.
        temperature: all scores, those of transitions included, are divided by it.
        noise: module that perturbs the scores, such as `GumbelNoise`.

    Raises:
        ValueError: if the temperature is not positive.

    Example:
        >>> scorer = SegmentationScorer(4, 6)
        >>> distribution = scorer(torch.ones(1, 2, 4), torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3, 6))
        >>> distribution.marginals().shape
        torch.Size([1, 3, 2])
    """

    def __init__(
        self,
        dim: int,
        query_dim: int | None = None,
        *,
        selection: nn.Module | None = None,
        temperature: float = 1.0,
        noise: nn.Module | None = None,
    ) -> None:
        super().__init__(temperature=temperature, noise=noise)
        self.bilinear = glorot_linear(dim if query_dim is None else query_dim, dim, bias=False)
        self.selection = TwoStateChain() if selection is None else selection

    def reader(self) -> "SelectionReader":
        """Each query reads the sum of what it selects."""
        return SelectionReader()

    def forward(
        self,
        states: Float[Tensor, "batch key dim"],
        mask: Shaped[Tensor, "batch key"],
        queries: Float[Tensor, "batch query query_dim"] | None = None,
        query_mask: Shaped[Tensor, "batch query"] | None = None,
    ) -> PartDistribution:
        """A distribution over selections of keys for each query.

        Args:
            states: the keys.
            mask: which of them count; these come first.
            queries: the queries; the keys themselves if ``None``.
            query_mask: which queries count; the others select nothing.
        """
        mask, lengths = count_words(mask, wanted_by=self)
        scores = self.noise(self.bilinear(states if queries is None else queries) @ states.mT)
        if queries is None:
            query_mask = mask
        if query_mask is not None:
            query_mask = read_mask(query_mask, wanted_by=self)
            scores = scores.masked_fill(~query_mask.unsqueeze(-1), -torch.inf)
        selection: PartDistribution = self.selection(scores, lengths, temperature=self.temperature)
        return selection


class SelectionReader(Reader):
    r"""The sum of the words that a query selects: Kim et al. (2017), sections 3.1 and 4.2.

    ``context_t = sum_i a_i x_i`` with ``a_i = p(z_i = 1 | x, q_t)``; with ``total``, the paper's lambda,
    ``a_i = total p(z_i = 1) / sum_k p(z_k = 1)``, which keeps the chain from selecting everything (2 in the paper). All
    queries of a sentence, such as the steps of a decoder, are one batch of chains.

    Args:
        total: the sum that the weights of a query are scaled to; unscaled if ``None``.

    Example:
        >>> output, weights = SelectionReader(total=2.0)(torch.tensor([[[0.5, 0.5, 0.0]]]), torch.ones(1, 3, 1), None)
        >>> output.tolist(), weights.tolist()
        ([[[2.0]]], [[[[1.0, 1.0, 0.0]]]])
    """

    def __init__(self, total: float | None = None) -> None:
        super().__init__()
        self.total = total

    def forward(
        self,
        parts: Float[Tensor, "batch query key"],
        values: Float[Tensor, "batch key value"],
        mask: Bool[Tensor, "batch query"] | None,
    ) -> tuple[Float[Tensor, "batch query value"], Float[Tensor, "batch 1 query key"]]:
        """What each query reads; padded queries get zeros.

        Args:
            parts: for each query the weight of each key.
            values: the keys' values.
            mask: which queries are real; all if ``None``.

        Returns:
            The output, and the weights after scaling.
        """
        weights = parts if mask is None else parts.masked_fill(~mask.unsqueeze(-1), 0.0)
        weights = normalised(weights, self.total)
        return weights @ values, weights.unsqueeze(1)
