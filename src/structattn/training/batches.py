"""The batches of a run, from examples in memory or on disk; other processes may make them in advance.

The order depends only on the seed, the epoch and the lengths. A run that is resumed in the middle of an epoch therefore
skips the finished batches without reading them, and needs no stored state for it.
"""

import collections
import copy
import logging
import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn

from structattn.data import Example
from structattn.errors import ConfigError, StructAttnError
from structattn.parsing.processes import end_with_parent
from structattn.tasks import TaskModel
from structattn.training import distributed
from structattn.training.examples import balance
from structattn.training.run_config import RunConfig
from structattn.training.sampler import BatchSampler, WindowBatchSampler, batch_sampler

if TYPE_CHECKING:
    from structattn.data.treebank.stream import StreamedExamples

LOGGER = logging.getLogger("structattn.training")


def prepare_batches(
    config: RunConfig, model: TaskModel, examples: Sequence[Example], device: torch.device
) -> tuple[BatchSampler, Callable[[list[int]], Any]]:
    """The batches of a run as lists of example indices, and a function that makes tensors of one on the device."""
    if not hasattr(examples, "groups"):
        sizes = [model.size_of(example) for example in examples]
        probabilities = None
        if config.data.sampling == "balanced":
            probabilities = np.array(balance(model.task, examples)) / len(examples)
        sampler = batch_sampler(sizes, config.optimization, seed=config.seed, probabilities=probabilities)
        return sampler, lambda rows: model.collate([examples[row] for row in rows])
    streamed = cast("StreamedExamples", examples)
    if distributed.is_first_process():
        median = int(np.median(streamed.lengths))
        LOGGER.info("train: %s examples (parquet, streamed); %d words (median)", f"{len(streamed):,}", median)
    sampler = WindowBatchSampler(
        streamed.lengths,
        list(map(len, streamed.groups)),
        batch_size=config.optimization.batch_size,
        window=config.data.window,
        seed=config.seed,
        process=distributed.process_index(),
        processes=distributed.num_processes(),
    )
    if not config.data.loader_workers:
        return sampler, lambda rows: model.collate(streamed.read(rows))
    maker = BatchMaker(streamed, model, device)
    ahead = BatchesAhead(maker, sampler, config.data.loader_workers)
    return ahead, ahead.batch


class BatchMaker:
    """Makes batches in another process, with a copy of the model that has no weights, as collating needs none.

    There a module's ``prepare_batch(side, device)``, where it has one, computes what ``forward`` needs of sentences.
    """

    def __init__(self, examples: "StreamedExamples", model: TaskModel, device: torch.device) -> None:
        self.examples = examples
        self.model = _without_weights(model)
        self.device = device
        try:
            ForkingPickler.dumps(self.model)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(f"data.loader_workers: expected an encoder that can be pickled; {error}") from None

    def __call__(self, rows: list[int]) -> Any:
        """The batch of the examples with these indices."""
        batch = self.model.collate(self.examples.read(rows))
        for module in self.model.modules():
            if (prepare_batch := getattr(module, "prepare_batch", None)) is not None:
                for side in getattr(batch, "sides", ()):
                    prepare_batch(side, self.device)
        return batch


def _without_weights(model: TaskModel) -> TaskModel:
    """A copy without a parser, whose parameters and buffers are shapes without values."""
    copies: dict[int, Any] = {id(tensor): tensor.to("meta") for tensor in model.buffers()}
    for tensor in model.parameters():
        copies[id(tensor)] = nn.Parameter(tensor.detach().to("meta"), requires_grad=tensor.requires_grad)
    return copy.deepcopy(model.without_parser(), copies)


class BatchesAhead:
    """The batches of a sampler, which other processes make in advance; those that a resumed run skips are not read."""

    def __init__(self, make: Callable[[list[int]], Any], sampler: BatchSampler, workers: int) -> None:
        self.make = make
        self.sampler = sampler
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._making: dict[int, Future[Any]] = {}

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
                self._making[id(rows)] = self._pool.submit(_make, rows)
            if len(ahead) > 2 * self.workers:
                yield ahead.popleft()
        yield from ahead

    def batch(self, rows: list[int]) -> Any:
        """The batch of the examples with these indices, a list that the iterator yielded."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, _start, (self.make,))
        making = self._making.pop(id(rows), None)
        try:
            return self.make(rows) if making is None else making.result()
        except BrokenProcessPool:
            raise StructAttnError("a process that reads training data was killed (out of memory?)") from None

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


# The function that makes the batches of this process.
_own: list[Callable[[list[int]], Any]] = []


def _start(make: Callable[[list[int]], Any]) -> None:
    end_with_parent()
    torch.set_num_threads(1)
    _own.append(make)


def _make(rows: list[int]) -> Any:
    return _own[0](rows)
