"""Activation checkpointing of transformers: layers run again in the backward pass, in the context of their call."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

_NAME = "_gradient_checkpointing_func"


@contextlib.contextmanager
def repeating(model: nn.Module, context: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[None]:
    """Inside, layers that are checkpointed will run again within another such context."""
    checkpoints = [(module, vars(module)[_NAME]) for module in model.modules() if _NAME in vars(module)]

    def remembering(checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def run(function: Callable[..., Any], *arguments: Any) -> Any:
            def call(*again: Any) -> Any:
                with context():
                    return function(*again)

            return checkpoint(call, *arguments)

        return run

    for module, checkpoint in checkpoints:
        setattr(module, _NAME, remembering(checkpoint))
    try:
        yield
    finally:
        for module, checkpoint in checkpoints:
            setattr(module, _NAME, checkpoint)
