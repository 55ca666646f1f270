"""What torch is doing with tensors: recording gradients, tracing a graph, or transforming a function."""

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

# The check of ``autograd.Function.apply`` itself; in a torch without it, transforms count as always active.
transforms_are_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
# ``torch.autograd.grad(..., is_grads_batched=True)`` maps gradients by an older mechanism than torch.vmap.
is_mapped = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda tensor: False)


def is_eager(*tensors: Tensor) -> bool:
    """Whether these are plain tensors with data, outside of ``torch.compile`` and ``torch.func``."""
    return not is_traced(*tensors) and not transforms_are_active()


def is_traced(*tensors: Tensor) -> bool:
    """Whether a graph is being traced, or the tensors have no data."""
    if torch.compiler.is_compiling():
        return True
    return any(type(tensor) not in (Tensor, Parameter) or tensor.is_meta for tensor in tensors)


def is_recorded(*tensors: Tensor) -> bool:
    """Whether autograd must record the call: some tensor requires a gradient, or forward mode is active."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return is_forward()


def is_forward() -> bool:
    """Whether forward mode is active; always true in a torch that keeps its level elsewhere."""
    return getattr(forward_ad, "_current_level", 0) >= 0
