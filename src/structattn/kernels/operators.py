"""Registers a program as torch operators: one node in a graph, exact derivatives, nothing taped.

Separate because every family is registered the same way. With ``mu`` the gradient of the log-partition ``A`` and ``H``
its Hessian, the gradient of ``(A, mu)`` for cotangents ``(a, v)`` is ``a mu + H v``, because ``H`` is symmetric. The
gradient of ``H v`` contracts the third derivative of ``A`` twice, which hyper-dual numbers give. Beyond that an error
is raised.

Reference: Kim et al. (2017), Structured attention networks, section 3.3; Pearlmutter (1994), Fast exact multiplication
by the Hessian.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from structattn.kernels import native
from structattn.kernels.chart import Chart, run
from structattn.kernels.numbers import seed

# (numbers (order, batch, part), lengths, sizes) -> (log_partition (order, batch), marginals (order, batch, part))
Program = Callable[[Tensor, Tensor, tuple[int, ...]], tuple[Tensor, Tensor]]
# (scores (batch, part), lengths, sizes) -> (entropy (batch,), its gradient (batch, part))
Entropy = Callable[[Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Operators:
    """The operators of one family, over scores flattened to ``(batch, part)``.

    Attributes:
        marginals: ``(scores, lengths, sizes) -> (log_partition, marginals)``.
        hvp: ``(scores, lengths, vector, sizes) -> Hessian times vector``.
    """

    marginals: Callable[[Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]
    hvp: Callable[[Tensor, Tensor, Tensor, Sequence[int]], Tensor]


def register(family: str, program: Program) -> Operators:
    """Register ``structattn::<family>_marginals``, ``_hvp`` and ``_third`` with torch.

    Each has a fake kernel (``torch.compile`` and ``torch.export`` keep one node), a batching rule (``torch.vmap``), and
    a gradient made of the next one.

    Args:
        family: name of the family, unique in the process.
        program: the dynamic program over numbers that carry their derivatives.
    """

    def marginals(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        compiled = native.function(f"{family}_marginals", scores, pointers=4, numbers=1 + len(sizes))
        if compiled is not None:
            found = scores.new_empty(len(scores)), _like(scores)
            _call(compiled, scores, lengths, *found, sizes=sizes)
            return found
        log_partition, parts = program(seed(scores), lengths, tuple(sizes))
        return log_partition[0].clone(), parts[0].clone(memory_format=torch.contiguous_format)

    def hvp(scores: Tensor, lengths: Tensor, vector: Tensor, sizes: Sequence[int]) -> Tensor:
        compiled = native.function(f"{family}_hvp", scores, pointers=4, numbers=1 + len(sizes))
        if compiled is not None:
            product = _like(scores)
            _call(compiled, scores, lengths, vector, product, sizes=sizes)
            return product
        _, parts = program(seed(scores, vector), lengths, tuple(sizes))
        return parts[1].clone(memory_format=torch.contiguous_format)

    def third(scores: Tensor, lengths: Tensor, first: Tensor, second: Tensor, sizes: Sequence[int]) -> Tensor:
        _, parts = program(seed(scores, first, second), lengths, tuple(sizes))
        return parts[3].clone(memory_format=torch.contiguous_format)

    operators = [
        torch.library.custom_op(f"structattn::{family}_{function.__name__}", function, mutates_args=())
        for function in (marginals, hvp, third)
    ]
    marginals_operator, hvp_operator, third_operator = operators
    marginals_operator.register_fake(lambda scores, *_: (scores.new_empty(scores.shape[0]), _like(scores)))
    hvp_operator.register_fake(_like)
    third_operator.register_fake(_like)

    def marginals_backward(ctx: Any, log_partition_grad: Tensor | None, parts_grad: Tensor | None) -> Any:
        scores, lengths, parts = ctx.saved_tensors
        grad = None
        if log_partition_grad is not None:
            grad = log_partition_grad.unsqueeze(-1) * parts
        if parts_grad is not None:
            through_parts = hvp_operator(scores, lengths, parts_grad, ctx.sizes)
            grad = through_parts if grad is None else grad + through_parts
        return grad, None, None

    def hvp_backward(ctx: Any, grad: Tensor) -> Any:
        scores, lengths, vector = ctx.saved_tensors
        to_scores = third_operator(scores, lengths, vector, grad, ctx.sizes) if ctx.needs_input_grad[0] else None
        to_vector = hvp_operator(scores, lengths, grad, ctx.sizes) if ctx.needs_input_grad[2] else None
        return to_scores, None, to_vector, None

    def third_backward(ctx: Any, grad: Tensor) -> Any:
        raise NotImplementedError(
            f"structattn::{family}_third was asked for its gradient, the fourth derivative of the log-partition; "
            "derivatives up to the third are exact, further ones do not exist here"
        )

    marginals_operator.register_autograd(marginals_backward, setup_context=_save_marginals)
    hvp_operator.register_autograd(hvp_backward, setup_context=_save_inputs)
    third_operator.register_autograd(third_backward, setup_context=_save_inputs)
    for operator in operators:
        operator.register_vmap(_batching_rule(operator))
    return Operators(_reverse_mode_only(marginals_operator), _reverse_mode_only(hvp_operator))


def register_chart(family: str, build: Callable[[tuple[int, ...]], Chart]) -> tuple[Operators, Entropy]:
    """Register the operators of a family with a chart, and ``structattn::<family>_entropy``.

    Args:
        family: name of the family, unique in the process.
        build: the chart for the sizes that the operators are called with.
    """
    operators = register(family, lambda scores, lengths, sizes: run(build(sizes), scores, lengths))

    def entropy(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        numbers = seed(scores, torch.zeros_like(scores))
        value, gradient = run(build(tuple(sizes)), numbers, lengths, entropy=True)
        return value[1].clone(), gradient[1].clone(memory_format=torch.contiguous_format)

    def backward(ctx: Any, entropy_grad: Tensor | None, _: Tensor | None) -> Any:
        if entropy_grad is None:
            return None, None, None
        scores, lengths, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            # To be differentiated again: the gradient as a function of the scores, -H scores.
            finite = scores.masked_fill(scores == -torch.inf, 0)
            gradient = -operators.hvp(scores, lengths, finite, ctx.sizes)
        return entropy_grad.unsqueeze(-1) * gradient, None, None

    operator = torch.library.custom_op(f"structattn::{family}_entropy", entropy, mutates_args=())
    operator.register_fake(lambda scores, *_: (scores.new_empty(scores.shape[0]), _like(scores)))
    operator.register_autograd(backward, setup_context=_save_marginals)
    operator.register_vmap(_batching_rule(operator))
    return operators, _reverse_mode_only(operator)


def _reverse_mode_only(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse forward-mode duals, which a custom operator would drop without a word."""

    def checked(*inputs: Any) -> Any:
        if not torch.compiler.is_compiling():
            for tensor in inputs[:-1]:
                if forward_ad.unpack_dual(tensor).tangent is not None:
                    raise NotImplementedError(
                        "forward-mode differentiation of a structured distribution was asked for; expected reverse "
                        "mode (backward, torch.autograd.grad), whose Hessian-vector products give the same numbers"
                    )
        return operator(*inputs)

    return checked


def _call(compiled: Callable[..., None], *tensors: Tensor, sizes: Sequence[int]) -> None:
    """Call ``f(scores, lengths, ..., results, batch, *sizes)`` on the memory of the tensors; results are contiguous."""
    kept = [tensor.contiguous() for tensor in tensors]
    compiled(*(tensor.data_ptr() for tensor in kept), len(kept[0]), *sizes)


def _like(scores: Tensor, *_: object) -> Tensor:
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def _save_marginals(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    scores, lengths, ctx.sizes = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(scores, lengths, output[1])


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.sizes = inputs
    ctx.save_for_backward(*tensors)


def _batching_rule(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The mapped axis becomes part of the batch axis."""

    def batched(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        *tensors, sizes = inputs
        size = info.batch_size
        merged = [
            (tensor.movedim(dim, 0) if dim is not None else tensor.expand(size, *tensor.shape)).flatten(0, 1)
            for tensor, dim in zip(tensors, in_dims, strict=False)
        ]
        outputs = operator(*merged, sizes)
        if isinstance(outputs, Tensor):
            return outputs.unflatten(0, (size, -1)), 0
        return tuple(output.unflatten(0, (size, -1)) for output in outputs), (0,) * len(outputs)

    return batched
