"""The rules of `kernels.rules` as functions of autograd: eager calls, and the transforms of ``torch.func``.

Log-partition alone and marginals alone have separate functions, which save and compute only what was requested: for a
batch of short sentences, anything more would take longer than the kernels.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from structattn.kernels.arrays import Scores
from structattn.kernels.batching import merged, restored
from structattn.kernels.family import Family
from structattn.kernels.rules import Arrays, Differentiable, Point, Rule, gradient


def apply(
    rule: Rule,
    operators: Differentiable,
    scores: Scores,
    lengths: Tensor,
    vectors: Sequence[Arrays],
    options: Sequence[int],
) -> Sequence[Tensor]:
    """The value of a rule, recorded for its derivatives.

    Args:
        rule: the function to compute.
        operators: of the family.
        scores: the arrays.
        lengths: number of words of each sentence.
        vectors: further inputs of the rule.
        options: of the family.
    """
    make = _transformed if transforms_are_active() else _recorded
    flat = [array for group in (scores, *vectors) for array in group]
    found: Sequence[Tensor] = make(rule).apply(operators, options, lengths, *flat)
    return found


def log_partition(operators: Differentiable, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
    """The log-partition, recorded with the marginals that were computed on the way, which become its gradient."""
    found: Tensor = _LogPartition.apply(operators, options, lengths, *scores)
    return found


def marginals(operators: Differentiable, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
    """The marginals of the first array, recorded."""
    found: Tensor = _Marginals.apply(operators, options, lengths, *scores)
    return found


def first_marginals(family: Family, scores: Scores, lengths: Tensor, options: Sequence[int]) -> Tensor:
    """The marginals of the first array; nothing else is written."""
    only = [index == 0 for index in range(len(scores))]
    found = family.evaluate(scores, lengths, options, log_partition=False, parts=only)[1][0]
    assert found is not None  # it was asked for
    return found


# The check of ``autograd.Function.apply`` itself; in a torch without it, transforms count as always active.
transforms_are_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
# ``torch.autograd.grad(..., is_grads_batched=True)`` maps gradients by an older mechanism than torch.vmap.
is_mapped = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda tensor: False)


def _unwrapped(tensor: Any) -> Any:
    """The tensor below a transform level that has ended, as when the function from ``torch.func.vjp`` is called."""
    unwrap = getattr(torch._C._functorch, "unwrap_if_dead", None)
    return tensor if tensor is None or unwrap is None else unwrap(tensor)


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
        wanted, again, parts = ctx.needs_input_grad[3:], torch.is_grad_enabled() or is_mapped(grad), None
        if not again:
            # If the graph is retained and used again, the marginals are recomputed.
            family = ctx.operators.family
            parts = ctx.parts or family.evaluate(scores, lengths, ctx.options, log_partition=False, parts=wanted)[1]
            ctx.parts = None
        at = Point(ctx.operators, scores, lengths, ctx.options, parts=parts)
        return None, None, None, *gradient(at, grad, [None for _ in scores], wanted, overwrite=not again)


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
        vectors, wanted = [grad, *(None for _ in scores[1:])], ctx.needs_input_grad[3:]
        at = Point(ctx.operators, scores, lengths, ctx.options)
        if torch.is_grad_enabled() or is_mapped(grad):
            return None, None, None, *gradient(at, None, vectors, wanted)
        found = ctx.operators.family.hvp(scores, lengths, vectors, ctx.options, wanted=wanted)
        return None, None, None, *(own if want else None for own, want in zip(at.summed(found), wanted, strict=True))


def _primal(tensor: Any) -> Any:
    """The tensor without its tangent of the innermost level."""
    return None if tensor is None else forward_ad.unpack_dual(tensor).primal


@lru_cache
def _transformed(rule: Rule) -> Any:
    """The rule as an autograd function that the transforms of ``torch.func`` support."""

    def forward(operators: Differentiable, options: Sequence[int], lengths: Tensor, *arrays: Tensor | None) -> Any:
        scores, *vectors = _groups(arrays, rule.num_vectors + 1)
        return rule.value(Point(operators, scores, lengths, options, vectors))

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.operators, ctx.options, *tensors = inputs
        tensors += output[1:] if rule.saves_parts else ()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    def point(ctx: Any, entered: Callable[[Any], Any]) -> Point:
        lengths, *arrays = map(entered, ctx.saved_tensors)
        groups = _groups(arrays, rule.num_vectors + 1 + rule.saves_parts)
        parts = groups.pop() if rule.saves_parts else None
        return Point(ctx.operators, groups[0], lengths, ctx.options, groups[1:], parts)

    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        wanted = _groups(ctx.needs_input_grad[3:], rule.num_vectors + 1)
        found = rule.pullback(point(ctx, _unwrapped), grads, wanted)
        flat = (
            own if want else None
            for group, wishes in zip(found, wanted, strict=True)
            for own, want in zip(group, wishes, strict=True)
        )
        return None, None, None, *flat

    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        # torch switches forward mode off here, for an outer ``jvp`` as well, which would then see no tangents. Once
        # back on, it must not see the tangents of this level, which are being computed.
        with forward_ad._set_fwd_grad_enabled(True):
            return rule.pushforward(point(ctx, _primal), _groups(tangents[3:], rule.num_vectors + 1))

    def vmap(info: Any, in_dims: Any, operators: Differentiable, options: Any, *tensors: Tensor | None) -> Any:
        shared = operators.family.shared_axes
        axes = (None, *shared, *(None for _ in range(rule.num_vectors * len(shared))))
        lengths, *arrays = merged(info.batch_size, in_dims[2:], tensors, axes)
        scores, *vectors = _groups(arrays, rule.num_vectors + 1)
        return restored(info.batch_size, tuple(apply(rule, operators, scores, lengths, vectors, options)))

    methods: dict[str, Any] = {
        "forward": forward,
        "setup_context": setup_context,
        "backward": backward,
        "jvp": jvp,
        "vmap": vmap,
    }
    return type(rule.name, (Function,), {name: staticmethod(method) for name, method in methods.items()})


@lru_cache
def _recorded(rule: Rule) -> Any:
    """The same function in a form for which torch does not inspect the signature of ``forward`` at each call."""
    function = _transformed(rule)

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = function.forward(*inputs)
        function.setup_context(ctx, inputs, output)
        return output

    methods: dict[str, Any] = {"forward": forward, "backward": function.backward, "jvp": function.jvp}
    return type(rule.name, (Function,), {name: staticmethod(method) for name, method in methods.items()})


def _groups(arrays: Sequence[Any], count: int) -> list[Sequence[Any]]:
    size = len(arrays) // count
    return [arrays[size * index : size * (index + 1)] for index in range(count)]
