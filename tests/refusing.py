"""A device that has to be waited for, in place of the CPU."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import structattn

_PACKAGE = Path(structattn.__file__).parent

# Every way in which Python can look at a number of a tensor ends in one of these.
WAYS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero", "numpy")


def refuse_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until ``monkeypatch.undo()`` tensors are on no CPU, and this package may not look at their numbers."""
    monkeypatch.setattr(Tensor, "is_cpu", property(lambda _: False))
    for way in WAYS:
        monkeypatch.setattr(Tensor, way, _refusing(getattr(Tensor, way)))


def _refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    def read(*arguments: Any) -> Any:
        asked_in = Path(sys._getframe(1).f_code.co_filename)
        # What other packages do, such as transformers with masks, is theirs.
        assert not asked_in.is_relative_to(_PACKAGE), f"a number was read in {asked_in}"
        return method(*arguments)

    return read
