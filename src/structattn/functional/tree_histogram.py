"""Weighted counts of how often each phrase meets each row of an embedding table, multiplied by the table.

The full histogram is never materialised. Both embeddings of Nguyen et al. 2020, section 4.2, use this mechanism: counts
by index, where a short phrase has few indices and the whole sentence has many. It is the product of a constant sparse
matrix and a dense one, in a few fused calls, differentiable any number of times: torch's own sparse layouts are in
beta, and their backward pass sorts anew each time; here the transpose is sorted once, together with the matrix.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

# Phrases with up to this many indices share a block, then those with up to four times as many, and so on.
_NARROWEST = 4


class TreeHistogram:
    """The linear map from leaf weights to ``sum_k met[i, k] table[k]``, with ``met[i, k]`` a constant map of weights.

    Phrases with a similar number of indices share a block of ``met``: little more than ``sum_i widths_i`` rows in all.
    """

    def __init__(
        self,
        phrases: Int64[Tensor, " entry"],  # numbered over the batch
        steps: Int64[Tensor, " entry"],  # the index, from 0
        leaves: Int64[Tensor, " entry"],  # numbered over the batch; preferably in ascending order
        values: Float[Tensor, " entry"],
        *,
        widths: Int64[Tensor, " phrase"],  # of each phrase of the batch, greater than all of its steps
        num_leaves: int,  # of the batch
    ) -> None:
        block = torch.zeros_like(widths)
        limit, widest = _NARROWEST, int(widths.max()) if len(widths) else 0
        while limit < widest:
            block += widths > limit
            limit *= 4
        order = block.argsort(stable=True)
        # The position of each phrase among those sorted by block.
        self.positions = order.argsort()
        # Numbers of phrases and of indices of each block.
        self.blocks: list[tuple[int, int]] = []
        first, base = torch.zeros_like(widths), torch.zeros_like(widths)
        seen = rows = 0
        for size in torch.bincount(block, minlength=1).tolist():
            members = order[seen : seen + size]
            width = int(widths[members].max().clamp(min=1)) if size else 1
            base[members], first[members] = rows - seen, size
            self.blocks.append((size, width))
            seen, rows = seen + size, rows + size * width
        # Steps before phrases: then a block's product with the table needs no copy.
        row = (base + self.positions)[phrases] + steps * first[phrases]
        self.matrix = SparseMatrix(row, leaves, values, shape=(rows, num_leaves))

    @property
    def width(self) -> int:
        """Number of rows of a table that can be used; at least 1."""
        return max(width for _, width in self.blocks)

    def __call__(
        self, weights: Float[Tensor, "batch leaf head"], table: Float[Tensor, "step channel"]
    ) -> Float[Tensor, "batch phrase head channel"]:
        """Look up; the table has a row for each of the ``width`` steps."""
        met = self.matrix @ weights.flatten(0, 1)
        parts = met.split([size * width for size, width in self.blocks])
        products = [
            part.reshape(width, size * met.shape[1]).mT @ table[:width]
            for part, (size, width) in zip(parts, self.blocks, strict=True)
        ]
        sorted_phrases = torch.cat(products).view(len(self.positions), met.shape[1], table.shape[1])
        phrases: Tensor = sorted_phrases[self.positions].unflatten(0, (weights.shape[0], -1))
        return phrases


class PaddedHistogram:
    """The same map for graphs, where no shape depends on the trees.

    ``met`` maps leaf weights ``(batch, leaf, head)`` to one padded tensor ``(batch, phrase, width, head)``.
    """

    def __init__(self, met: Callable[[Tensor], Tensor], *, width: int) -> None:
        self.met = met
        self.width = width

    def __call__(
        self, weights: Float[Tensor, "batch leaf head"], table: Float[Tensor, "step channel"]
    ) -> Float[Tensor, "batch phrase head channel"]:
        """Look up; the table has a row for each of the ``width`` steps."""
        phrases: Tensor = self.met(weights).transpose(2, 3) @ table
        return phrases


class SparseMatrix:
    """A matrix of constants from its entries; entries of the same row and column are summed."""

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
