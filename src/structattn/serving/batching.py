"""Dynamic batches: what many clients ask at about the same time is computed together, by one thread.

Reference: Crankshaw et al. (2017), Clipper: A low-latency online prediction serving system, section 4.3 (adaptive
batching: a batch is closed when it is full, or when its first request has waited long enough).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, NamedTuple

from structattn.syntax.errors import ConfigError, StructAttnError

LOGGER = logging.getLogger("structattn.serving")
Work = Callable[[list[Any]], Sequence[Any]]


class OverloadError(StructAttnError, RuntimeError):
    """As much waits as may wait: the request was not taken."""


class _Job(NamedTuple):
    kind: str
    item: Any
    result: "Future[Any]"
    since: float


class Batcher:
    """A queue of bounded size, and a thread that works through it in batches.

    A batch holds items of one kind, in the order in which they came. If the work on a batch fails, its items are worked
    on one by one, so that only the request that sent a wrong item gets the error.

    Args:
        work: from a kind to what maps its items to as many results.
        max_batch: items of a batch; 1 for none.
        max_wait: seconds that the first item of a batch waits for others. Those that come during the work on a batch
            are the next one anyway.
        capacity: items that may wait.

    Raises:
        ConfigError: for sizes below 1, or a wait that is negative or longer than a thread can wait.

    Example:
        >>> with Batcher({"square": lambda numbers: [number**2 for number in numbers]}) as batcher:
        ...     batcher.submit("square", [2, 3])
        [4, 9]
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

    def submit(self, kind: str, items: Sequence[Any]) -> list[Any]:
        """The results of some items, all taken or none; waits for them.

        Raises:
            OverloadError: at once, if there is no room for them all, or no more work is taken.
            Exception: what the work raised for the first wrong item.
            RuntimeError: if the thread that works has failed.
        """
        jobs = [_Job(kind, item, Future(), time.monotonic()) for item in items]
        with self._changed:
            if self._closed or len(self._jobs) + len(jobs) > self.capacity:
                waiting = f"{len(self._jobs)} of at most {self.capacity} items wait"
                raise OverloadError(f"the queue is full ({waiting}); try again in a moment")
            self._jobs.extend(jobs)
            self._changed.notify_all()
        return [job.result.result() for job in jobs]

    def close(self) -> None:
        """Take nothing more, and wait until what was taken is done."""
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
                if not _worked(work, batch):
                    for job in batch:
                        _worked(work, [job], last=True)
        except BaseException as error:  # without this thread no waiting request would ever be answered
            LOGGER.exception("the thread of batches has failed")
            with self._changed:
                self._closed = True
                lost = [job for job in (*batch, *self._jobs) if not job.result.done()]
                self._jobs.clear()
            for job in lost:
                job.result.set_exception(RuntimeError(f"the thread of batches has failed: {error}"))

    def _next(self) -> list[_Job]:
        """The next batch; none when all is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return []
            first = self._jobs[0]
            left = first.since + self.max_wait - time.monotonic()
            self._changed.wait_for(lambda: self._closed or self._waiting(first.kind) >= self.max_batch, max(left, 0))
            batch: list[_Job] = []
            rest: deque[_Job] = deque()
            for job in self._jobs:
                fits = job.kind == first.kind and len(batch) < self.max_batch
                (batch if fits else rest).append(job)
            self._jobs = rest
            return batch

    def _waiting(self, kind: str) -> int:
        return sum(job.kind == kind for job in self._jobs)


def _worked(work: Work, batch: Sequence[_Job], *, last: bool = False) -> bool:
    """Work on a batch; whether every item has its result, or its error if it stood alone."""
    try:
        results = list(work([job.item for job in batch]))
        if len(results) != len(batch):
            raise RuntimeError(f"expected {len(batch)} results, got {len(results)}")
    except Exception as error:  # whatever it is, the client of this item must hear of it
        if not last:
            return False
        batch[0].result.set_exception(error)
        return True
    for job, result in zip(batch, results, strict=True):
        job.result.set_result(result)
    return True
