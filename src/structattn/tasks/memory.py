"""Errors about too little memory, before and after a batch is run, in terms of the options the user chose."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from structattn.data import Example
from structattn.errors import StructAttnError
from structattn.tasks.memory_estimate import estimated_bytes

TRIED_PAIRS = 2**22
"""Pairs of words of a batch that is run without an estimate: 64 sentences of 256 words need a few GB at most."""

_SIGNS = ("can't allocate memory", "not enough memory", "out of memory")


@contextlib.contextmanager
def explained_memory(examples: int, longest: int, *, options: str) -> Iterator[None]:
    """Report which batch ran out of memory, and which options make it smaller.

    Args:
        examples: number of examples of the batch.
        longest: number of words of its longest example.
        options: the options that make a batch smaller, as the error names them.

    Raises:
        StructAttnError: in place of torch's and Python's own errors.

    Example:
        >>> with explained_memory(64, 20_000, options="batch_size"):
        ...     _ = torch.empty(10**15)
        Traceback (most recent call last):
        ...
        structattn.errors.StructAttnError: out of memory in a batch of 64 examples of up to 20,000 words; use a
        smaller batch_size
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not any(
            sign in str(error) for sign in _SIGNS
        ):
            raise
        raise StructAttnError(f"out of memory in {_batch(examples, longest)}; use a smaller {options}") from error


def check_memory(
    work: Callable[[list[Example]], object],
    example: Example,
    *,
    count: int,
    longest: int,
    device: torch.device,
    options: str,
    more: int = 0,
) -> None:
    """Refuse a batch that needs more memory than is free, before it is run.

    A system that runs out of memory kills a process without a message. Small batches are not estimated.

    Args:
        work: the work on a batch.
        example: the longest of the batch.
        count: how many examples the batch has.
        longest: the length of that example, in words.
        device: where the work is done.
        options: the options that make a batch smaller, as the error names them.
        more: bytes that are needed in addition to those of the batch.

    Raises:
        StructAttnError: with the batch, the memory that it needs, and the memory that is free.
    """
    if count * longest**2 <= TRIED_PAIRS:
        return
    free, needed = free_bytes(device), estimated_bytes(work, example, count=count)
    if free is not None and needed is not None and needed + more > free:
        raise StructAttnError(
            f"{_batch(count, longest)} needs about {(needed + more) / 1e9:,.1f} GB of memory, {free / 1e9:,.1f} GB are "
            f"free; use a smaller {options}"
        )


def free_bytes(device: torch.device) -> int | None:
    """The memory that is free on a device; ``None`` if the system does not report it.

    On a CPU, the memory that Linux reports as available, or that the control group of the process has left, if less.

    Example:
        >>> free = free_bytes(torch.device("cpu"))
        >>> free is None or free > 0
        True
    """
    if device.type == "cuda":
        # Memory that torch has reserved for its next tensors is free too.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(kept)
    if device.type != "cpu":
        return None
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        return min(available, int(limit) - int(used))
    except (OSError, ValueError):  # no group, or one without a limit
        return available


def _batch(examples: int, longest: int) -> str:
    noun = "example" if examples == 1 else "examples"
    return f"a batch of {examples} {noun} of up to {longest:,} words"
