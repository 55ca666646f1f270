"""Linear maps with the initialisation that every layer here uses."""

from torch import nn


def glorot_linear(inputs: int, outputs: int, *, bias: bool = True, blocks: int = 1) -> nn.Linear:
    """A linear map with Glorot-uniform weights and zero bias (Glorot and Bengio 2010, equation 16).

    Args:
        inputs: width of the input.
        outputs: width of the output.
        bias: whether there is a bias.
        blocks: number of equal maps stacked in this one, each of which is started as if it stood alone.

    Example:
        >>> glorot_linear(2, 6, blocks=3)
        Linear(in_features=2, out_features=6, bias=True)
    """
    linear = nn.Linear(inputs, outputs, bias=bias)
    for block in linear.weight.chunk(blocks):
        nn.init.xavier_uniform_(block)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
