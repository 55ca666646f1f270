"""The attention weights of every module, recorded by forward hooks while a model runs."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.layers.attention_map import Kind
from structattn.layers.evaluation_mode import evaluating

_KINDS: dict[str, Kind] = {"head query key": "attention", "key feature": "pooling", "query feature": "gate"}


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The weights of one call of one module, as ``recording`` collects them: a whole batch, with padding.

    Attributes:
        name: path of the module inside the model; the module's class if the model itself is the module.
        module: the module.
        kind: ``"attention"`` for weights ``(batch, head, query, key)``, ``"pooling"`` for ``(batch, key, feature)``,
            ``"gate"`` for ``(batch, query, feature)``.
        weights: as the module returned them, detached, in float32, on the CPU.
        allowed: which keys a query may attend to, in the shape of the weights, on the CPU; ``None`` if the module has
            no method ``allowed_keys``.

    Example:
        >>> import torch
        >>> record = AttentionRecord("pooler", nn.Identity(), "pooling", torch.ones(2, 3, 1))
        >>> record.name, record.weights.shape, record.allowed
        ('pooler', torch.Size([2, 3, 1]), None)
    """

    name: str
    module: nn.Module
    kind: Kind
    weights: Tensor
    allowed: Tensor | None = None


@dataclass(frozen=True, eq=False)
class EncoderPass:
    """One call of an encoder: the batches that it read, one for each sentence of a text, and the records made."""

    batches: tuple[SentenceBatch, ...]
    records: Sequence[AttentionRecord]


@contextlib.contextmanager
def recording(model: nn.Module, part: nn.Module | None = None) -> Iterator[list[AttentionRecord]]:
    """Record the attention weights of every module while a model runs; nothing in the model has to be changed for it.

    A module is recorded if it names the axes of its weights in an attribute ``weights_axes``: ``"head query key"`` for
    attention, ``"key feature"`` for poolers, ``"query feature"`` for gates. Its ``forward`` must take the keyword
    ``need_weights`` and return ``(output, weights)``, as every attention layer, pooler and gate of this library does.
    If it also has a method ``allowed_keys``, that is called with the arguments of ``forward``, and says which keys a
    query may attend to.

    Inside the block the model is in evaluation mode and computes no gradients; afterwards every module is back in its
    own mode, and all hooks are removed.

    Args:
        model: any module; records name modules by their paths in it.
        part: the part of the model whose modules are recorded; by default the whole model.

    Yields:
        A list that grows by one record for each call, in the order in which the calls end. It may be cleared between
        calls, and it stays as it is after the block.

    Raises:
        ValueError: for an unknown ``weights_axes``; inside the block, if a module returns no weights.

    Example:
        >>> import structattn as sa
        >>> vocabulary = sa.Vocabulary(["a", "barks", "dog"])
        >>> encoder = sa.build("transformer", vocab_size=len(vocabulary), dim=8, num_heads=2)
        >>> batch = sa.collate([sa.Sentence(["a", "dog"])], vocabulary)
        >>> with recording(encoder) as records:
        ...     output = encoder(batch)
        >>> [(record.name, record.kind, tuple(record.weights.shape)) for record in records]
        [('contextualizer.layers.0.attention', 'attention', (1, 2, 2, 2)), ('pooler', 'pooling', (1, 2, 8))]
    """
    records: list[AttentionRecord] = []
    recorded = set((model if part is None else part).modules())
    with contextlib.ExitStack() as hooks:
        for path, module in model.named_modules():
            axes = getattr(module, "weights_axes", None)
            if axes is not None and module in recorded:
                name = path or type(module).__name__
                if axes not in _KINDS:
                    expected = ", ".join(map(repr, _KINDS))
                    raise ValueError(f"{name} has weights_axes {axes!r}; expected one of {expected}")
                hooks.callback(module.register_forward_pre_hook(_ask_for_weights, with_kwargs=True).remove)
                recorder = _recorder(name, _KINDS[axes], records)
                hooks.callback(module.register_forward_hook(recorder, with_kwargs=True).remove)
        hooks.enter_context(evaluating(model))
        yield records


@contextlib.contextmanager
def recording_passes(model: nn.Module, encoder: nn.Module) -> Iterator[list[EncoderPass]]:
    """Record each pass of an encoder by itself; the model may run it any number of times."""
    passes: list[EncoderPass] = []
    with recording(model, encoder) as records:

        def begin(module: nn.Module, batches: Any) -> None:
            records.clear()

        def end(module: nn.Module, batches: Any, output: Any) -> None:
            passes.append(EncoderPass(batches, tuple(records)))

        with contextlib.ExitStack() as hooks:
            hooks.callback(encoder.register_forward_pre_hook(begin).remove)
            hooks.callback(encoder.register_forward_hook(end).remove)
            yield passes


def _ask_for_weights(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, kwargs | {"need_weights": True}


def _recorder(name: str, kind: Kind, records: list[AttentionRecord]) -> Any:
    def record(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not isinstance(weights, Tensor):
            raise ValueError(f"{name} declares weights_axes but returned no weights when asked for them")
        ask, allowed = getattr(module, "allowed_keys", None), None
        if ask is not None:
            allowed = ask(*args, **{key: value for key, value in kwargs.items() if key != "need_weights"})
            allowed = allowed.detach().expand_as(weights).cpu()
        records.append(AttentionRecord(name, module, kind, weights.detach().float().cpu(), allowed))

    return record
