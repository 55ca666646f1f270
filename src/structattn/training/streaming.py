"""Training on examples that stay on disk: what may be combined with it, the order of the batches, reading ahead.

The order depends on the seed, the epoch and the lengths alone. So a run that goes on in the middle of an epoch passes
over the batches that are done without reading them, and stores nothing for it.
"""

import collections
import functools
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

import numpy as np

from structattn.data import Example
from structattn.data.readers.reading import all_files_of
from structattn.data.treebank.stream import StreamedExamples
from structattn.parsing.processes import end_with_parent
from structattn.syntax.errors import ConfigError, StructAttnError
from structattn.syntax.files import is_parquet
from structattn.tasks import Task
from structattn.training.config import DataConfig, RunConfig

if TYPE_CHECKING:
    from structattn.training.sampler import BatchSampler


def check_streaming(config: RunConfig, task: Task) -> None:
    """Refuse what cannot be streamed, before any data are read.

    Raises:
        ConfigError: for a task, an option or a file that does not go with ``data.streaming``.
    """
    data = config.data
    usual = DataConfig()
    if task.answer != "label" or task.is_regression:
        raise ConfigError(f"data.streaming: expected a task that is answered with a class, got {task.name!r}")
    if data.train is None or data.dev is None:
        raise ConfigError("data.streaming: expected data.train and data.dev, as nothing is held out of streamed data")
    for name in ("limit", "sample", "parses", "parser"):
        if getattr(data, name) != getattr(usual, name):
            raise ConfigError(f"data.streaming: expected no data.{name}; structattn convert and parse make the files")
    if (data.phrases or task.phrases) != "none" or config.folds is not None:
        raise ConfigError("data.streaming: expected neither data.phrases nor folds")
    if config.optimization.batch_tokens is not None:
        raise ConfigError("data.streaming: expected optimization.batch_size, got batch_tokens")
    for file in all_files_of(data.train):
        if not is_parquet(file):
            raise ConfigError(f"data.streaming: expected Parquet files (structattn convert makes them), got {file}")


def streamed_examples(data: DataConfig, task: Task) -> StreamedExamples:
    """The training examples of a run, counted in one pass.

    Raises:
        ParseError: as ``StreamedExamples``.
    """

    dropped = {label for label, renamed in task.relabel.items() if renamed is None}
    prepare = functools.partial(_prepared, task)
    files = all_files_of(data.train or "")
    return StreamedExamples(files, prepare, dropped=dropped, max_length=task.max_length, cached=data.buffer)


class ReadAhead:
    """Batches of a sampler, whose examples are read by other processes before they are asked for.

    What is passed over, before the first batch of a resumed run, is not read.

    Args:
        examples: where they are read from.
        sampler: the batches.
        workers: number of processes.
    """

    def __init__(self, examples: StreamedExamples, sampler: "BatchSampler", workers: int) -> None:
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


def _prepared(task: Task, examples: Iterable[Example]) -> Iterator[Example]:
    return map(task.limited, task.prepare(examples))
