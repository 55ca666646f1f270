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
from torch.nn import Parameter

from structattn.kernels import native
from structattn.kernels.chart import Chart, run
from structattn.kernels.numbers import seed

# (numbers (order, batch, part), lengths, sizes) -> (log_partition (order, batch), marginals (order, batch, part))
Program = Callable[[Tensor, Tensor, tuple[int, ...]], tuple[Tensor, Tensor]]
# (scores (batch, part), lengths, sizes) -> (scores with -inf on padding and without a constant, that constant (batch,))
Preparation = Callable[[Tensor, Tensor, tuple[int, ...]], tuple[Tensor, Tensor]]
# (scores (batch, part), lengths, sizes) -> (entropy (batch,), its gradient (batch, part))
Entropy = Callable[[Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Operators:
    """The operators of one family, over scores flattened to ``(batch, part)``.

    Attributes:
        marginals: ``(scores, lengths, sizes) -> (log_partition, marginals)``.
        hvp: ``(scores, lengths, vector, sizes) -> Hessian times vector``.
        argmax: ``(scores, lengths, sizes) -> parts of a best structure``, all zero if nothing is allowed; None where no
            compiled kernel can run, and the plain-torch selector of the family must.
    """

    marginals: Callable[[Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]
    hvp: Callable[[Tensor, Tensor, Tensor, Sequence[int]], Tensor]
    argmax: Callable[[Tensor, Tensor, Sequence[int]], Tensor | None]


def unchanged(scores: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The preparation of a family whose scores come with ``-inf`` on padding, and from which no constant is taken."""
    return scores, scores.new_zeros(len(scores))


def register(family: str, program: Program, prepare: Preparation = unchanged) -> Operators:
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
        ready, taken = prepare(scores.double(), lengths, tuple(sizes))
        numbers = seed(ready, *(direction.double() for direction in directions))
        log_partition, parts = program(numbers, lengths, tuple(sizes))
        wanted = parts[-1].to(scores.dtype, memory_format=torch.contiguous_format, copy=True)
        return (log_partition[0] + taken).to(scores.dtype), wanted

    def marginals(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        compiled = native.function(f"{family}_marginals", scores, pointers=4, numbers=1 + len(sizes))
        if compiled is None:
            return run_program(scores, lengths, sizes)
        log_partition, parts = scores.new_empty(len(scores)), _like(scores)
        call_compiled(compiled, scores, lengths, log_partition, parts, sizes=sizes)
        return log_partition, parts

    def hvp(scores: Tensor, lengths: Tensor, vector: Tensor, sizes: Sequence[int]) -> Tensor:
        compiled = native.function(f"{family}_hvp", scores, pointers=4, numbers=1 + len(sizes))
        if compiled is None:
            return run_program(scores, lengths, sizes, vector)[1]
        product = _like(scores)
        call_compiled(compiled, scores, lengths, vector, product, sizes=sizes)
        return product

    def third(scores: Tensor, lengths: Tensor, first: Tensor, second: Tensor, sizes: Sequence[int]) -> Tensor:
        return run_program(scores, lengths, sizes, first, second)[1]

    def argmax(scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> Tensor | None:
        compiled = native.function(f"{family}_argmax", scores, pointers=3, numbers=1 + len(sizes))
        if compiled is None or not is_eager(scores):
            return None
        parts = _like(scores)
        call_compiled(compiled, scores, lengths, parts, sizes=sizes)
        return parts

    def marginals_backward(ctx: Any, log_partition_grad: Tensor | None, parts_grad: Tensor | None) -> Any:
        scores, lengths, parts = ctx.saved_tensors
        grad = None
        if log_partition_grad is not None:
            grad = log_partition_grad.unsqueeze(-1) * parts
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
        return scores.new_empty(scores.shape[0]), _like(scores)

    marginals_operator, marginals_function = _registered(
        family, marginals, fake=fake_marginals, backward=marginals_backward, save=_save_marginals
    )
    hvp_operator, hvp_function = _registered(family, hvp, fake=_like, backward=hvp_backward, save=_save_inputs)
    third_operator, _ = _registered(family, third, fake=_like, backward=third_backward, save=_save_inputs)
    operators = Operators(
        _dispatched(marginals_operator, marginals_function), _dispatched(hvp_operator, hvp_function), argmax
    )
    return operators


def register_chart(
    family: str, build: Callable[[tuple[int, ...]], Chart], prepare: Preparation = unchanged
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
        return scores.new_empty(scores.shape[0]), _like(scores)

    return operators, _dispatched(*_registered(family, entropy, fake=fake, backward=backward, save=_save_marginals))


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


def _dispatched(operator: Callable[..., Any], function: type[Function]) -> Callable[..., Any]:
    """The function where it is called eagerly, the operator where torch looks on."""

    def call(*inputs: Any) -> Any:
        if is_eager(inputs[0]):
            return function.apply(*inputs)
        if not torch.compiler.is_compiling():
            # A custom operator would drop the tangents of forward mode without a word.
            for tensor in inputs[:-1]:
                if forward_ad.unpack_dual(tensor).tangent is not None:
                    raise forward_mode_error()
        return operator(*inputs)

    return call


def forward_mode_error() -> NotImplementedError:
    """What is raised where forward mode is asked for."""
    return NotImplementedError(
        "forward-mode differentiation of a structured distribution was asked for; expected reverse mode "
        "(backward, torch.autograd.grad), whose Hessian-vector products give the same numbers"
    )


# What ``autograd.Function.apply`` itself asks; should a torch lack it, every call goes to the operator.
_transforms_are_active: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def is_eager(scores: Tensor) -> bool:
    """Whether this is a plain tensor, and neither ``torch.compile`` nor ``torch.func`` is at work."""
    return type(scores) in (Tensor, Parameter) and not torch.compiler.is_compiling() and not _transforms_are_active()


def call_compiled(compiled: Callable[..., None], *tensors: Tensor, sizes: Sequence[int]) -> None:
    """Call ``f(scores, lengths, ..., results, batch, *sizes)`` on the memory of the tensors; results are contiguous."""
    scores, lengths, *others = tensors
    kept = [scores.contiguous(), lengths.to(torch.int64).contiguous()]
    kept += [tensor.to(scores.dtype).contiguous() for tensor in others]
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
