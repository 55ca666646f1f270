"""What a call asks of the device: launches of kernels, and operators of torch, of which some would wait for it."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operators that return to the host what the device has found.
WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal", "aten::item"}


class Called(TorchDispatchMode):
    """The operators of torch that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The grids of all launches from now on, which do nothing else."""
    from structattn.kernels.gpu.dependency_kernels import dependency_kernel

    grids: list[tuple[int, ...]] = []

    def launch(kernel: Any, grid: tuple[int, ...]) -> Any:
        return lambda *args, **kwargs: grids.append(grid)

    monkeypatch.setattr(type(dependency_kernel), "__getitem__", launch)
    return grids


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is full of what is no number when a kernel gets it."""
    new_empty = Tensor.new_empty

    def poisoned(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        found: Tensor = new_empty(self, *args, **kwargs)  # type: ignore[arg-type, call-overload]
        return found.fill_(torch.nan if found.is_floating_point() else -1)

    monkeypatch.setattr(Tensor, "new_empty", poisoned)
