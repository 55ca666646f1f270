"""Mapped axes (``torch.vmap``): merge them into the batch axis of a kernel, and split them off again."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def merged(
    size: int, in_dims: Sequence[int | None], tensors: Sequence[Tensor | None], shared_axes: Sequence[int | None]
) -> list[Any]:
    """Tensors with the mapped axis merged into their batch axis; the first one, the lengths, gives the batch size.

    Args:
        size: of the mapped axis.
        in_dims: the mapped axis of each tensor; None if it has none.
        tensors: ``(batch, ...)`` apart from the mapped axis; None stays None.
        shared_axes: how many axes a tensor has if it lacks the batch axis; None if it never does.

    Example:
        >>> import torch
        >>> [own.shape for own in merged(3, (1, None), (torch.zeros(2, 3), torch.zeros(2, 4)), (None, None))]
        [torch.Size([6]), torch.Size([6, 4])]
    """
    first, first_dim = tensors[0], in_dims[0]
    assert first is not None  # lengths
    batch = first.shape[0 if first_dim is None or first_dim > 0 else 1]
    found: list[Any] = []
    for tensor, dim, axes in zip(tensors, in_dims, shared_axes, strict=True):
        if tensor is None or (dim is None and tensor.dim() == axes):
            found.append(tensor)  # one array serves all sentences of all mapped batches
            continue
        own = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        if axes is not None and own.dim() == axes + 1:
            own = own.unsqueeze(1).expand(size, batch, *own.shape[1:])
        found.append(own.flatten(0, 1))
    return found


def restored(size: int, outputs: Any, axis: int = 0) -> tuple[Any, Any]:
    """Outputs with the mapped axis split off the batch axis again, and its position; None stays None.

    Args:
        size: of the mapped axis.
        outputs: a tensor or a tuple of tensors.
        axis: the batch axis of the outputs.

    Example:
        >>> import torch
        >>> restored(3, torch.zeros(6, 4))[0].shape
        torch.Size([3, 2, 4])
    """
    if isinstance(outputs, Tensor):
        return outputs.unflatten(axis, (size, outputs.shape[axis] // size)), axis
    found = tuple(None if own is None else restored(size, own, axis)[0] for own in outputs)
    return found, tuple(None if own is None else axis for own in outputs)
