"""The two-layer feed-forward network used after attention and inside pooling.

Vaswani et al. 2017, equation 2; MS-SAN (arXiv 2012.14642) uses the same form with a hidden layer as wide as its input.
"""

from jaxtyping import Float
from torch import Tensor, nn

from structattn.layers.linear import glorot_linear


class FeedForward(nn.Module):
    r"""``FFN(x) = max(0, x W1 + b1) W2 + b2``, applied to every position separately.

    Args:
        dim: width of input and output.
        hidden: width of the hidden layer.
        dropout: applied to the hidden layer.

    Example:
        >>> import torch
        >>> feed_forward = FeedForward(300, 300)
        >>> feed_forward(torch.zeros(2, 5, 300)).shape, sum(p.numel() for p in feed_forward.parameters())
        (torch.Size([2, 5, 300]), 180600)
    """

    def __init__(self, dim: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = glorot_linear(dim, hidden)
        self.outer = glorot_linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Transform every state."""
        transformed: Tensor = self.outer(self.dropout(self.inner(states).relu()))
        return transformed
