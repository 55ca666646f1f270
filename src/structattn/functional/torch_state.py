"""What torch is set to: precision, autocast, threads, and whether it exports a program."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

_CANNOT_TELL = torch.__version__ < "2.13"
# The running blocks of `one_thread`: the thread of each, and the number of torch's threads to restore in it.
_RUNNING: list[tuple[int, int]] = []
_LOCK = threading.Lock()


def is_exporting() -> bool:
    """Whether ``torch.export`` is tracing a program that has to run without this package."""
    # In PyTorch 2.10, ``torch.compiler.is_exporting`` is true within ``torch.compile`` too. There Dynamo tells the two
    # apart: it traces for ``torch.compile`` but, unless ``strict`` is requested, not for ``torch.export``.
    if _CANNOT_TELL and torch.compiler.is_dynamo_compiling():
        return False
    return torch.compiler.is_exporting()


def at_least_single(tensor: Tensor) -> Tensor:
    """Convert half precision to single precision; leave other dtypes."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """Disable autocast on the device of a tensor; it would round the factors of products, whatever their dtype."""
    device = tensor.device.type
    # Without autocast there is nothing to disable, and a graph does not contain the block.
    if device == "meta" or not torch.is_autocast_enabled(device):
        return nullcontext()
    return torch.autocast(device_type=device, enabled=False)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside, and restore the caller's number afterwards; blocks in several threads may overlap.

    Small models gain little from a second thread, which costs ten times as much where cores are shared.
    """
    thread = threading.get_ident()
    with _LOCK:
        running = thread, _num_threads_outside(thread)
        _RUNNING.append(running)
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _RUNNING.remove(running)
            torch.set_num_threads(running[1])


def _num_threads_outside(thread: int) -> int:
    """The number of threads that the calling thread has outside of such blocks."""
    number = torch.get_num_threads()
    elsewhere = [count for runner, count in _RUNNING if runner != thread]
    # A new thread inherits the number that was set last, which another thread's block may have set.
    return elsewhere[0] if number == 1 and elsewhere and len(elsewhere) == len(_RUNNING) else number
