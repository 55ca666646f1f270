"""Running out of memory, in the words of whoever chose the batch and the length of its sentences."""

import contextlib
from collections.abc import Iterator

import torch

from structattn.syntax.errors import StructAttnError

_SIGNS = ("can't allocate memory", "not enough memory", "out of memory")


@contextlib.contextmanager
def explained_memory(examples: int, longest: int, *, options: str) -> Iterator[None]:
    """Say which batch needed more memory than there is, and which options make it smaller.

    Args:
        examples: of the batch.
        longest: number of words of its longest example.
        options: what makes a batch smaller, as the error names it.

    Raises:
        StructAttnError: in place of torch's and Python's own errors.

    Example:
        >>> with explained_memory(64, 20_000, options="batch_size"):
        ...     _ = torch.empty(10**15)
        Traceback (most recent call last):
        ...
        structattn.syntax.errors.StructAttnError: out of memory in a batch of 64 examples of up to 20,000 words; take a
        smaller batch_size
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not any(
            sign in str(error) for sign in _SIGNS
        ):
            raise
        noun = "example" if examples == 1 else "examples"
        raise StructAttnError(
            f"out of memory in a batch of {examples} {noun} of up to {longest:,} words; take a smaller {options}"
        ) from error
