"""Additive scores of pairs of words by a small network, for arcs and for spans.

Reference: Kim et al. (2017), section 4.1 (the parsing LSTM).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from structattn.layers.linear import glorot_linear


class AdditiveScores(nn.Module):
    r"""``theta_ij = bound( s^T tanh(W_1 x_i + W_2 y_j + b) )``: Kim et al. (2017), section 4.1.

    The paper's outer function is again a hyperbolic tangent, which keeps the scores between -1 and 1.

    Args:
        dim: width of both states.
        hidden: width of the hidden layer; as wide as the states if ``None``.
        bound: the outer function; ``nn.Tanh()`` if ``None``, ``nn.Identity()`` for unbounded scores.

    Example:
        >>> scores = AdditiveScores(4, 8)(torch.ones(1, 2, 4), torch.ones(1, 3, 4))
        >>> scores.shape, bool((scores.abs() < 1).all())
        (torch.Size([1, 2, 3]), True)
    """

    def __init__(self, dim: int, hidden: int | None = None, *, bound: nn.Module | None = None) -> None:
        super().__init__()
        hidden = dim if hidden is None else hidden
        self.first = glorot_linear(dim, hidden)
        self.second = glorot_linear(dim, hidden, bias=False)
        self.score = glorot_linear(hidden, 1, bias=False)
        self.bound = nn.Tanh() if bound is None else bound

    def forward(
        self, first: Float[Tensor, "batch first dim"], second: Float[Tensor, "batch second dim"]
    ) -> Float[Tensor, "batch first second"]:
        """Score every pair."""
        pairs = torch.tanh(self.first(first).unsqueeze(2) + self.second(second).unsqueeze(1))
        scores: Tensor = self.bound(self.score(pairs).squeeze(-1))
        return scores
