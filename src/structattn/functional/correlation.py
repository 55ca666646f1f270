"""Cross-correlation of every row with its own values: a sum along diagonals, in memory linear in the lengths.

A plain convolution would have as many groups as there are rows, and ``torch.compile`` would make one graph per number
of rows. The correlation is therefore one node of a graph there.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from structattn.functional.graphs import is_exporting


def correlate(
    rows: Float[Tensor, "batch length"], values: Float[Tensor, "batch length dim"]
) -> Float[Tensor, "batch length dim"]:
    """``out[p] = sum_{j >= p} rows[j - p] values[j]``, for each row; differentiable in the values.

    Args:
        rows: constants.
        values: what the rows weight.

    Example:
        >>> correlate(torch.tensor([[1.0, 10.0]]), torch.tensor([[[3.0], [5.0]]]))
        tensor([[[53.],
                 [ 5.]]])
    """
    if is_exporting():
        return _convolved(rows, values)
    found: Tensor = _correlate(rows, values)
    return found


def _convolved(rows: Tensor, values: Tensor) -> Tensor:
    batch, length, dim = values.shape
    # A row after length - 1 zeros, multiplied with its values at every offset: the last offset is p = 0.
    padded = F.pad(rows, (length - 1, 0)).view(1, batch, 2 * length - 1)
    found = F.conv1d(padded, values.mT.reshape(batch * dim, 1, length), groups=batch)
    return found.view(batch, dim, length).flip(-1).mT


@torch.library.custom_op("structattn::correlate", mutates_args=())
def _correlate(rows: Tensor, values: Tensor) -> Tensor:
    # A convolution without groups is an error: there are none if a batch has no phrases.
    return _convolved(rows, values).contiguous() if values.numel() else torch.empty_like(values)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
    # The adjoint is a convolution, which is a correlation read from the other end.
    (rows,) = ctx.saved_tensors
    return None, correlate(rows, gradient.flip(1)).flip(1)


_correlate.register_fake(lambda rows, values: torch.empty_like(values, memory_format=torch.contiguous_format))
_correlate.register_autograd(_backward, setup_context=_save)
