"""Which examples share a batch: sentences of similar length, in an order determined by seed and epoch.

A resumed run thus has the same batches as an uninterrupted one, without any stored state.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import Sampler

from structattn.training import machine
from structattn.training.optimization_config import OptimizationConfig

# How many batches are sorted by length together: the larger, the less padding and the less chance in the order.
_POOL = 50


@runtime_checkable
class BatchSampler(Protocol):
    """Batches of indices, epoch after epoch, the same number of them each."""

    @property
    def lengths(self) -> Sequence[int] | np.ndarray:
        """Length of every example."""
        ...

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[list[int]]: ...


def batch_sampler(lengths: Sequence[int], config: OptimizationConfig, *, seed: int) -> BatchSampler:
    """The batches of this process, of a number of examples each or of a number of words.

    Args:
        lengths: length of every example.
        config: the sizes.
        seed: of the order.
    """
    share = {"seed": seed, "process": machine.index(), "processes": machine.count()}
    if config.batch_tokens is None:
        return LengthBatchSampler(lengths, config.batch_size, **share)
    return TokenBatchSampler(lengths, config.batch_tokens, **share)


class _SharedBatches(Sampler[list[int]]):
    """The batches of an epoch, of which each process takes every k-th."""

    def __init__(self, num_batches: int, *, seed: int, process: int, processes: int) -> None:
        self.num_batches = num_batches
        self.seed = seed
        self.process = process
        self.processes = processes
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self.epoch = epoch

    @abstractmethod
    def _of_epoch(self) -> list[list[int]]:
        """The batches of all processes, in the order of this epoch."""

    def __len__(self) -> int:
        return -(-self.num_batches // self.processes)

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._of_epoch()
        # Every process must take as many steps as the others, or they would wait for each other forever.
        while len(batches) % self.processes:
            batches += batches[: self.processes - len(batches) % self.processes]
        return iter(batches[self.process :: self.processes])


class LengthBatchSampler(_SharedBatches):
    """Batches of indices for one process.

    The examples are shuffled, cut into pools of fifty batches, sorted by length inside each pool, cut into batches, and
    the batches are shuffled. Each process takes every k-th batch; a few batches come twice where they do not divide.

    Args:
        lengths: length of every example.
        batch_size: examples per batch; the last batch may be smaller.
        seed: of the order.
        process: index of this process.
        processes: how many processes share the epoch.

    Example:
        >>> sampler = LengthBatchSampler([3, 9, 3, 9], batch_size=2, seed=1)
        >>> sorted(sorted(batch) for batch in sampler)
        [[0, 2], [1, 3]]
        >>> sampler.set_epoch(1)
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, *, seed: int, process: int = 0, processes: int = 1
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        super().__init__(-(-len(self.lengths) // batch_size), seed=seed, process=process, processes=processes)

    def _of_epoch(self) -> list[list[int]]:
        generator = np.random.default_rng([self.seed, self.epoch])
        order = generator.permutation(len(self.lengths))
        pool = self.batch_size * _POOL
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            part = order[start : start + pool]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += [part[at : at + self.batch_size].tolist() for at in range(0, len(part), self.batch_size)]
        return [batches[index] for index in generator.permutation(len(batches))]


class NoisyBatchSampler(_SharedBatches):
    """Batches of neighbours in an order of length with noise, for one process.

    Up to one is added to each length before the examples are sorted and cut into batches, which are then shuffled. All
    epochs draw from one generator, one after the other.

    Args:
        lengths: length of every example.
        batch_size: examples per batch; the last of the sorted ones may be smaller.
        seed: of the order.
        process: index of this process.
        processes: how many processes share the epoch.

    Example:
        >>> sorted(map(sorted, NoisyBatchSampler([3, 9, 3, 9], batch_size=2, seed=1)))
        [[0, 2], [1, 3]]
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, *, seed: int, process: int = 0, processes: int = 1
    ) -> None:
        self.lengths = list(lengths)
        self.batch_size = batch_size
        super().__init__(-(-len(self.lengths) // batch_size), seed=seed, process=process, processes=processes)

    def _of_epoch(self) -> list[list[int]]:
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.epoch + 1):
            noise = torch.rand(len(self.lengths), generator=generator).tolist()
            shuffled = torch.randperm(self.num_batches, generator=generator).tolist()
        order = sorted(range(len(self.lengths)), key=lambda index: self.lengths[index] + noise[index])
        return [order[start : start + self.batch_size] for start in (index * self.batch_size for index in shuffled)]


class TokenBatchSampler(_SharedBatches):
    """Batches of about as many words each, for one process: examples times the longest of them is at most ``tokens``.

    Which examples share a batch is drawn once, so that every epoch has as many batches as the others; each epoch has
    them in another order. An example longer than ``tokens`` is a batch of its own.

    Args:
        lengths: length of every example.
        tokens: maximum number of words of a batch, padding included.
        seed: of the batches and their order.
        process: index of this process.
        processes: how many processes share the epoch.

    Example:
        >>> sampler = TokenBatchSampler([3, 9, 3, 9], tokens=9, seed=1)
        >>> len(sampler), sorted(sorted(batch) for batch in sampler)
        (3, [[0, 2], [1], [3]])
    """

    def __init__(self, lengths: Sequence[int], tokens: int, *, seed: int, process: int = 0, processes: int = 1) -> None:
        self.batches: list[list[int]] = []
        self.lengths = list(lengths)
        order = np.random.default_rng([seed, 0]).permutation(len(lengths))
        for index in order[np.argsort(np.asarray(lengths)[order], kind="stable")].tolist():
            # Sorted, so the newest is the longest.
            if self.batches and (len(self.batches[-1]) + 1) * lengths[index] <= tokens:
                self.batches[-1].append(index)
            else:
                self.batches.append([index])
        super().__init__(len(self.batches), seed=seed, process=process, processes=processes)

    def _of_epoch(self) -> list[list[int]]:
        order = np.random.default_rng([self.seed, 1 + self.epoch]).permutation(self.num_batches)
        return [self.batches[index] for index in order]
