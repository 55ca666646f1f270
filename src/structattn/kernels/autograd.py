"""The quantities of `kernels.derivatives` as functions of autograd: eager calls, and the transforms of ``torch.func``.

Log-partition alone and marginals alone have separate functions, which save and compute only what was requested: for a
batch of short sentences, anything more would take longer than the kernels.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from structattn.kernels.derivatives import Arrays, Differentiable, Point, Quantity, gradient
from structattn.kernels.family import Family
from structattn.kernels.programs import Scores
from structattn.kernels.tracing import is_mapped, transforms_are_active


def apply(
    quantity: Quantity,
    operators: Differentiable,
    scores: Scores,
    lengths: Tensor,
    vectors: Sequence[Arrays],
    options: Sequence[int],
) -> Sequence[Tensor]:
    """The outputs of a quantity, recorded for its derivatives."""
    make = _transformable if transforms_are_active() else _recordable
    flat = [array for group in (scores, *vectors) for array in group]
    outputs: Sequence[Tensor] = make(quantity).apply(operators, options, lengths, *flat)
    return outputs


def log_partition(operators: Differentiable, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
    """The log-partition, recorded with the marginals that were computed on the way, which become its gradient."""
    value: Tensor = _LogPartition.apply(operators, options, lengths, *scores)
    return value


def marginals(operators: Differentiable, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
    """The marginals of the first array, recorded."""
    parts: Tensor = _Marginals.apply(operators, options, lengths, *scores)
    return parts


def first_marginals(family: Family, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
    """The marginals of the first array; nothing else is written."""
    only = [index == 0 for index in range(len(scores))]
    parts = family.evaluate(scores, lengths, options, log_partition=False, parts=only)[1][0]
    assert parts is not None  # it was requested
    return parts


class _LogPartition(Function):
    @staticmethod
    def forward(
        ctx: Any, operators: Differentiable, options: Sequence[int], lengths: Tensor, *scores: Tensor
    ) -> Tensor | None:
        value, ctx.parts = operators.family.evaluate(scores, lengths, options, parts=ctx.needs_input_grad[3:])
        ctx.operators, ctx.options = operators, options
        ctx.save_for_backward(lengths, *scores)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        lengths, *scores = ctx.saved_tensors
        requested, again, parts = ctx.needs_input_grad[3:], torch.is_grad_enabled() or is_mapped(grad), None
        if not again:
            # If the graph is retained and used again, the marginals are recomputed.
            family = ctx.operators.family
            parts = ctx.parts or family.evaluate(scores, lengths, ctx.options, log_partition=False, parts=requested)[1]
            ctx.parts = None
        point = Point(ctx.operators, scores, lengths, ctx.options, parts=parts)
        return None, None, None, *gradient(point, grad, [None for _ in scores], requested, overwrite=not again)


class _Marginals(Function):
    @staticmethod
    def forward(
        ctx: Any, operators: Differentiable, options: Sequence[int], lengths: Tensor, *scores: Tensor
    ) -> Tensor:
        ctx.operators, ctx.options = operators, options
        ctx.save_for_backward(lengths, *scores)
        return first_marginals(operators.family, scores, lengths, options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        lengths, *scores = ctx.saved_tensors
        vectors, requested = [grad, *(None for _ in scores[1:])], ctx.needs_input_grad[3:]
        point = Point(ctx.operators, scores, lengths, ctx.options)
        if torch.is_grad_enabled() or is_mapped(grad):
            return None, None, None, *gradient(point, None, vectors, requested)
        products = point.summed(ctx.operators.family.hvp(scores, lengths, vectors, ctx.options, requested=requested))
        return None, None, None, *_select(products, requested)


def _primal(tensor: Any) -> Any:
    """The tensor without its tangent of the innermost level."""
    return None if tensor is None else forward_ad.unpack_dual(tensor).primal


def _unwrap(tensor: Any) -> Any:
    """The tensor below a transform level that has ended, as when the function from ``torch.func.vjp`` is called."""
    unwrap = getattr(torch._C._functorch, "unwrap_if_dead", None)
    return tensor if tensor is None or unwrap is None else unwrap(tensor)


@lru_cache
def _transformable(quantity: Quantity) -> Any:
    """The quantity as an autograd function that the transforms of ``torch.func`` support."""

    def forward(operators: Differentiable, options: Sequence[int], lengths: Tensor, *arrays: Tensor | None) -> Any:
        scores, *vectors = _split(arrays, quantity.num_vectors + 1)
        return quantity.value(Point(operators, scores, lengths, options, vectors))

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.operators, ctx.options, *tensors = inputs
        tensors += output[1:] if quantity.saves_parts else ()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    def make_point(ctx: Any, enter: Callable[[Any], Any]) -> Point:
        lengths, *arrays = map(enter, ctx.saved_tensors)
        groups = _split(arrays, quantity.num_vectors + 1 + quantity.saves_parts)
        parts = groups.pop() if quantity.saves_parts else None
        return Point(ctx.operators, groups[0], lengths, ctx.options, groups[1:], parts)

    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        requested = _split(ctx.needs_input_grad[3:], quantity.num_vectors + 1)
        groups = quantity.pullback(make_point(ctx, _unwrap), grads, requested)
        flat = (grad for group, flags in zip(groups, requested, strict=True) for grad in _select(group, flags))
        return None, None, None, *flat

    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        # torch switches forward mode off here, for an outer ``jvp`` as well, which would then see no tangents. Once
        # back on, it must not see the tangents of this level, which are being computed.
        with forward_ad._set_fwd_grad_enabled(True):
            return quantity.pushforward(make_point(ctx, _primal), _split(tangents[3:], quantity.num_vectors + 1))

    def vmap(info: Any, in_dims: Any, operators: Differentiable, options: Any, *tensors: Tensor | None) -> Any:
        shared = operators.family.shared_axes
        axes = (None, *shared, *(None for _ in range(quantity.num_vectors * len(shared))))
        lengths, *arrays = merge_axis(info.batch_size, in_dims[2:], tensors, axes)
        scores, *vectors = _split(arrays, quantity.num_vectors + 1)
        return restore_axis(info.batch_size, tuple(apply(quantity, operators, scores, lengths, vectors, options)))

    methods: dict[str, Any] = {
        "forward": forward,
        "setup_context": setup_context,
        "backward": backward,
        "jvp": jvp,
        "vmap": vmap,
    }
    return type(quantity.name, (Function,), {name: staticmethod(method) for name, method in methods.items()})


@lru_cache
def _recordable(quantity: Quantity) -> Any:
    """The same function in a form for which torch does not inspect the signature of ``forward`` at each call."""
    function = _transformable(quantity)

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = function.forward(*inputs)
        function.setup_context(ctx, inputs, output)
        return output

    methods: dict[str, Any] = {"forward": forward, "backward": function.backward, "jvp": function.jvp}
    return type(quantity.name, (Function,), {name: staticmethod(method) for name, method in methods.items()})


def _split(arrays: Sequence[Any], count: int) -> list[Sequence[Any]]:
    size = len(arrays) // count
    return [arrays[size * index : size * (index + 1)] for index in range(count)]


def _select(grads: Arrays, requested: Sequence[bool]) -> list[Tensor | None]:
    return [grad if is_requested else None for grad, is_requested in zip(grads, requested, strict=True)]


def merge_axis(
    size: int, in_dims: Sequence[int | None], tensors: Sequence[Tensor | None], shared_axes: Sequence[int | None]
) -> list[Any]:
    """Tensors with their mapped axis (``torch.vmap``), if they have one, merged into their batch axis.

    The first, the lengths, gives the batch size; a tensor with as many axes as ``shared_axes`` says has no batch axis.
    """
    first, first_dim = tensors[0], in_dims[0]
    assert first is not None  # lengths
    batch = first.shape[0 if first_dim is None or first_dim > 0 else 1]
    merged: list[Any] = []
    for tensor, dim, axes in zip(tensors, in_dims, shared_axes, strict=True):
        if tensor is None or (dim is None and tensor.dim() == axes):
            merged.append(tensor)  # one array serves all sentences of all mapped batches
            continue
        mapped = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        if axes is not None and mapped.dim() == axes + 1:
            mapped = mapped.unsqueeze(1).expand(size, batch, *mapped.shape[1:])
        merged.append(mapped.flatten(0, 1))
    return merged


def restore_axis(size: int, outputs: Any, axis: int = 0) -> tuple[Any, Any]:
    """Outputs with the mapped axis split off their batch axis again, and its position; None stays None."""
    if isinstance(outputs, Tensor):
        return outputs.unflatten(axis, (size, outputs.shape[axis] // size)), axis
    split = tuple(None if output is None else restore_axis(size, output, axis)[0] for output in outputs)
    return split, tuple(None if output is None else axis for output in outputs)
