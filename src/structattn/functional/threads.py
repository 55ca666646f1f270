"""A context manager that sets torch's number of threads."""

import contextlib
import threading
from collections.abc import Iterator

import torch

# The running blocks: the thread of each, and the number of threads to restore there.
_RUNNING: list[tuple[int, int]] = []
_LOCK = threading.Lock()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside, and restore the caller's number afterwards; blocks in several threads may overlap.

    Small models gain little from a second thread, which costs ten times as much where cores are shared.

    Example:
        >>> before = torch.get_num_threads()
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
        >>> torch.get_num_threads() == before
        True
    """
    own = threading.get_ident()
    with _LOCK:
        running = own, _number_of(own)
        _RUNNING.append(running)
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _RUNNING.remove(running)
            torch.set_num_threads(running[1])


def _number_of(own: int) -> int:
    """The number of threads that the calling thread has outside of such blocks."""
    number = torch.get_num_threads()
    others = [before for thread, before in _RUNNING if thread != own]
    # A new thread inherits the number that was set last, which another thread's block may have set.
    return others[0] if number == 1 and others and len(others) == len(_RUNNING) else number
