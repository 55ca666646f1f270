"""Pools of worker processes that do not outlive the process that started them."""

import contextlib
import functools
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor


@contextlib.contextmanager
def open_pool(num_workers: int, start: Callable[..., object], *arguments: object) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes that each call ``start(*arguments)`` first; what has not begun at the end is dropped."""
    # Not forked: a copy of a process that has started threads may hang.
    context = multiprocessing.get_context("spawn")
    begin = functools.partial(_begin, functools.partial(start, *arguments))
    with ProcessPoolExecutor(num_workers, mp_context=context, initializer=begin) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(start: Callable[[], object]) -> None:
    end_with_parent()
    start()


def end_with_parent() -> None:
    """End this worker process when its parent ends in any way, even by ``kill -9``.

    Otherwise the worker would wait for work forever, and keep its memory.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
