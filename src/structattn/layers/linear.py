"""Linear maps with the initialisation that every layer here uses."""

from jaxtyping import Float
from torch import Tensor, nn

from structattn.functional import linear


class Linear(nn.Linear):
    """``torch.nn.Linear`` with ``structattn.functional.linear``, for models that read many batches without gradients.

    Example:
        >>> import torch
        >>> Linear(2, 3)(torch.ones(4, 2)).shape
        torch.Size([4, 3])
    """

    def forward(self, states: Float[Tensor, "*place inputs"]) -> Float[Tensor, "*place outputs"]:
        """``states @ weight.T + bias``."""
        return linear(states, self.weight, self.bias)


def glorot_linear(
    inputs: int, outputs: int, *, bias: bool = True, blocks: int = 1, kind: type[nn.Linear] = nn.Linear
) -> nn.Linear:
    """A linear map with Glorot-uniform weights and zero bias (Glorot and Bengio 2010, equation 16).

    Args:
        inputs: width of the input.
        outputs: width of the output.
        bias: whether there is a bias.
        blocks: number of equal maps stacked in this one, each initialised as a map of its own.
        kind: the class of the map.

    Example:
        >>> glorot_linear(2, 6, blocks=3)
        Linear(in_features=2, out_features=6, bias=True)
    """
    made = kind(inputs, outputs, bias=bias)
    for block in made.weight.chunk(blocks):
        nn.init.xavier_uniform_(block)
    if bias:
        nn.init.zeros_(made.bias)
    return made
