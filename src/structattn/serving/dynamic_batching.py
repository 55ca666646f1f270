"""Dynamic batching: requests that arrive at about the same time are computed together, by one thread.

Reference: Crankshaw et al. (2017), Clipper: A low-latency online prediction serving system, section 4.3 (adaptive
batching: a batch is closed when it is full, or when its first request has waited long enough).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from types import TracebackType
from typing import Any, NamedTuple

from structattn.errors import ConfigError, StructAttnError

LOGGER = logging.getLogger("structattn.serving")
_PATIENCE = 0.2  # seconds between two looks whether a client is still there
Work = Callable[[list[Any]], Sequence[Any]]


class OverloadError(StructAttnError, RuntimeError):
    """The queue is full or closed: the request was not accepted."""


class _Job(NamedTuple):
    kind: str
    item: Any
    result: "Future[Any]"
    since: float


class Batcher:
    """A bounded queue, and a thread that processes its items in batches.

    ``work`` has a function for each kind of item; a batch has items of one kind, in the order of their arrival.
    """

    def __init__(
        self, work: Mapping[str, Work], *, max_batch: int = 32, max_wait: float = 0.0, capacity: int = 256
    ) -> None:
        if max_batch < 1 or capacity < 1 or not 0 <= max_wait <= threading.TIMEOUT_MAX:
            raise ConfigError(
                f"expected a batch and a queue of at least 1 and a wait of 0 to {threading.TIMEOUT_MAX:.0f} seconds, "
                f"got {max_batch}, {capacity} and {max_wait}"
            )
        self.work = dict(work)
        self.max_batch, self.max_wait, self.capacity = max_batch, max_wait, capacity
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def submit(
        self,
        kind: str,
        items: Sequence[Any],
        *,
        seconds: float = threading.TIMEOUT_MAX,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> list[Any]:
        """Process items and wait for their results; either all items are accepted or none.

        The result of an item that is at fault is the ``StructAttnError`` of ``work``; any other error of one is raised.
        So is an ``OverloadError``: at once if there is no room, or as soon as the time is over or nobody wants the
        results; items that were not begun are then dropped.
        """
        jobs = [_Job(kind, item, Future(), time.monotonic()) for item in items]
        with self._changed:
            if self._closed or len(self._jobs) + len(jobs) > self.capacity:
                waiting = f"{len(self._jobs)} of at most {self.capacity} items are waiting"
                raise OverloadError(f"the queue is full ({waiting}); try again in a moment")
            self._jobs.extend(jobs)
            self._changed.notify_all()
        end = time.monotonic() + seconds
        while pending := [job.result for job in jobs if not job.result.done()]:
            left = end - time.monotonic()
            if left <= 0 or is_unwanted():
                for result in pending:
                    result.cancel()
                reason = f"no answer within {seconds:g} seconds" if left <= 0 else "the client has left"
                raise OverloadError(f"{reason}; what was not begun is dropped")
            wait(pending, min(left, _PATIENCE), FIRST_EXCEPTION)
        errors = [job.result.exception() for job in jobs]
        return [
            error if isinstance(error, StructAttnError) else job.result.result()
            for job, error in zip(jobs, errors, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._jobs)

    def close(self) -> None:
        """Accept no more items, and wait until those already accepted are processed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> "Batcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        batch: list[_Job] = []
        try:
            while batch := self._next():
                work = self.work[batch[0].kind]
                # If a batch fails, only the request with an invalid item gets the error.
                if not _process(work, batch):
                    for job in batch:
                        _process(work, [job], last=True)
        except BaseException as error:  # without this thread no waiting request would ever be answered
            LOGGER.exception("the batching thread has failed")
            with self._changed:
                self._closed = True
                lost = [job for job in (*batch, *self._jobs) if not job.result.done()]
                self._jobs.clear()
            for job in lost:
                job.result.set_exception(RuntimeError(f"the batching thread has failed: {error}"))

    def _next(self) -> list[_Job]:
        """The next batch; empty when the queue is empty and closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return []
            self._jobs = deque(job for job in self._jobs if not job.result.cancelled())
            if not self._jobs:
                return self._next()
            first = self._jobs[0]
            left = first.since + self.max_wait - time.monotonic()
            self._changed.wait_for(lambda: self._closed or self._count(first.kind) >= self.max_batch, max(left, 0))
            batch: list[_Job] = []
            remaining: deque[_Job] = deque()
            for job in self._jobs:
                fits = job.kind == first.kind and len(batch) < self.max_batch
                # A job that was cancelled meanwhile is dropped; one that has begun cannot be cancelled any more.
                if not fits or job.result.set_running_or_notify_cancel():
                    (batch if fits else remaining).append(job)
            self._jobs = remaining
            return batch

    def _count(self, kind: str) -> int:
        return sum(job.kind == kind for job in self._jobs)


def _process(work: Work, batch: Sequence[_Job], *, last: bool = False) -> bool:
    """Process a batch; return whether every item got its result or, if this is its last attempt, its error."""
    try:
        results = list(work([job.item for job in batch]))
        if len(results) != len(batch):
            raise RuntimeError(f"expected {len(batch)} results, got {len(results)}")
    except Exception as error:  # of any kind: the client that sent the item must receive it
        if not last:
            return False
        batch[0].result.set_exception(error)
        return True
    for job, result in zip(batch, results, strict=True):
        job.result.set_result(result)
    return True
