"""The attention weights of every module while a model runs.

A model needs no flag for this: an attention module names the axes of its weights in its class attribute
``weights_axes``, and forward hooks collect them. Its method ``allowed_keys``, if it has one, takes the inputs of
``forward`` and returns which keys a query may attend to.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.layers.attention_map import Kind
from structattn.layers.modes import evaluating

_KINDS: dict[str, Kind] = {"head query key": "attention", "key feature": "pooling", "query feature": "gate"}


@dataclass(frozen=True, eq=False)
class Record:
    """One call of one module."""

    name: str
    module: nn.Module
    kind: Kind
    weights: Tensor
    allowed: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Pass:
    """One call of an encoder: the batches that it read, one for each sentence of a text, and the records made."""

    batches: tuple[SentenceBatch, ...]
    records: Sequence[Record]


@contextlib.contextmanager
def recording(model: nn.Module, part: nn.Module | None = None) -> Iterator[list[Record]]:
    """Collect the weights of every call, in evaluation mode without gradients; restores the model's mode.

    Args:
        model: the model; records name modules by their paths in it.
        part: the module of the model that is recorded; all of it if ``None``.
    """
    records: list[Record] = []
    heard = set((model if part is None else part).modules())
    with contextlib.ExitStack() as hooks:
        for path, module in model.named_modules():
            axes = getattr(module, "weights_axes", None)
            if axes is not None and module in heard:
                name = path or type(module).__name__
                if axes not in _KINDS:
                    known = ", ".join(repr(known) for known in _KINDS)
                    raise ValueError(f"{name} has weights_axes {axes!r}; expected one of {known}")
                hooks.callback(module.register_forward_pre_hook(_ask_for_weights, with_kwargs=True).remove)
                recorder = _recorder(name, _KINDS[axes], records)
                hooks.callback(module.register_forward_hook(recorder, with_kwargs=True).remove)
        hooks.enter_context(evaluating(model))
        yield records


@contextlib.contextmanager
def recording_passes(model: nn.Module, encoder: nn.Module) -> Iterator[list[Pass]]:
    """The same, for each pass of an encoder.

    Args:
        model: the model, which may run the encoder any number of times.
        encoder: a module of the model that is called with batches of sentences.
    """
    passes: list[Pass] = []
    with recording(model, encoder) as records:

        def begin(module: nn.Module, batches: Any) -> None:
            records.clear()

        def end(module: nn.Module, batches: Any, output: Any) -> None:
            passes.append(Pass(batches, tuple(records)))

        with contextlib.ExitStack() as hooks:
            hooks.callback(encoder.register_forward_pre_hook(begin).remove)
            hooks.callback(encoder.register_forward_hook(end).remove)
            yield passes


def _ask_for_weights(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, kwargs | {"need_weights": True}


def _recorder(name: str, kind: Kind, records: list[Record]) -> Any:
    def record(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not isinstance(weights, Tensor):
            raise ValueError(f"{name} declares weights_axes but returned no weights when asked for them")
        ask, allowed = getattr(module, "allowed_keys", None), None
        if ask is not None:
            allowed = ask(*args, **{key: value for key, value in kwargs.items() if key != "need_weights"})
            allowed = allowed.detach().expand_as(weights).cpu()
        records.append(Record(name, module, kind, weights.detach().float().cpu(), allowed))

    return record
