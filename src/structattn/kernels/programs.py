"""Compiled programs: where there is one, and the memory that it reads and writes.

A compiled program reads and writes contiguous memory, and returns nan for a sentence for which it has no answer. Where
there is no compiled program, the plain-torch one runs. The libraries behind them are loaded when the first is needed.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import torch
from torch import Tensor

# Arrays of scores, ``(batch, ...)`` each; an array may lack the batch axis, see `Family.shared_axes`.
Scores = Sequence[Tensor]
Tensors = Sequence[Tensor | None]
# (arrays of scores, lengths if there are any, further arguments, results, numbers) -> whether all have an answer
Program = Callable[[Scores, Tensor | None, Tensors, Tensors, Sequence[int | float]], bool]

TYPES = {torch.float32: "float32", torch.float64: "float64"}
IS_INTERPRETED = os.environ.get("STRUCTATTN_TRITON") == "interpret"
if IS_INTERPRETED:
    # Triton reads this variable only when it is imported, which others may do before a kernel is needed.
    os.environ["TRITON_INTERPRET"] = "1"
_ALLOWED: ContextVar[bool] = ContextVar("structattn_compiled_programs", default=True)


@contextmanager
def plain_torch() -> Iterator[None]:
    """Run everything in plain torch within this context: the reference for the compiled programs.

    Example:
        >>> from structattn.kernels import native, plain_torch
        >>> with plain_torch():
        ...     native.status().active
        False
    """
    token = _ALLOWED.set(False)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def are_allowed() -> bool:
    """Whether compiled programs may run at all: not within `plain_torch`."""
    return _ALLOWED.get()


def find_on_device(name: str, first: Tensor) -> Program | None:
    """A kernel for the accelerator that a tensor is on, see `kernels.gpu.find`."""
    if first.is_cpu and not IS_INTERPRETED:
        return None
    from structattn.kernels import gpu

    return gpu.find(name, first)


def find_compiled(name: str, first: Tensor, *, pointers: int, numbers: int) -> Callable[..., bool] | None:
    """A function of the compiled library for tensors like ``first``, see `kernels.native.bind`."""
    if not first.is_cpu or first.dtype not in TYPES or not _ALLOWED.get():
        return None
    return _bind(name, first.dtype, pointers, numbers)


@lru_cache(maxsize=256)
def _bind(name: str, dtype: torch.dtype, pointers: int, numbers: int) -> Callable[..., bool] | None:
    from structattn.kernels import native

    return native.bind(f"{name}_{TYPES[dtype]}", pointers=pointers, numbers=numbers)


def call(
    compiled: Callable[..., bool],
    scores: Scores,
    lengths: Tensor,
    inputs: Tensors,
    results: Tensors,
    numbers: Sequence[int],
) -> bool:
    """Call ``f(scores, lengths, further scores, inputs, results, batch, numbers)`` on the memory of the tensors."""
    first, *further = scores
    dtype = first.dtype
    # Whatever is copied here lives until the call returns.
    memory: list[Tensor | None] = [
        _in_memory(first, dtype),
        _in_memory(lengths, torch.int64),
        *[_in_memory(array, dtype) for array in further],
    ]
    memory += [tensor if tensor is None else _in_memory(tensor, tensor.dtype) for tensor in (*inputs, *results)]
    return compiled(*[tensor if tensor is None else tensor.data_ptr() for tensor in memory], len(first), *numbers)


def _in_memory(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in the contiguous form that a compiled program reads; unchanged if it already has that form."""
    # The memory of two kinds of tensors lacks their values: zero tensors without storage, and lazily negated tensors.
    tensor = tensor.clone() if tensor._is_zerotensor() else tensor.resolve_neg()
    return (tensor if tensor.dtype == dtype else tensor.to(dtype)).contiguous()


def empty_like(tensor: Tensor) -> Tensor:
    """Contiguous memory of the shape and dtype of a tensor."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def allocate(arrays: Scores, requested: Sequence[bool] | None) -> list[Tensor | None]:
    """Memory for the parts of the requested arrays; if any is, compiled programs also write those of the first."""
    if requested is None:
        return [empty_like(array) for array in arrays]
    written = [any(requested), *requested[1:]]
    return [empty_like(array) if is_written else None for array, is_written in zip(arrays, written, strict=True)]


def failed_rows(result: Tensor) -> Tensor:
    """The sentences for which a compiled program has no answer: the first number of each of their results is nan."""
    return result.reshape(len(result), -1)[:, 0].isnan()


def fill_rows(results: Tensors, rows: Tensor, answers: Tensors) -> None:
    """Write the answers for the sentences that ``rows`` selects."""
    for result, answer in zip(results, answers, strict=True):
        if result is not None and answer is not None:
            result[rows] = answer


def flatten(arrays: Scores, values: Tensors) -> Tensor:
    """The values of all arrays of a sentence side by side, ``(batch, part)``, in float64; None is zero."""
    filled = [torch.zeros_like(array) if value is None else value for array, value in zip(arrays, values, strict=True)]
    return torch.cat([value.flatten(1).double() for value in filled], 1)
