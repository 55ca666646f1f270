"""The memory that a batch will need, estimated from runs on its first words.

Most encoders need memory for every pair of words, so it grows with the square of the length. The tensors of three short
runs are counted, a parabola through them gives the bytes of an example of any length, and a longer run checks it.
"""

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from structattn.data import Example

# Words of the longest run that the parabola goes through; a run on twice as many checks it.
_MEASURED = 384
_TOLERANCE = 0.2


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operations create, for as long as each is alive.

    Attributes:
        live: number of bytes alive now.
        peak: maximum number of bytes alive at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self._known = weakref.WeakSet[torch.UntypedStorage]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_iter((args, kwargs)):
            if isinstance(value, torch.Tensor):
                self._known.add(value.untyped_storage())  # existed before
        result = func(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, torch.Tensor):
                self._count(value.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        size = storage.nbytes()
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, size).atexit = False

    def _release(self, size: int) -> None:
        self.live -= size


def peak_bytes(work: Callable[[], object]) -> int:
    """The maximum number of bytes alive at once in the tensors that some work creates.

    Example:
        >>> peak_bytes(lambda: [torch.zeros(1000) + 1 for _ in range(3)])
        16000
    """
    with _LiveBytes() as counter:
        work()
    peak: int = counter.peak
    return peak


def estimated_bytes(work: Callable[[list[Example]], object], example: Example, *, count: int) -> int | None:
    """The bytes that work on this many examples of the same length will need.

    Args:
        work: the work on a batch.
        example: the longest of the batch.
        count: how many examples the batch has.

    Returns:
        ``None`` if the memory does not grow quadratically with the length, as with a backbone that reads only its first
        512 tokens.
    """
    longest = max(map(len, example.sentences))
    most = min(_MEASURED, longest)
    lengths = (most // 4, most // 2, most)
    if len({0, *lengths}) < 4:
        return None
    alone = [_bytes_of(work, example, words, copies=1) for words in lengths]
    known = min(2 * most, longest)
    found = _bytes_of(work, example, known, copies=1)
    if abs(_extrapolated(lengths, alone, known) - found) > _TOLERANCE * found:
        return None
    # What a batch shares, such as gradients of parameters or distances between positions, exists once.
    further = [_bytes_of(work, example, words, copies=2) - first for words, first in zip(lengths, alone, strict=True)]
    return round(
        _extrapolated(lengths, alone, longest) + (count - 1) * max(0.0, _extrapolated(lengths, further, longest))
    )


def _bytes_of(work: Callable[[list[Example]], object], example: Example, words: int, *, copies: int) -> int:
    short = dataclasses.replace(example, sentences=tuple(one.truncated(words) for one in example.sentences))
    return peak_bytes(lambda: work([short] * copies))


def _extrapolated(xs: Sequence[int], ys: Sequence[int], x: int) -> float:
    """The value at ``x`` of the parabola through three points, in Newton's form."""
    (x0, x1, x2), (y0, y1, y2) = xs, ys
    first, second = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    return y0 + (x - x0) * (first + (x - x1) * (second - first) / (x2 - x0))
