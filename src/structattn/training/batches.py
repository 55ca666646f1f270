"""The batches of a run, of examples in memory or on disk, and reading ahead from disk.

The order depends on the seed, the epoch and the lengths alone. So a run that goes on in the middle of an epoch passes
over the batches that are done without reading them, and stores nothing for it.
"""

import collections
import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from structattn.data import Example
from structattn.data.treebank.stream import StreamedExamples
from structattn.parsing.processes import end_with_parent
from structattn.syntax.errors import StructAttnError
from structattn.tasks import TaskModel
from structattn.training import machine
from structattn.training.config import RunConfig
from structattn.training.sampler import BatchSampler, WindowBatchSampler, batch_sampler

LOGGER = logging.getLogger("structattn.training")


def batches_of(
    config: RunConfig, model: TaskModel, examples: Sequence[Example]
) -> tuple[BatchSampler, Callable[[list[int]], list[Example]]]:
    """The batches of a run, and what reads the examples of one.

    Args:
        config: of the run.
        model: says how long an example is.
        examples: in memory, or streamed.
    """
    if not isinstance(examples, StreamedExamples):
        sizes = [model.size_of(example) for example in examples]
        return batch_sampler(sizes, config.optimization, seed=config.seed), lambda rows: [examples[row] for row in rows]
    if machine.is_first():
        median = int(np.median(examples.lengths))
        LOGGER.info("train: %s examples (parquet, streamed); %d words (median)", f"{len(examples):,}", median)
    sampler = WindowBatchSampler(
        examples.lengths,
        list(map(len, examples.groups)),
        batch_size=config.optimization.batch_size,
        window=config.data.window,
        seed=config.seed,
        process=machine.index(),
        processes=machine.count(),
    )
    if not config.data.loader_workers:
        return sampler, examples.read
    ahead = ReadAhead(examples, sampler, config.data.loader_workers)
    return ahead, ahead.read


class ReadAhead:
    """Batches of a sampler, whose examples are read by other processes before they are asked for.

    What is passed over, before the first batch of a resumed run, is not read.

    Args:
        examples: where they are read from.
        sampler: the batches.
        workers: number of processes.
    """

    def __init__(self, examples: StreamedExamples, sampler: BatchSampler, workers: int) -> None:
        self.examples = examples
        self.sampler = sampler
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._reading: dict[int, Future[list[Example]]] = {}

    @property
    def lengths(self) -> Sequence[int] | np.ndarray:
        """Length of every example."""
        return self.sampler.lengths

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[list[int]]:
        ahead: collections.deque[list[int]] = collections.deque()
        for rows in self.sampler:
            ahead.append(rows)
            if self._pool is not None:
                self._reading[id(rows)] = self._pool.submit(_read, rows)
            if len(ahead) > 2 * self.workers:
                yield ahead.popleft()
        yield from ahead

    def read(self, rows: list[int]) -> list[Example]:
        """The examples of a batch that came from the iterator.

        Raises:
            StructAttnError: if a process was killed.
        """
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, _start, (self.examples,))
        reading = self._reading.pop(id(rows), None)
        try:
            return self.examples.read(rows) if reading is None else reading.result()
        except BrokenProcessPool:
            raise StructAttnError("a process that reads training data was killed (out of memory?)") from None

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


# The examples of a process that reads ahead.
_own: list[StreamedExamples] = []


def _start(examples: StreamedExamples) -> None:
    end_with_parent()
    _own.append(examples)


def _read(rows: list[int]) -> list[Example]:
    return _own[0].read(rows)
