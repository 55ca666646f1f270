"""Additive scores of pairs of words by a small network, for arcs and for spans.

Reference: Kim et al. (2017), section 4.1 (the parsing LSTM).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from structattn.functional.torch_state import at_least_single, full_precision
from structattn.kernels.additive_pair_scores import additive_scores
from structattn.layers.linear import glorot_linear


class AdditiveScores(nn.Module):
    r"""``theta_ij = bound( s^T tanh(W_1 x_i + W_2 y_j + b) )``: Kim et al. (2017), section 4.1.

    The paper's outer function is also a hyperbolic tangent, which keeps the scores between -1 and 1. Not in the paper:
    with positions ``p`` and ``q`` of the two sides, ``V (q_j - p_i)`` is added inside the inner tangent, so that a
    score depends on how far apart the two are, not on where they are.

    Args:
        dim: width of both states.
        hidden: width of the hidden layer; as wide as the states if ``None``.
        bound: the outer function; ``nn.Tanh()`` if ``None``, ``nn.Identity()`` for unbounded scores.
        axes: number of coordinates of a state's position; 0 for no positions.

    Example:
        >>> scores = AdditiveScores(4, 8)(torch.ones(1, 2, 4), torch.ones(1, 3, 4))
        >>> scores.shape, bool((scores.abs() < 1).all())
        (torch.Size([1, 2, 3]), True)
    """

    def __init__(self, dim: int, hidden: int | None = None, *, bound: nn.Module | None = None, axes: int = 0) -> None:
        super().__init__()
        hidden = dim if hidden is None else hidden
        self.first = glorot_linear(dim, hidden)
        self.second = glorot_linear(dim, hidden, bias=False)
        self.difference = glorot_linear(axes, hidden, bias=False) if axes else None
        self.score = glorot_linear(hidden, 1, bias=False)
        self.bound = nn.Tanh() if bound is None else bound

    def forward(
        self,
        first: Float[Tensor, "batch first dim"],
        second: Float[Tensor, "batch second dim"],
        lengths: Int[Tensor, " batch"] | None = None,
        *,
        positions: tuple[Float[Tensor, "batch first axis"], Float[Tensor, "batch second axis"]] | None = None,
    ) -> Float[Tensor, "batch first second"]:
        """Score every pair.

        Half precision is computed in single precision, and nothing is stored per pair and feature.

        Args:
            first: states of the first words of pairs, such as heads, with any number of other states in front.
            second: states of the words.
            lengths: number of words that count in each sentence; all if ``None``. If there are extra first states, such
                as a root in front, that many more of them count. Pairs that do not count score ``bound(0)``.
            positions: positions of the first and of the second states, if the layer has axes.

        Returns:
            The scores, rows for the first and columns for the second states.

        Raises:
            ValueError: for positions without axes, or axes without positions.
        """
        if (self.difference is None) != (positions is None):
            axes, came = ("none" if value is None else "some" for value in (self.difference, positions))
            raise ValueError(f"AdditiveScores expects positions where it has axes; it has {axes} and got {came}")
        num_first, num_second = first.shape[1], second.shape[1]
        counted = second.new_full((len(second),), num_second, dtype=torch.long) if lengths is None else lengths
        sizes = torch.stack([counted + (num_first - num_second), counted], -1)
        rows, columns = self.first(first), self.second(second)
        if self.difference is not None and positions is not None:
            rows, columns = rows - self.difference(positions[0]), columns + self.difference(positions[1])
        weight = at_least_single(self.score.weight[0])
        with full_precision(rows):
            scores = additive_scores(at_least_single(rows), at_least_single(columns), weight, sizes)
        bounded: Tensor = self.bound(scores.to(rows.dtype))
        return bounded
