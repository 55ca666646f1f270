"""Structured cross-attention: all queries of a text select keys together, in order, each key for one query at most.

Reference: Kim et al. (2017), Structured attention networks, section 3 (the general form); Needleman and Wunsch (1970).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from structattn.distributions import AlignmentCRF


class AlignmentSelection(nn.Module):
    r"""Turns scores into a monotone alignment of the queries with the keys, `AlignmentCRF`.

    ``p(z) = exp( sum over matches of (theta_ij / temperature - b) - A )`` with a learnt cost ``b`` of a match, zero at
    first: the larger it is, the more queries select nothing. A query matches at most one key, so its weights sum to at
    most one, and so do those of a key.

    Example:
        >>> from structattn.layers import SegmentationScorer, StructuredAttention
        >>> attention = StructuredAttention(SegmentationScorer(4, 6, selection=AlignmentSelection()))
        >>> keys, queries = torch.ones(1, 3, 4), torch.ones(1, 2, 6)
        >>> output, weights = attention(keys, queries=queries, need_weights=True)
        >>> output.shape, bool((weights.sum(-1) <= 1).all())
        (torch.Size([1, 2, 4]), True)
    """

    def __init__(self) -> None:
        super().__init__()
        self.cost = nn.Parameter(torch.zeros(()))

    def forward(
        self, scores: Float[Tensor, "batch query key"], lengths: Int[Tensor, " batch"], *, temperature: float
    ) -> AlignmentCRF:
        """An alignment of all queries; one without a score above ``-inf`` matches nothing.

        Args:
            scores: for each query the scores of the keys.
            lengths: how many keys of each sentence are real; these come first.
            temperature: scores are divided by it.
        """
        return AlignmentCRF(scores / temperature - self.cost.to(scores.dtype), key_lengths=lengths)
