"""Eager calls of the kernels: on the memory of tensors, past torch's dispatcher, with as little autograd as can be.

Separate from ``kernels.operators``, which registers the same functions for graphs: there every result is one of several
of a node, and here it is the only one, so that nothing is saved or made that nobody asked for. For a batch of short
sentences this takes longer than the kernels.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import Parameter

# (scores, lengths, sizes) -> log-partition, marginals
Marginals = Callable[[Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]
Parts = Callable[[Tensor, Tensor, Sequence[int]], Tensor]
Product = Callable[[Tensor, Tensor, Tensor, Sequence[int]], Tensor]


class Differentiable(Protocol):
    """The functions of a family that autograd knows, for gradients that shall be differentiated again."""

    @property
    def parts(self) -> Parts:
        """Marginals."""
        ...

    @property
    def hvp(self) -> Product:
        """Hessian times a vector."""
        ...


def log_partition_function(marginals: Marginals, again: Callable[[], Differentiable]) -> type[Function]:
    """The log-partition as a function of the scores alone.

    Args:
        marginals: the kernel.
        again: the functions of the family that autograd knows.
    """

    class LogPartition(Function):
        @staticmethod
        def forward(ctx: Any, scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> Tensor:
            log_partition, ctx.parts = marginals(scores, lengths, sizes)
            ctx.sizes = sizes
            ctx.save_for_backward(scores, lengths)
            return log_partition

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            scores, lengths = ctx.saved_tensors
            factor = grad.view(-1, *(1 for _ in scores.shape[1:]))
            if torch.is_grad_enabled():
                return factor * again().parts(scores, lengths, ctx.sizes), None, None
            # The marginals become the gradient where they are, which saves an array as large as the scores. Should the
            # graph be kept and asked again, they are computed again.
            parts = marginals(scores, lengths, ctx.sizes)[1] if ctx.parts is None else ctx.parts
            ctx.parts = None
            return parts.mul_(factor), None, None

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise forward_mode_error()

    return LogPartition


def parts_function(parts: Parts, hvp: Product, again: Callable[[], Differentiable]) -> type[Function]:
    """The marginals as a function of the scores alone.

    Args:
        parts: the kernel.
        hvp: the kernel for their gradient.
        again: the functions of the family that autograd knows.
    """

    class Marginal(Function):
        @staticmethod
        def forward(ctx: Any, scores: Tensor, lengths: Tensor, sizes: Sequence[int]) -> Tensor:
            ctx.sizes = sizes
            ctx.save_for_backward(scores, lengths)
            return parts(scores, lengths, sizes)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            product = again().hvp if torch.is_grad_enabled() else hvp
            scores, lengths = ctx.saved_tensors
            return product(scores, lengths, grad, ctx.sizes), None, None

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise forward_mode_error()

    return Marginal


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


def is_recorded(*tensors: Tensor) -> bool:
    """Whether autograd has to know: some tensor requires a gradient, or forward mode is at work."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    # A torch that counts its levels elsewhere is taken to be in forward mode always.
    return getattr(forward_ad, "_current_level", 0) >= 0


def call_compiled(
    compiled: Callable[..., bool], scores: Tensor, lengths: Tensor, *others: Tensor | None, sizes: Sequence[int]
) -> bool:
    """Call ``f(scores, lengths, *others, batch, *sizes)`` on the memory of the tensors.

    Args:
        compiled: from `kernels.native.function`.
        scores: of a type the kernel was made for.
        lengths: number of words of each sentence.
        others: vectors, and results, which are contiguous and of the type of the scores; None is neither given nor
            wanted.
        sizes: what else the kernel has to know.

    Returns:
        Whether every sentence has an answer; see `unanswered`.
    """
    kept: list[Tensor | None] = [_in_memory(scores, scores.dtype), _in_memory(lengths, torch.int64)]
    kept += [tensor if tensor is None else _in_memory(tensor, scores.dtype) for tensor in others]
    return compiled(*[tensor if tensor is None else tensor.data_ptr() for tensor in kept], len(scores), *sizes)


def unanswered(found: Tensor) -> Tensor:
    """The sentences that a kernel has no answer for: the first of their results is nan.

    Example:
        >>> unanswered(torch.tensor([[0.0, 1.0], [torch.nan, 0.0]])).tolist()
        [False, True]
    """
    return found.reshape(len(found), -1)[:, 0].isnan()


def like(scores: Tensor, *_: object) -> Tensor:
    """Room for parts."""
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def _in_memory(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor as a kernel reads it, one number after the other; itself if it is so already."""
    return (tensor if tensor.dtype == dtype else tensor.to(dtype)).contiguous()
