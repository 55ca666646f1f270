"""Evaluation mode within a block."""

import contextlib

import pytest
import torch
from torch import nn

from structattn.layers.evaluation_mode import evaluating, evaluation_mode


@pytest.mark.parametrize("context", [evaluation_mode, evaluating])
def test_every_module_returns_to_its_own_mode(context) -> None:  # type: ignore[no-untyped-def]
    layer = nn.Sequential(nn.Dropout().eval(), nn.Dropout(), nn.Linear(1, 1))
    with contextlib.suppress(KeyError), context(layer):
        assert not any(part.training for part in layer.modules())
        assert layer(torch.ones(1)).requires_grad == (context is evaluation_mode)
        raise KeyError
    assert [part.training for part in layer.modules()] == [True, False, True, True]
    assert layer(torch.ones(1)).requires_grad
