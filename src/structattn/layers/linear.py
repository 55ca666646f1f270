"""Linear maps with the initialisation that every layer here uses, and the two-layer network made of them."""

from jaxtyping import Float
from torch import Tensor, nn

from structattn.functional import linear


class Linear(nn.Linear):
    """``torch.nn.Linear`` with ``functional.linear``, for models that read many batches without gradients."""

    def forward(self, states: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """``states @ weight.T + bias``."""
        return linear(states, self.weight, self.bias)


def glorot_linear(
    inputs: int, outputs: int, *, bias: bool = True, blocks: int = 1, kind: type[nn.Linear] = nn.Linear
) -> nn.Linear:
    """A linear map with Glorot-uniform weights and zero bias (Glorot and Bengio 2010, equation 16).

    It consists of ``blocks`` equal maps, stacked, each initialised as a map of its own.
    """
    linear_map = kind(inputs, outputs, bias=bias)
    for block in linear_map.weight.chunk(blocks):
        nn.init.xavier_uniform_(block)
    if bias:
        nn.init.zeros_(linear_map.bias)
    return linear_map


class FeedForward(nn.Module):
    r"""``FFN(x) = max(0, x W1 + b1) W2 + b2``, applied to every position separately (Vaswani et al. 2017, equation 2).

    MS-SAN (arXiv 2012.14642) has the same network with a hidden layer as wide as its input.

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
