"""Memory layout of a family's programs: flat scores for plain torch, contiguous tensors for compiled functions.

A compiled function reads and writes contiguous memory, and returns nan for a sentence for which it has no answer.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Arrays of scores, ``(batch, ...)`` each; an array may lack the batch axis, see `Family.shared_axes`.
Scores = Sequence[Tensor]


def empty_like(scores: Tensor) -> Tensor:
    """Contiguous memory of the shape and dtype of a tensor.

    Example:
        >>> empty_like(torch.zeros(2, 3).T).is_contiguous()
        True
    """
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def failed_rows(result: Tensor) -> Tensor:
    """The sentences for which a compiled program has no answer: the first number of each of their results is nan.

    Example:
        >>> failed_rows(torch.tensor([[0.0, 1.0], [torch.nan, 0.0]])).tolist()
        [False, True]
    """
    return result.reshape(len(result), -1)[:, 0].isnan()


def memory_for(each: Scores, wanted: Sequence[bool] | None) -> list[Tensor | None]:
    """Memory for the parts of the wanted arrays; if any is wanted, the compiled programs also write those of the first.

    Example:
        >>> [own is None for own in memory_for([torch.zeros(2, 3), torch.zeros(2, 4)], [True, False])]
        [False, True]
    """
    if wanted is None:
        return [empty_like(array) for array in each]
    own = [any(wanted), *wanted[1:]]
    return [empty_like(array) if want else None for array, want in zip(each, own, strict=True)]


def fill_rows(results: Sequence[Tensor | None], rows: Tensor, answers: Sequence[Tensor]) -> None:
    """Write the answers for the sentences that ``rows`` selects."""
    for result, answer in zip(results, answers, strict=True):
        if result is not None:
            result[rows] = answer


def flattened(each: Scores, arrays: Sequence[Tensor | None]) -> Tensor:
    """All arrays of a sentence side by side, ``(batch, part)``, in float64; None is zero.

    Example:
        >>> flattened([torch.zeros(1, 2), torch.zeros(1, 1)], [torch.ones(1, 2), None])
        tensor([[1., 1., 0.]], dtype=torch.float64)
    """
    filled = [torch.zeros_like(own) if given is None else given for own, given in zip(each, arrays, strict=True)]
    return torch.cat([array.flatten(1).double() for array in filled], 1)


def call(
    compiled: Callable[..., bool],
    scores: Scores,
    lengths: Tensor,
    given: Sequence[Tensor | None],
    results: Sequence[Tensor | None],
    numbers: Sequence[int],
) -> bool:
    """Call ``f(scores, lengths, further scores, given, results, batch, numbers)`` on the memory of the tensors.

    Args:
        compiled: from `kernels.native.function`.
        scores: of the dtype that the function was compiled for.
        lengths: number of words of each sentence.
        given: vectors, values or streams; None if not given.
        results: contiguous; None if not wanted.
        numbers: further integers that the function takes.

    Returns:
        Whether every sentence has an answer; see `failed_rows`.
    """
    first, *further = scores
    dtype = first.dtype
    # Whatever is copied here is kept until the call returns.
    kept: list[Tensor | None] = [
        _in_memory(first, dtype),
        _in_memory(lengths, torch.int64),
        *[_in_memory(each, dtype) for each in further],
    ]
    kept += [other if other is None else _in_memory(other, other.dtype) for other in (*given, *results)]
    return compiled(*[tensor if tensor is None else tensor.data_ptr() for tensor in kept], len(first), *numbers)


def _in_memory(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in the contiguous form that a compiled program reads; unchanged if it already has that form."""
    # The memory of two kinds of tensors lacks their values: zero tensors without storage, and lazily negated tensors.
    tensor = tensor.clone() if tensor._is_zerotensor() else tensor.resolve_neg()
    return (tensor if tensor.dtype == dtype else tensor.to(dtype)).contiguous()
