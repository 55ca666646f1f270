"""Types of numbers."""

import torch
from torch import Tensor


def at_least_single(tensor: Tensor) -> Tensor:
    """Half precision as single precision; other types as they are.

    Example:
        >>> at_least_single(torch.ones(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
