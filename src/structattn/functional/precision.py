"""Floating-point precision."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def at_least_single(tensor: Tensor) -> Tensor:
    """Convert half precision to single precision; keep other dtypes.

    Example:
        >>> at_least_single(torch.ones(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """Disable autocast within the block; it would round the factors of products there, whatever their dtype.

    Args:
        tensor: on the device that the block computes on.

    Example:
        >>> ones = torch.ones(1, 1)
        >>> with torch.autocast("cpu", torch.bfloat16), full_precision(ones):
        ...     (ones @ ones).dtype
        torch.float32
    """
    device = tensor.device.type
    # Without autocast there is nothing to disable, and a graph does not contain the block.
    if device == "meta" or not torch.is_autocast_enabled(device):
        return nullcontext()
    return torch.autocast(device_type=device, enabled=False)
