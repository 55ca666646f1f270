"""Errors about too little memory, before and after a batch is run, in terms of the options the user chose.

Most encoders need memory for every pair of words, so it grows with the square of the length. The tensors of three short
runs on the first words of a batch are counted, a parabola through them gives the bytes of an example of any length, and
a longer run checks it.
"""

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from structattn.data import Example
from structattn.errors import StructAttnError

# Words of the longest run that the parabola goes through; a run on twice as many checks it.
_MEASURED = 384
_TOLERANCE = 0.2


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operations create, as long as each is alive, and the most at once."""

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self._counted = weakref.WeakSet[torch.UntypedStorage]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_iter((args, kwargs)):
            if isinstance(value, torch.Tensor):
                self._counted.add(value.untyped_storage())  # existed before
        result = func(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, torch.Tensor):
                self._count(value.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage in self._counted:
            return
        self._counted.add(storage)
        size = storage.nbytes()
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, size).atexit = False

    def _release(self, size: int) -> None:
        self.live -= size


def peak_bytes(work: Callable[[], object]) -> int:
    """The maximum number of bytes alive at once in the tensors that some work creates."""
    with _LiveBytes() as counter:
        work()
    peak: int = counter.peak
    return peak


def estimate_bytes(work: Callable[[list[Example]], object], example: Example, *, count: int) -> int | None:
    """The bytes that work on ``count`` examples as long as this one will need, from runs on its first words."""
    # None if they do not grow quadratically with the length, as with a backbone that reads only its first 512 tokens,
    # or if the first words alone are no example for the work.
    with contextlib.suppress(Exception):  # an estimate never fails a run; what is wrong with the batch, the run says
        return _extrapolate_bytes(work, example, count)
    return None


def _extrapolate_bytes(work: Callable[[list[Example]], object], example: Example, count: int) -> int | None:
    longest = max(map(len, example.sentences))
    most = min(_MEASURED, longest)
    lengths = (most // 4, most // 2, most)
    if len({0, *lengths}) < 4:
        return None
    alone = [_measure_bytes(work, example, words, copies=1) for words in lengths]
    check_length = min(2 * most, longest)
    measured = _measure_bytes(work, example, check_length, copies=1)
    if abs(_extrapolate(lengths, alone, check_length) - measured) > _TOLERANCE * measured:
        return None
    # What a batch shares, such as gradients of parameters or distances between positions, exists once.
    additional = [
        _measure_bytes(work, example, words, copies=2) - first for words, first in zip(lengths, alone, strict=True)
    ]
    return round(
        _extrapolate(lengths, alone, longest) + (count - 1) * max(0.0, _extrapolate(lengths, additional, longest))
    )


def _measure_bytes(work: Callable[[list[Example]], object], example: Example, words: int, *, copies: int) -> int:
    short = dataclasses.replace(example, sentences=tuple(sentence.truncated(words) for sentence in example.sentences))
    return peak_bytes(lambda: work([short] * copies))


def _extrapolate(xs: Sequence[int], ys: Sequence[int], x: int) -> float:
    """The value at ``x`` of the parabola through three points, in Newton's form."""
    (x0, x1, x2), (y0, y1, y2) = xs, ys
    first, second = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    return y0 + (x - x0) * (first + (x - x1) * (second - first) / (x2 - x0))


TRIED_PAIRS = 2**22
"""Pairs of words of a batch that is run without an estimate: 64 sentences of 256 words need a few GB at most."""

_SIGNS = ("can't allocate memory", "not enough memory", "out of memory")


@contextlib.contextmanager
def explain_memory(examples: int, longest: int, *, options: str) -> Iterator[None]:
    """Report which batch ran out of memory, and which ``options`` make it smaller, in place of torch's own error.

    The batch is given by the number of its examples and the words of the longest.
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
    """Refuse a batch of ``count`` examples that needs more memory than is free, with ``more`` bytes in addition.

    Systems kill a process that runs out of memory without a message. Small batches are not estimated.
    """
    if count * longest**2 <= TRIED_PAIRS:
        return
    free, needed = free_bytes(device), estimate_bytes(work, example, count=count)
    if free is not None and needed is not None and needed + more > free:
        raise StructAttnError(
            f"{_batch(count, longest)} needs about {(needed + more) / 1e9:,.1f} GB of memory, {free / 1e9:,.1f} GB are "
            f"free; use a smaller {options}"
        )


def free_bytes(device: torch.device) -> int | None:
    """The memory that is free on a device; ``None`` if the system does not report it.

    On a CPU, what Linux reports as available, or what the control group of the process has left, if less.
    """
    if device.type == "cuda":
        # Memory that torch has reserved for its next tensors is free too.
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(reserved)
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
