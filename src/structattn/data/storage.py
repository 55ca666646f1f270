"""Compact numbers on disk: 16 bits, or 8 bits with a scale for every row of a matrix.

Reference: Jacob et al. (2018), Quantization and training of neural networks for efficient integer-arithmetic-only
inference, section 2.1, here symmetric, and for storage alone: a loaded model computes in 32 bits.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from structattn.data.model_config import Storage
from structattn.errors import ParseError

_SCALE = ":scale"
_LARGEST = 127


def packed(tensors: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    r"""Tensors in the form in which they are stored.

    With ``int8`` a row :math:`x` of a matrix (a slice along the last dimension) becomes :math:`\mathrm{round}(x / s)`
    with :math:`s = \max_i |x_i| / 127`, so that no number changes by more than :math:`s / 2`; :math:`s` is stored
    beside it. Vectors, and with ``float16`` everything, are stored in 16 bits, unless a number is too large for them.
    Integers stay as they are, and so do tensors with numbers that are not finite, which readers refuse.

    Args:
        tensors: parameters and buffers by name.
        storage: ``float32`` changes nothing.

    Example:
        >>> stored = packed({"w": torch.tensor([[127.0, -64.0], [0.0, 0.0]]), "b": torch.zeros(2)}, "int8")
        >>> stored["w"].tolist(), stored["w:scale"].tolist(), stored["b"].dtype
        ([[127, -64], [0, 0]], [1.0, 1.0], torch.float16)
    """
    if storage == "float32":
        return dict(tensors)
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            found[name] = tensor
        elif storage == "float16" or tensor.dim() < 2:
            half = tensor.half()
            found[name] = half if bool(half.isfinite().all()) else tensor
        else:
            largest = tensor.float().abs().amax(-1)
            scale = torch.where(largest > 0, largest / _LARGEST, torch.ones_like(largest))
            found[name] = (tensor.float() / scale.unsqueeze(-1)).round().to(torch.int8)
            found[name + _SCALE] = scale
    return found


def unpacked(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """The numbers of stored tensors: rows of 8 bits are multiplied by their scales, other tensors stay as they are.

    Args:
        tensors: as they were read; on the device ``meta`` only shapes and types matter.
        file: where they come from, for errors.

    Raises:
        ParseError: if scales do not match the rows of a matrix; the message names file and tensor.

    Example:
        >>> unpacked(packed({"w": torch.tensor([[127.0, -64.0]])}, "int8"), Path("w"))["w"].tolist()
        [[127.0, -64.0]]
    """
    found = {}
    for name, tensor in tensors.items():
        scale = tensors.get(name + _SCALE)
        if name.endswith(_SCALE) and name.removesuffix(_SCALE) in tensors:
            continue
        if scale is None:
            found[name] = tensor
            continue
        if tensor.dtype != torch.int8 or scale.shape != tensor.shape[:-1] or not scale.is_floating_point():
            raise ParseError(f"expected a scale for every row of 8-bit numbers in tensor {name!r}", file=file)
        found[name] = tensor.float() * scale.float().unsqueeze(-1)
    return found
