"""Which examples share a batch: sentences of similar length, in an order determined by seed and epoch.

A resumed run thus has the same batches as an uninterrupted one, without any stored state.
"""

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import Sampler

from structattn.training import distributed
from structattn.training.optimization_config import OptimizationConfig

# How many batches are sorted by length together: the larger, the less padding and the less random the order.
_POOL = 50


@runtime_checkable
class BatchSampler(Protocol):
    """Batches of indices, the same number of them in every epoch."""

    @property
    def lengths(self) -> Sequence[int] | np.ndarray:
        """Length of every example."""
        ...

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[list[int]]: ...


def batch_sampler(
    lengths: Sequence[int], config: OptimizationConfig, *, seed: int, probabilities: np.ndarray | None = None
) -> BatchSampler:
    """The batches of this process, limited by the number of examples or by the number of words.

    With probabilities, as many examples are drawn with replacement for each epoch.
    """
    share = {"seed": seed, "process": distributed.process_index(), "processes": distributed.num_processes()}
    if config.batch_tokens is None:
        sampler = LengthBatchSampler(lengths, config.batch_size, **share)
        sampler.probabilities = probabilities
        return sampler
    return TokenBatchSampler(lengths, config.batch_tokens, **share)


class _SharedBatches(Sampler[list[int]]):
    """The batches of an epoch, divided among ``k`` processes, each of which takes every k-th.

    A few batches come twice if their number is not a multiple of ``k``.
    """

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
    def _order_batches(self) -> Iterable[list[int]]:
        """The batches of all processes, in the order of this epoch."""

    def __len__(self) -> int:
        return -(-self.num_batches // self.processes)

    def __iter__(self) -> Iterator[list[int]]:
        # Every process must take as many steps as the others, or they would wait for each other forever.
        missing = len(self) * self.processes - self.num_batches
        repeated = itertools.islice(itertools.cycle(self._order_batches()), missing) if missing else ()
        return itertools.islice(itertools.chain(self._order_batches(), repeated), self.process, None, self.processes)


class LengthBatchSampler(_SharedBatches):
    """Batches of similar lengths: shuffled, cut into pools of fifty batches, sorted in each, cut, shuffled again."""

    #: Of drawing each example, with replacement; every example once if ``None``.
    probabilities: np.ndarray | None = None

    def __init__(
        self, lengths: Sequence[int], batch_size: int, *, seed: int, process: int = 0, processes: int = 1
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        super().__init__(-(-len(self.lengths) // batch_size), seed=seed, process=process, processes=processes)

    def _order_batches(self) -> list[list[int]]:
        generator = np.random.default_rng([self.seed, self.epoch])
        number = len(self.lengths)
        order = generator.permutation(number)
        if self.probabilities is not None:
            order = generator.choice(number, number, p=self.probabilities)
        return [batch.tolist() for batch in _by_length(order, self.lengths, self.batch_size, generator)]


class NoisyBatchSampler(LengthBatchSampler):
    """Batches of neighbours in an order of lengths with a random number below one added, shuffled.

    All epochs draw from one generator, one after the other.
    """

    def _order_batches(self) -> list[list[int]]:
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.epoch + 1):
            noise = torch.rand(len(self.lengths), generator=generator).tolist()
            shuffled = torch.randperm(self.num_batches, generator=generator).tolist()
        order = sorted(range(len(self.lengths)), key=lambda index: self.lengths[index] + noise[index])
        return [order[start : start + self.batch_size] for start in (index * self.batch_size for index in shuffled)]


class TokenBatchSampler(_SharedBatches):
    """Batches of about the same number of words: examples times the longest is at most ``tokens``, if it can be.

    Which examples share a batch is drawn once, so that every epoch has as many batches; their order differs.
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

    def _order_batches(self) -> list[list[int]]:
        order = np.random.default_rng([self.seed, 1 + self.epoch]).permutation(self.num_batches)
        return [self.batches[index] for index in order]


class WindowBatchSampler(_SharedBatches):
    """Batches of consecutive groups of examples: each window of groups is shuffled, and sorted by length in pools.

    Windows are drawn once, so that every epoch has as many batches; their order, and that within them, differs.
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        group_sizes: Sequence[int],
        *,
        batch_size: int,
        window: int,
        seed: int,
        process: int = 0,
        processes: int = 1,
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        order = np.random.default_rng([seed, 0]).permutation(len(group_sizes)).tolist()
        starts = np.cumsum([0, *group_sizes])
        grouped = _windows([group_sizes[number] for number in order], window)
        self.windows = [[(starts[order[at]], starts[order[at] + 1]) for at in numbers] for numbers in grouped]
        sizes = [sum(end - start for start, end in window) for window in self.windows]
        num_batches = sum(-(-int(size) // batch_size) for size in sizes)
        super().__init__(num_batches, seed=seed, process=process, processes=processes)

    def _order_batches(self) -> Iterator[list[int]]:
        generator = np.random.default_rng([self.seed, 1 + self.epoch])
        for number in generator.permutation(len(self.windows)).tolist():
            rows = np.concatenate([np.arange(start, end) for start, end in self.windows[number]])
            batches = _by_length(generator.permutation(rows), self.lengths, self.batch_size, generator)
            yield from (batch.tolist() for batch in batches)


def _windows(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Windows of neighbouring groups, by their numbers: each has at most ``most`` examples, or is a single group."""
    windows: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if not windows or size > room:
            windows.append([])
            room = most
        windows[-1].append(number)
        room -= size
    return windows


def _by_length(
    order: np.ndarray, lengths: np.ndarray, batch_size: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Batches of similar length within pools of fifty batches, shuffled over all pools."""
    pool = batch_size * _POOL
    batches: list[np.ndarray] = []
    for start in range(0, len(order), pool):
        part = order[start : start + pool]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[at : at + batch_size] for at in range(0, len(part), batch_size)]
    return [batches[index] for index in generator.permutation(len(batches))]
