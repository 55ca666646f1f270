"""The attention weights of every module while a model runs.

A model needs no flag for this: an attention module names the axes of its weights in its class attribute
``weights_axes``, and forward hooks collect them.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from structattn.inspection.attention_map import Kind
from structattn.layers.modes import evaluating

_KINDS: dict[str, Kind] = {"head query key": "attention", "key feature": "pooling", "query feature": "gate"}


@dataclass(frozen=True, eq=False)
class Record:
    """One call of one module."""

    name: str
    module: nn.Module
    kind: Kind
    weights: Tensor


@contextlib.contextmanager
def recording(model: nn.Module) -> Iterator[list[Record]]:
    """Collect the weights of every call; evaluation mode without gradients meanwhile, all as before afterwards."""
    records: list[Record] = []
    with contextlib.ExitStack() as hooks:
        for path, module in model.named_modules():
            axes = getattr(module, "weights_axes", None)
            if axes is not None:
                name = path or type(module).__name__
                if axes not in _KINDS:
                    known = ", ".join(repr(known) for known in _KINDS)
                    raise ValueError(f"{name} has weights_axes {axes!r}; expected one of {known}")
                hooks.callback(module.register_forward_pre_hook(_ask_for_weights, with_kwargs=True).remove)
                hooks.callback(module.register_forward_hook(_recorder(name, _KINDS[axes], records)).remove)
        hooks.enter_context(evaluating(model))
        yield records


def _ask_for_weights(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, kwargs | {"need_weights": True}


def _recorder(name: str, kind: Kind, records: list[Record]) -> Any:
    def record(module: nn.Module, args: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not isinstance(weights, Tensor):
            raise ValueError(f"{name} declares weights_axes but returned no weights when asked for them")
        calls = sum(known.module is module for known in records)
        shown = f"{name}#{calls + 1}" if calls else name
        records.append(Record(shown, module, kind, weights.detach().float().cpu()))

    return record
