"""Embedding lookup with a deterministic backward pass: gradients are summed in a fixed order."""

from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F


def take_rows(table: Float[Tensor, "row *rest"], index: Int64[Tensor, "*place"]) -> Float[Tensor, "..."]:
    """``table[index]``, with a gradient that is the same bit for bit from run to run.

    The gradient of plain indexing adds to a row that is read several times in whichever order threads finish
    (``index_put`` with ``accumulate`` on the CPU); the gradient of an embedding is summed row by row.

    Args:
        table: rows of any shape.
        index: the rows to read, repeats allowed; not negative.

    Raises:
        IndexError: for a row that the table does not have.

    Example:
        >>> import torch
        >>> take_rows(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 1, 0]))
        tensor([[3., 4.],
                [3., 4.],
                [1., 2.]])
    """
    rest = table.shape[1:]
    return F.embedding(index, table.reshape(table.shape[0], rest.numel())).view(*index.shape, *rest)
