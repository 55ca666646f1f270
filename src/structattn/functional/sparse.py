"""The product of a constant sparse matrix and a dense one, in a few fused calls, differentiable any number of times.

torch's own sparse layouts are in beta, and their backward pass sorts anew each time; here the transpose is sorted once,
together with the matrix.
"""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F


class SparseMatrix:
    """A matrix of constants, given by its entries; entries at the same place are summed.

    Args:
        rows: row of each entry.
        columns: column of each entry.
        values: value of each entry.
        shape: numbers of rows and columns.

    Example:
        >>> matrix = SparseMatrix(torch.tensor([1, 1]), torch.tensor([0, 2]), torch.tensor([2.0, 1.0]), shape=(2, 3))
        >>> matrix @ torch.tensor([[1.0], [10.0], [100.0]])
        tensor([[  0.],
                [102.]])
    """

    def __init__(
        self,
        rows: Int64[Tensor, " entry"],
        columns: Int64[Tensor, " entry"],
        values: Float[Tensor, " entry"],
        *,
        shape: tuple[int, int],
    ) -> None:
        self.shape = shape
        self._forward = _by_row(rows, columns, values, num_rows=shape[0])
        self._transposed = _by_row(columns, rows, values, num_rows=shape[1])

    def __matmul__(self, dense: Float[Tensor, "column dim"]) -> Float[Tensor, "row dim"]:
        if dense.shape[0] != self.shape[1]:
            raise ValueError(
                f"a sparse matrix of {self.shape[0]} by {self.shape[1]} expects {self.shape[1]} rows, "
                f"got {dense.shape[0]}"
            )
        product: Tensor = _Product.apply(dense, *self._forward, *self._transposed)
        return product


class _Product(torch.autograd.Function):
    """Each row is a bag of weighted rows of the dense matrix; the gradient is the same with the transposed matrix."""

    @staticmethod
    def forward(dense: Tensor, *parts: Tensor) -> Tensor:
        columns, offsets, values = parts[:3]
        if not len(columns):
            return dense.new_zeros(len(offsets), dense.shape[1])
        return F.embedding_bag(columns, dense.contiguous(), offsets, mode="sum", per_sample_weights=values)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        parts = ctx.saved_tensors
        return _Product.apply(gradients[0], *parts[3:], *parts[:3]), *[None] * 6

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Any:
        return _Product.apply(tangent, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, in_dims: Any, dense: Tensor, *parts: Tensor) -> Any:
        """Mapped matrices are placed side by side."""
        if in_dims[0] is None:
            return _Product.apply(dense, *parts), None
        wide = dense.movedim(in_dims[0], 1)
        product = _Product.apply(wide.flatten(1), *parts)
        return product.view(len(product), *wide.shape[1:]), 1


def _by_row(rows: Tensor, columns: Tensor, values: Tensor, *, num_rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Columns and values of the entries sorted by row, and where each row starts."""
    if (rows[1:] < rows[:-1]).any():
        order = rows.argsort(stable=True)
        columns, values = columns[order], values[order]
    offsets = torch.bincount(rows, minlength=num_rows).cumsum(0).roll(1)
    offsets[:1] = 0
    # Half the memory, and a faster kernel.
    return columns.int(), offsets.int(), values
