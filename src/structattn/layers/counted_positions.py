"""Positions that count particular words, such as opening and closing brackets, in place of all words."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class CountedPositions(nn.Module):
    r"""Running sums of steps that depend on the words: ``p_j = sum_{i <= j} tanh(W x_i + b)``.

    The difference of two ordinary positions is their distance in words; here it is the sum of the steps from one word
    to the other. With steps of +1 at an opening and -1 at a closing bracket, it is zero between words directly inside
    the same pair of brackets, however deeply nested, which no bounded LSTM state can express. Not from one of the five
    papers: in Golovneva et al. (2024), "Contextual position encoding", a query decides which words to count.

    Args:
        dim: width of the states.
        num_axes: number of sums.

    Shape:
        - states: ``(batch, word, dim)``
        - output: ``(batch, word, axis)``; the sum at a word includes its own step; padding adds none.

    Raises:
        ValueError: for fewer than one sum.

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
        """The sum up to every word."""
        return torch.tanh(self.steps(states)).masked_fill(~mask.unsqueeze(-1), 0.0).cumsum(1)
