"""Absolute positions as sinusoids (Vaswani et al. 2017, section 3.5), for attention that does not know word order."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """Adds the sinusoid of its position to every state: ``states[:, i] + sinusoid(i)``.

    Example:
        >>> SinusoidalPositions()(torch.zeros(1, 2, 4))
        tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
                 [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    def forward(self, states: Float[Tensor, "batch word dim"]) -> Float[Tensor, "batch word dim"]:
        """Add the positions; padding receives them too and must be masked afterwards."""
        positions = torch.arange(states.shape[1], device=states.device)
        return states + sinusoids(positions, states.shape[2], dtype=states.dtype)


def sinusoids(positions: Int64[Tensor, " position"], dim: int, *, dtype: torch.dtype) -> Float[Tensor, "position dim"]:
    """``PE(t, 2i) = sin(t / 10000^(2i / dim))`` and ``PE(t, 2i + 1)`` the cosine; positions may be negative.

    Args:
        positions: integers.
        dim: width of a position's vector.
        dtype: type of the result; half precision is computed in single precision.

    Example:
        >>> sinusoids(torch.tensor([-1, 1]), 2, dtype=torch.float32)
        tensor([[-0.8415,  0.5403],
                [ 0.8415,  0.5403]])
    """
    # Half precision cannot tell large positions apart: bfloat16 rounds 257 to 256.
    wide = positions.to(torch.promote_types(dtype, torch.float32))
    exponent = torch.arange(0, dim, 2, device=positions.device, dtype=wide.dtype) / dim
    angle = wide[:, None] * torch.exp(-math.log(10000.0) * exponent)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :dim].to(dtype)
