"""Linear maps and look-ups of embeddings: with fast products, for few shapes, with reproducible gradients."""

from functools import cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

_DIGITS = 4


def linear(
    states: Float[Tensor, "*batch inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
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
    padded = F.pad(rows, (0, 0, 0, missing)) if missing else rows
    if in_32_bits:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(padded, weight, bias, "none", [], "")
    else:
        product = F.linear(padded, weight, bias)
    return product[: len(rows)].view(*states.shape[:-1], -1)


@cache
def _has_wide_products() -> bool:
    has_avx512 = "AVX512" in torch.backends.cpu.get_cpu_capability()
    return has_avx512 and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def take_rows(table: Float[Tensor, "row *shape"], index: Int64[Tensor, "*batch"]) -> Float[Tensor, "..."]:
    """``table[index]`` for indices that may repeat, with a gradient that is the same bit for bit from run to run.

    ``index_put`` adds to a repeated row in the order in which threads finish; an embedding sums row by row."""
    shape = table.shape[1:]
    return F.embedding(index, table.reshape(table.shape[0], shape.numel())).view(*index.shape, *shape)


# oneDNN compiles its kernels for every new shape and keeps about a thousand of them, half a megabyte each: over many
# batches, this is more memory than a model takes. Numbers with few binary digits make few shapes.
def round_up(size: int, digits: int) -> int:
    """Round up to this many significant binary digits, which adds a fraction of at most ``2 ** (1 - digits)``."""
    return size + -size % _step(size, digits)


def round_down(size: int, digits: int) -> int:
    """Round down to this many significant binary digits."""
    return size - size % _step(size, digits)


def _step(size: int, digits: int) -> int:
    return 1 << max(0, size.bit_length() - digits)
