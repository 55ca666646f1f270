"""Attention that moves along the source: each step starts where the last one ended.

Reference: Graves (2013), Generating sequences with recurrent neural networks, arXiv 1308.0850, section 5 (the soft
window). There, the steps are exponentials, and the weights are an unnormalised sum of Gaussian functions.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.functional import masked_softmax, masked_states
from structattn.layers.linear import glorot_linear


class WindowAttention(nn.Module):
    r"""A window with one centre, which moves to the right by a bounded step for each query.

    ``k_t = k_{t-1} + sum_m m softmax(W q_t)_m`` with ``m`` from 0 to ``longest_step``, so that steps can become whole
    numbers; ``a_tj = softmax_j(-softplus(v^T q_t + c) (k_t - j)^2)`` over the real words ``j``, counted from 0, and
    ``context_t = sum_j a_tj x_j``. The weights do not depend on what the words are: where progress so far determines
    the next word to read, content cannot mislead. All queries are computed at once, as the centres are one cumulative
    sum, which is kept in at least 32 bits.

    Args:
        query_dim: width of the queries.
        longest_step: largest number of words that the window can move at once.

    Raises:
        ValueError: if the longest step is below 1.

    Example:
        >>> window = WindowAttention(4)
        >>> mask = torch.tensor([[True, True, True, False]])
        >>> context, weights = window(torch.ones(1, 4, 6), mask, queries=torch.ones(1, 2, 4))
        >>> context.shape, weights.shape
        (torch.Size([1, 2, 6]), torch.Size([1, 1, 2, 4]))
    """

    def __init__(self, query_dim: int, *, longest_step: int = 2) -> None:
        super().__init__()
        if longest_step < 1:
            raise ValueError(f"WindowAttention expects a longest step of at least 1, got {longest_step}")
        self.steps = glorot_linear(query_dim, longest_step + 1)
        self.precision = glorot_linear(query_dim, 1)
        # Narrow enough from the start to tell neighbours apart.
        nn.init.ones_(self.precision.bias)

    def positions(
        self, queries: Float[Tensor, "batch query query_dim"], start: Float[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch query"]:
        """The centre of the window at each query.

        Args:
            queries: one after the other.
            start: the centre before the first of them; the first word if ``None``.
        """
        shares: Tensor = self.steps(queries).softmax(-1)
        shares = shares.to(torch.promote_types(shares.dtype, torch.float32))
        sizes = torch.arange(shares.shape[-1], device=shares.device, dtype=shares.dtype)
        moved: Tensor = (shares * sizes).sum(-1).cumsum(-1)
        return moved if start is None else start.unsqueeze(-1) + moved

    def forward(
        self,
        states: Float[Tensor, "batch key dim"],
        mask: Bool[Tensor, "batch key"],
        *,
        queries: Float[Tensor, "batch query query_dim"],
        positions: Float[Tensor, "batch query"] | None = None,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch 1 query key"]]:
        """What each query reads, and the weights; zeros where there is no word.

        Args:
            states: states of the source.
            mask: which of its words are real.
            queries: one after the other.
            positions: the centres, as ``positions`` returns them; computed from the first word on if ``None``.
        """
        centres = self.positions(queries) if positions is None else positions
        words = torch.arange(states.shape[1], device=states.device, dtype=centres.dtype)
        precision = F.softplus(self.precision(queries)).to(centres.dtype)
        scores = -precision * (centres.unsqueeze(-1) - words).square()
        weights = masked_softmax(scores, mask.unsqueeze(1)).to(states.dtype)
        return weights @ masked_states(states, mask), weights.unsqueeze(1)
