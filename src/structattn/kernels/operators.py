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
from torch.autograd import Function, forward_ad

from structattn.kernels import native
from structattn.kernels.chart import Chart, run
from structattn.kernels.eager import (
    call_compiled,
    forward_mode_error,
    is_eager,
    is_recorded,
    like,
    log_partition_function,
    parts_function,
    unanswered,
)
from structattn.kernels.numbers import seed

# (numbers (order, batch, part), lengths, sizes) -> (log_partition (order, batch), marginals (order, batch, part))
Program = Callable[[Tensor, Tensor, tuple[int, ...]], tuple[Tensor, Tensor]]
# (scores (batch, part), lengths, sizes) -> (scores with -inf on padding and without a constant, that constant (batch,))
Preparation = Callable[[Tensor, Tensor, tuple[int, ...]], tuple[Tensor, Tensor]]
# (scores (batch, part), lengths, sizes) -> (entropy (batch,), its gradient (batch, part))
Entropy = Callable[[Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Operators:
    """The operators of one family, over scores ``(batch, *part)``: flat, or with as many axes as the parts have.

    Attributes:
        marginals: ``(scores, lengths, sizes) -> (log_partition, marginals)``.
        log_partition: the first of the two alone.
        parts: the second alone.
        hvp: ``(scores, lengths, vector, sizes) -> Hessian times vector``.
        argmax: ``(scores, lengths, sizes) -> parts of a best structure``, all zero if nothing is allowed; None where no
            compiled kernel can run, and the plain-torch selector of the family must.
    """

    marginals: Callable[[Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]
    log_partition: Callable[[Tensor, Tensor, Sequence[int]], Tensor]
    parts: Callable[[Tensor, Tensor, Sequence[int]], Tensor]
    hvp: Callable[[Tensor, Tensor, Tensor, Sequence[int]], Tensor]
    argmax: Callable[[Tensor, Tensor, Sequence[int]], Tensor | None]


def register(family: str, program: Program, prepare: Preparation) -> Operators:
    """Register ``structattn::<family>_marginals``, ``_hvp`` and ``_third`` with torch.

    Each has a fake kernel (``torch.compile`` and ``torch.export`` keep one node), a batching rule (``torch.vmap``), and
    a gradient made of the next one. Called eagerly they skip torch's dispatcher, which costs more than a short
    sentence. Where the compiled library has ``<family>_marginals``, ``_hvp`` and ``_argmax``, these are called;
    ``program`` is their reference, the third derivative, and the path for other devices. Everything is computed in
    float64 and returned in the type of the scores.

    Args:
        family: name of the family, unique in the process.
        program: the dynamic program over numbers that carry their derivatives.
        prepare: what makes raw scores ready for the program; a compiled kernel does the same by itself.
    """

    def run_program(
        scores: Tensor, lengths: Tensor, sizes: Sequence[int], *directions: Tensor
    ) -> tuple[Tensor, Tensor]:
        ready, taken = prepare(scores.double().flatten(1), lengths, tuple(sizes))
        numbers = seed(ready, *(direction.double().flatten(1) for direction in directions))
        log_partition, parts = program(numbers, lengths, tuple(sizes))
        wanted = parts[-1].to(scores.dtype, memory_format=torch.contiguous_format, copy=True)
        return (log_partition[0] + taken).to(scores.dtype), wanted.view(scores.shape)

    def evaluate(
        scores: Tensor, lengths: Tensor, sizes: Sequence[int], *, log_partition: bool = True, parts: bool = True
    ) -> tuple[Any, Any]:
        compiled = native.function(f"{family}_marginals", scores, pointers=4, numbers=1 + len(sizes))
        if compiled is None:
            return run_program(scores, lengths, sizes)
        value: Any = scores.new_empty(len(scores)) if log_partition else None
        found: Any = like(scores) if parts else None
        if not call_compiled(compiled, scores, lengths, value, found, sizes=sizes):
            rest = unanswered(found if value is None else value)
            exact_value, exact = run_program(scores[rest], lengths[rest], sizes)
            if value is not None:
                value[rest] = exact_value
            if found is not None:
                found[rest] = exact
        return value, found

    def marginals(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        return evaluate(scores, lengths, sizes)

    def log_partition(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> Tensor:
        found: Tensor = evaluate(scores, lengths, sizes, parts=False)[0]
        return found

    def parts(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> Tensor:
        found: Tensor = evaluate(scores, lengths, sizes, log_partition=False)[1]
        return found

    def hvp(scores: Tensor, lengths: Tensor, vector: Tensor, sizes: Sequence[int]) -> Tensor:
        compiled = native.function(f"{family}_hvp", scores, pointers=4, numbers=1 + len(sizes))
        if compiled is None:
            return run_program(scores, lengths, sizes, vector)[1]
        product = like(scores)
        if not call_compiled(compiled, scores, lengths, vector, product, sizes=sizes):
            rest = unanswered(product)
            product[rest] = run_program(scores[rest], lengths[rest], sizes, vector[rest])[1]
        return product

    def third(scores: Tensor, lengths: Tensor, first: Tensor, second: Tensor, sizes: Sequence[int]) -> Tensor:
        return run_program(scores, lengths, sizes, first, second)[1]

    def argmax(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> Tensor | None:
        compiled = native.function(f"{family}_argmax", scores, pointers=3, numbers=1 + len(sizes))
        if compiled is None or not is_eager(scores):
            return None
        parts = like(scores)
        call_compiled(compiled, scores, lengths, parts, sizes=sizes)
        return parts

    def marginals_backward(ctx: Any, log_partition_grad: Tensor | None, parts_grad: Tensor | None) -> Any:
        scores, lengths, parts = ctx.saved_tensors
        grad = None
        if log_partition_grad is not None:
            grad = log_partition_grad.view(-1, *(1 for _ in parts.shape[1:])) * parts
        if parts_grad is not None:
            through_parts = operators.hvp(scores, lengths, parts_grad, ctx.sizes)
            grad = through_parts if grad is None else grad + through_parts
        return grad, None, None

    def hvp_backward(ctx: Any, grad: Tensor) -> Any:
        scores, lengths, vector = ctx.saved_tensors
        to_scores = third_operator(scores, lengths, vector, grad, ctx.sizes) if ctx.needs_input_grad[0] else None
        to_vector = operators.hvp(scores, lengths, grad, ctx.sizes) if ctx.needs_input_grad[2] else None
        return to_scores, None, to_vector, None

    def third_backward(ctx: Any, grad: Tensor) -> Any:
        raise NotImplementedError(
            f"structattn::{family}_third was asked for its gradient, the fourth derivative of the log-partition; "
            "derivatives up to the third are exact, further ones do not exist here"
        )

    def fake_marginals(scores: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        return scores.new_empty(scores.shape[0]), like(scores)

    marginals_operator, marginals_function = _registered(
        family, marginals, fake=fake_marginals, backward=marginals_backward, save=_save_marginals
    )
    hvp_operator, hvp_function = _registered(family, hvp, fake=like, backward=hvp_backward, save=_save_inputs)
    third_operator, _ = _registered(family, third, fake=like, backward=third_backward, save=_save_inputs)

    def first_operator(*inputs: Any) -> Tensor:
        found: Tensor = marginals_operator(*inputs)[0]
        return found

    def second_operator(*inputs: Any) -> Tensor:
        found: Tensor = marginals_operator(*inputs)[1]
        return found

    def again() -> Operators:
        return operators

    operators = Operators(
        _dispatched(marginals_operator, marginals_function, marginals),
        _dispatched(first_operator, log_partition_function(marginals, again), log_partition),
        _dispatched(second_operator, parts_function(parts, hvp, again), parts),
        _dispatched(hvp_operator, hvp_function, hvp),
        argmax,
    )
    return operators


def register_chart(
    family: str, build: Callable[[tuple[int, ...]], Chart], prepare: Preparation
) -> tuple[Operators, Entropy]:
    """Register the operators of a family with a chart, and ``structattn::<family>_entropy``.

    Args:
        family: name of the family, unique in the process.
        build: the chart for the sizes that the operators are called with.
        prepare: as for `register`; the entropy is asked for with scores that are ready.
    """
    operators = register(family, lambda scores, lengths, sizes: run(build(sizes), scores, lengths), prepare)

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

    def fake(scores: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        return scores.new_empty(scores.shape[0]), like(scores)

    registered = _registered(family, entropy, fake=fake, backward=backward, save=_save_marginals)
    return operators, _dispatched(*registered, entropy)


def _registered(
    family: str,
    implementation: Callable[..., Any],
    *,
    fake: Callable[..., Any],
    backward: Callable[..., Any],
    save: Callable[..., None],
) -> tuple[Callable[..., Any], type[Function]]:
    """The same function twice: an operator of torch, for graphs, and an ``autograd.Function``, for eager calls."""
    name = f"structattn::{family}_{implementation.__name__}"
    operator = torch.library.custom_op(name, implementation, mutates_args=())
    operator.register_fake(fake)
    operator.register_autograd(backward, setup_context=save)
    operator.register_vmap(_batching_rule(operator))

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = implementation(*inputs)
        save(ctx, inputs, output)
        return output

    def refuse(ctx: Any, *tangents: Any) -> Any:
        raise forward_mode_error()

    methods = {"forward": forward, "backward": backward, "jvp": refuse}
    statics = {method: staticmethod(function) for method, function in methods.items()}
    return operator, type(implementation.__name__, (Function,), statics)


def _dispatched(
    operator: Callable[..., Any], function: type[Function], implementation: Callable[..., Any]
) -> Callable[..., Any]:
    """The operator where torch looks on; eagerly the function, or nothing around the implementation without a graph."""

    def call(*inputs: Any) -> Any:
        if is_eager(inputs[0]):
            return function.apply(*inputs) if is_recorded(*inputs[:-1]) else implementation(*inputs)
        if not torch.compiler.is_compiling():
            # A custom operator would drop the tangents of forward mode without a word.
            for tensor in inputs[:-1]:
                if forward_ad.unpack_dual(tensor).tangent is not None:
                    raise forward_mode_error()
        return operator(*inputs)

    return call


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
