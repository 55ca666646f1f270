"""Evaluation mode within a block; afterwards, every module returns to its previous mode."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode; afterwards, each of its parts returns to its previous mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients."""
    with evaluation_mode(module), torch.no_grad():
        yield
