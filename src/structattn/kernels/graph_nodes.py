"""A family as torch operators: one node in a graph of ``torch.compile`` or ``torch.export``, with a shape function.

The quantities of `kernels.derivatives` are differentiable nodes; the operators that choose structures have no gradient.
All of them have a batching rule.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from structattn.kernels.autograd import merge_axis, restore_axis
from structattn.kernels.derivatives import ENTROPY, EVALUATE, HVP, THIRD, Differentiable, Point, Quantity
from structattn.kernels.family import Family
from structattn.kernels.programs import empty_like


@dataclass(frozen=True)
class Nodes:
    """The operators ``structattn::<family>_...``; arguments are arrays of scores, lengths, further tensors, numbers."""

    quantities: dict[Quantity, Callable[..., Any]]
    argmax: Callable[..., Any]
    topk: Callable[..., Any]
    sample: Callable[..., Any]


def register(operators: Differentiable) -> Nodes:
    """Register the operators of a family with torch; their gradients call ``operators``."""
    family = operators.family

    def argmax(*inputs: Any) -> Tensor:
        *scores, lengths, options = inputs
        return family.argmax(scores, lengths, options)

    def topk(*inputs: Any) -> tuple[Tensor, Tensor]:
        *scores, lengths, options, k = inputs
        return family.topk(scores, lengths, options, k)

    def sample(*inputs: Any) -> Tensor:
        *scores, lengths, streams, options, count = inputs
        return family.sample(scores, lengths, streams, options, count)

    def fake_argmax(*inputs: Any) -> Tensor:
        return empty_like(inputs[0])

    def fake_topk(*inputs: Any) -> tuple[Tensor, Tensor]:
        first, k = inputs[0], inputs[-1]
        return first.new_empty(k, first.shape[0]), first.new_empty(k, *first.shape)

    def fake_sample(*inputs: Any) -> Tensor:
        first: Tensor = inputs[0]
        return first.new_empty(inputs[-1], *first.shape)

    return Nodes(
        quantities={quantity: _differentiable(operators, quantity) for quantity in (EVALUATE, ENTROPY, HVP, THIRD)},
        argmax=_node(family, argmax, fake_argmax, "SymInt[] options", "Tensor"),
        topk=_node(family, topk, fake_topk, "SymInt[] options, SymInt k", "(Tensor, Tensor)", axis=1),
        sample=_node(
            family, sample, fake_sample, "Tensor streams, SymInt[] options, SymInt count", "Tensor", further=1, axis=1
        ),
    )


def _differentiable(operators: Differentiable, quantity: Quantity) -> Any:
    family = operators.family
    arrays, groups = len(family.shared_axes), quantity.num_vectors + 1

    def make_point(tensors: Any, options: Any) -> Point:
        inputs = tensors[: arrays * groups + 1]
        vectors = [inputs[1 + arrays * group : 1 + arrays * (group + 1)] for group in range(1, groups)]
        parts = tensors[len(inputs) :] if quantity.saves_parts else None
        return Point(operators, inputs[:arrays], inputs[arrays], options, vectors, parts)

    def implementation(*inputs: Any) -> Any:
        outputs = quantity.value(make_point(inputs[:-1], inputs[-1]))
        return outputs if len(outputs) > 1 else outputs[0]

    def fake(*inputs: Any) -> Any:
        first, each = inputs[0], [empty_like(array) for array in family.each(inputs[:arrays])]
        if quantity is ENTROPY:
            return tuple(first.new_empty(first.shape[0], dtype=torch.float64) for _ in range(3))
        outputs = (first.new_empty(first.shape[0]), *each) if quantity is EVALUATE else tuple(each)
        return outputs if len(outputs) > 1 else outputs[0]

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *tensors, ctx.options = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *(output[1:] if quantity.saves_parts else ()))

    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        needed = ctx.needs_input_grad
        requested = [needed[:arrays]]
        requested += [needed[1 + arrays * group : 1 + arrays * (group + 1)] for group in range(1, groups)]
        to_scores, *to_vectors = quantity.pullback(make_point(ctx.saved_tensors, ctx.options), grads, requested)
        flat = [*to_scores, None, *(grad for group in to_vectors for grad in group), None]
        return tuple(grad if is_needed else None for grad, is_needed in zip(flat, needed, strict=True))

    implementation.__name__ = quantity.name
    vectors = [f"Tensor? vector{group}_{array}" for group in range(quantity.num_vectors) for array in range(arrays)]
    outputs = ["Tensor"] * {EVALUATE: arrays + 1, ENTROPY: 3}.get(quantity, arrays)
    returns = f"({', '.join(outputs)})" if len(outputs) > 1 else outputs[0]
    return _node(
        family,
        implementation,
        fake,
        ", ".join([*vectors, "SymInt[] options"]),
        returns,
        further=len(vectors),
        autograd=(backward, save),
    )


def _node(
    family: Family,
    implementation: Callable[..., Any],
    fake: Callable[..., Any],
    arguments: str,
    returns: str,
    *,
    further: int = 0,
    axis: int = 0,
    autograd: tuple[Callable[..., Any], Callable[..., None]] | None = None,
) -> Any:
    """Register one operator under the name of its implementation; ``fake`` gives the shapes of its outputs."""
    # After scores and lengths come ``arguments``, of which the first ``further`` are tensors; ``axis`` is the batch
    # axis of the outputs; ``autograd`` is a backward function, and one that saves tensors for it.
    count = len(family.shared_axes)
    scores = ", ".join(f"Tensor scores{index}" for index in range(count))
    operator = torch.library.custom_op(
        f"structattn::{family.name}_{implementation.__name__}",
        implementation,
        mutates_args=(),
        schema=f"({scores}, Tensor lengths, {arguments}) -> {returns}",
    )
    operator.register_fake(fake)
    if autograd is not None:
        operator.register_autograd(autograd[0], setup_context=autograd[1])

    def batched(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        total = count + 1 + further
        order = [count, *range(count), *range(count + 1, total)]  # lengths always have a batch axis
        axes = [None, *family.shared_axes, *(None for _ in range(further))]
        lengths, *merged = merge_axis(info.batch_size, [in_dims[i] for i in order], [inputs[i] for i in order], axes)
        outputs = operator(*merged[:count], lengths, *merged[count:], *inputs[total:])
        return restore_axis(info.batch_size, outputs, axis)

    operator.register_vmap(batched)
    return operator
