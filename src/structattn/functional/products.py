"""Linear maps with the faster of torch's two libraries for matrix products on a CPU."""

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from structattn.functional.shapes import round_up

_DIGITS = 4


def linear(
    states: Float[Tensor, "*place inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*place outputs"]:
    """``states @ weight.T + bias``, as ``torch.nn.functional.linear``; for many batches without gradients on a CPU.

    In 32 bits torch uses MKL's products, which use half the width of AVX-512 on processors not made by Intel. oneDNN's
    products use the full width, but have no gradient. The two round differently. The number of rows is rounded up, so
    that oneDNN sees few shapes.

    Args:
        states: rows of any shape.
        weight: one row for each output.
        bias: one number for each output.

    Example:
        >>> weight, bias = torch.tensor([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0.0, 0.0, 1.0])
        >>> with torch.no_grad():
        ...     linear(torch.tensor([[3.0, 1.0]]), weight, bias)
        tensor([[5., 1., 4.]])
    """
    if not states.is_cpu or torch.is_grad_enabled() or torch.compiler.is_compiling() or not states.numel():
        return F.linear(states, weight, bias)
    in_32_bits = {states.dtype, weight.dtype} == {torch.float32} and not torch.is_autocast_enabled("cpu")
    if in_32_bits and not _has_wide_products():
        return F.linear(states, weight, bias)  # MKL's products, for which shapes do not matter
    rows = states.reshape(-1, states.shape[-1])
    missing = round_up(len(rows), _DIGITS) - len(rows)
    given = F.pad(rows, (0, 0, 0, missing)) if missing else rows
    if in_32_bits:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(given, weight, bias, "none", [], "")
    else:
        product = F.linear(given, weight, bias)
    return product[: len(rows)].view(*states.shape[:-1], -1)


@cache
def _has_wide_products() -> bool:
    has_avx512 = "AVX512" in torch.backends.cpu.get_cpu_capability()
    return has_avx512 and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
