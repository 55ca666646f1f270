"""Positions that count what stands between two words, such as brackets that open and close, in place of all words."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class CountedPositions(nn.Module):
    r"""Running sums of steps that the words decide on: ``p_j = sum_{i <= j} tanh(W x_i + b)``.

    Positions that count words, as usual, say how far apart two words are; the difference of these says by how much the
    words from one to the other rise. With steps of +1 at an opening and -1 at a closing bracket it is zero within
    one pair of brackets, however deep that is nested, which no bounded state of an LSTM can say. Not from one of the
    five papers: Golovneva et al. (2024), "Contextual position encoding", let a query decide which words to count.

    Args:
        dim: width of the states.
        num_axes: how many sums.

    Shape:
        - states: ``(batch, word, dim)``
        - output: ``(batch, word, axis)``; the sum at a word includes its own step, padding has none.

    Raises:
        ValueError: for less than one sum.

    Example:
        >>> positions = CountedPositions(1, 1)
        >>> with torch.no_grad():
        ...     _ = positions.steps.weight.fill_(20.0), positions.steps.bias.zero_()
        >>> brackets = torch.tensor([[[1.0], [0.0], [1.0], [0.0], [-1.0], [-1.0]]])
        >>> positions(brackets, torch.ones(1, 6, dtype=torch.bool)).flatten().tolist()
        [1.0, 1.0, 2.0, 2.0, 1.0, 0.0]
    """

    def __init__(self, dim: int, num_axes: int) -> None:
        super().__init__()
        if num_axes < 1:
            raise ValueError(f"CountedPositions expects at least one sum, got {num_axes}")
        self.num_axes = num_axes
        self.steps = nn.Linear(dim, num_axes)

    def forward(
        self, states: Float[Tensor, "batch word dim"], mask: Bool[Tensor, "batch word"]
    ) -> Float[Tensor, "batch word axis"]:
        """The sums up to every word."""
        return torch.tanh(self.steps(states)).masked_fill(~mask.unsqueeze(-1), 0.0).cumsum(1)
