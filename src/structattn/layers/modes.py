"""Evaluation mode within a block; afterwards, every module returns to its previous mode."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode; afterwards, each of its parts returns to its previous mode.

    Example:
        >>> layer = nn.Sequential(nn.Dropout().eval(), nn.Dropout())
        >>> with evaluation_mode(layer):
        ...     layer[1].training
        False
        >>> layer[0].training, layer[1].training
        (False, True)
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode, without gradients; afterwards, each of its parts returns to its previous mode.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> with evaluating(layer):
        ...     layer(torch.ones(1)).requires_grad
        False
    """
    with evaluation_mode(module), torch.no_grad():
        yield
