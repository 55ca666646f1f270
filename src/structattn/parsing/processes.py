"""Worker processes that do not outlive the process that started them."""

import multiprocessing
import multiprocessing.connection
import os
import threading


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
