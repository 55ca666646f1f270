"""Checks of a distribution's arguments: scores, lengths, counts and shapes, with one clear error for what does not fit.

Values are checked only where they exist and nothing has to wait for them: not within ``torch.compile``,
``torch.export`` and the transforms of ``torch.func``, and on an accelerator only on request.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor

from structattn.kernels.operators import is_eager


def checked_scores(family: str, **arrays: Any) -> list[Tensor]:
    """Floating-point arrays of one type on one device.

    Args:
        family: name of the class, for the message.
        arrays: the values given, by name.

    Raises:
        ValueError: if something is not a tensor of floating-point numbers, or is on a different device than the rest.

    Example:
        >>> [scores.dtype for scores in checked_scores("CRF", unary=torch.zeros(1), edges=torch.zeros(1).double())]
        [torch.float64, torch.float64]
    """
    for name, array in arrays.items():
        if not isinstance(array, Tensor):
            raise ValueError(f"{family}: {name} of type {type(array).__name__}: expected a floating-point tensor")
        if not array.is_floating_point():
            raise ValueError(
                f"{family}: {name} of type {array.dtype}: expected floating-point scores, as in {name}.float()"
            )
    first, *others = arrays.values()
    dtype = first.dtype
    for name, array in list(arrays.items())[1:]:
        if array.device != first.device:
            raise ValueError(f"{family}: {name} on {array.device}: expected {first.device}, where the other scores are")
        dtype = torch.promote_types(dtype, array.dtype)
    return [array if array.dtype == dtype else array.to(dtype) for array in (first, *others)]


def checked_lengths(
    lengths: Any,
    batch_shape: torch.Size,
    *,
    num_words: int,
    like: Tensor,
    validate_args: bool | None,
) -> Int[Tensor, "*batch"]:
    """Lengths for a batch.

    Args:
        lengths: number of words of each sentence, as a tensor, as (nested) lists, or one number for all; None means all
            words.
        batch_shape: batch shape of the scores.
        num_words: the longest possible sentence.
        like: the scores, for their device.
        validate_args: whether to check the values; None checks where nothing has to wait for them.

    Raises:
        ValueError: if the lengths are not whole numbers, do not fit the batch, or lie outside of ``0 .. num_words``.

    Example:
        >>> checked_lengths([2, 1], torch.Size([2]), num_words=2, like=torch.zeros(()), validate_args=True)
        tensor([2, 1])
    """
    if lengths is None:
        return torch.full(batch_shape, num_words, dtype=torch.int64, device=like.device)
    if not isinstance(lengths, Tensor):
        try:
            lengths = torch.as_tensor(lengths)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"lengths of type {type(lengths).__name__}: expected whole numbers") from None
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        if lengths.numel():
            raise ValueError(f"lengths have type {lengths.dtype}: expected integers")
        lengths = lengths.long()
    if values_matter(validate_args, lengths) and lengths.numel():
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 0 or longest > num_words:
            raise ValueError(f"lengths lie between {shortest} and {longest}: expected 0 to {num_words}")
    try:
        checked: Tensor = lengths.to(like.device, torch.int64).expand(batch_shape)
    except RuntimeError:
        raise ValueError(
            f"lengths of shape {tuple(lengths.shape)} do not fit scores with batch shape {tuple(batch_shape)}"
        ) from None
    return checked


def values_matter(validate_args: bool | None, tensor: Tensor) -> bool:
    """Whether the values of a tensor are to be checked.

    Args:
        validate_args: what the user has requested; None checks where nothing has to wait for the values.
        tensor: the values.

    Example:
        >>> values_matter(None, torch.zeros(2)), values_matter(False, torch.zeros(2))
        (True, False)
    """
    if validate_args is None:
        return tensor.is_cpu and is_eager(tensor)
    return validate_args and is_eager(tensor)


def is_below_infinity(scores: Tensor) -> bool:
    """Whether no score is nan or ``+inf``, wherever it stands.

    Args:
        scores: score of every part.

    Example:
        >>> is_below_infinity(torch.tensor([0.0, -torch.inf])), is_below_infinity(torch.tensor([0.0, torch.nan]))
        (True, False)
    """
    # One look at the highest score is enough: nan is neither below nor above infinity, and a maximum keeps it.
    return not scores.numel() or scores.detach().max().item() < math.inf


def refuse_undefined_scores(family: str, scores: Tensor, real_parts: Bool[Tensor, "*shape"]) -> None:
    """Refuse nan and ``+inf`` outside of padding.

    Args:
        family: name of the class, for the message.
        scores: score of every part.
        real_parts: where the scores are read; broadcast against them.

    Raises:
        ValueError: if there is such a score.

    Example:
        >>> refuse_undefined_scores("CRF", torch.tensor([0.0, torch.nan]), torch.tensor([True, False]))
    """
    undefined = (torch.isnan(scores) | (scores == torch.inf)) & real_parts
    if undefined.any():
        raise ValueError(
            f"{family}: {int(undefined.sum())} of {undefined.numel()} scores are nan or +inf; "
            "expected finite scores, or -inf to forbid a part"
        )


def checked_broadcast(shape: torch.Size, other: torch.Size, why: Callable[[], str]) -> torch.Size:
    """The shape that two shapes broadcast to.

    Args:
        shape: one of them.
        other: the other one.
        why: returns what is wrong if there is none; it is called only then, because in a graph it would fix the sizes.

    Raises:
        ValueError: with this message.

    Example:
        >>> checked_broadcast(torch.Size([5, 1]), torch.Size([2]), lambda: "never")
        torch.Size([5, 2])
    """
    try:
        full: torch.Size = torch.broadcast_shapes(shape, other)
    except RuntimeError:
        raise ValueError(why()) from None
    return full


def checked_count(k: Any) -> int:
    """A whole number of structures, at least one.

    Args:
        k: the value given.

    Raises:
        ValueError: if it is something else.

    Example:
        >>> checked_count(3)
        3
    """
    number = _index(k)
    if number is None:
        raise ValueError(f"topk of {k!r}: expected a whole number")
    if number < 1:
        raise ValueError(f"topk of {k!r}: expected at least 1")
    return number


def checked_sample_shape(shape: Any) -> torch.Size:
    """The shape of samples; a number is a shape of one axis.

    Args:
        shape: the value given.

    Raises:
        ValueError: if it is not a shape.

    Example:
        >>> checked_sample_shape(3), checked_sample_shape((2, 1))
        (torch.Size([3]), torch.Size([2, 1]))
    """
    number = _index(shape)
    sizes = [number] if number is not None else [_index(size) for size in _listed(shape)]
    if None in sizes or any(size < 0 for size in sizes if size is not None):
        raise ValueError(f"sample_shape of {shape!r}: expected whole numbers from 0 on, such as (2, 3) or 5")
    return torch.Size(size for size in sizes if size is not None)


def checked_generator(generator: Any) -> Generator | None:
    """The source of randomness; None is torch's default generator.

    Args:
        generator: the value given.

    Raises:
        ValueError: if it is not a ``torch.Generator``.

    Example:
        >>> checked_generator(0)
        Traceback (most recent call last):
        ...
        ValueError: generator of type int: expected a torch.Generator, as in torch.Generator().manual_seed(0)
    """
    if generator is None or isinstance(generator, Generator):
        return generator
    raise ValueError(
        f"generator of type {type(generator).__name__}: expected a torch.Generator, "
        "as in torch.Generator().manual_seed(0)"
    )


def _listed(shape: Any) -> list[Any]:
    try:
        return list(shape)
    except TypeError:
        return [None]


def _index(number: Any) -> int | None:
    """A Python integer, or the symbol that stands for one in a graph; None if it is something else."""
    if isinstance(number, torch.SymInt):
        return number  # type: ignore[return-value]  # stands for one
    if isinstance(number, bool) or (isinstance(number, Tensor) and (number.dim() or number.dtype == torch.bool)):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None
