"""Which examples share a batch: sentences of similar length, in an order that only seed and epoch decide.

That is what makes a resumed run see the batches it would have seen: nothing is remembered, everything is drawn again.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

# How many batches are sorted by length together: the larger, the less padding and the less chance in the order.
_POOL = 50


class LengthBatchSampler(Sampler[list[int]]):
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
        self.seed = seed
        self.process = process
        self.processes = processes
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration goes through."""
        self.epoch = epoch

    def __len__(self) -> int:
        batches = -(-len(self.lengths) // self.batch_size)
        return -(-batches // self.processes)

    def __iter__(self) -> Iterator[list[int]]:
        generator = np.random.default_rng([self.seed, self.epoch])
        order = generator.permutation(len(self.lengths))
        pool = self.batch_size * _POOL
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            part = order[start : start + pool]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += [part[at : at + self.batch_size].tolist() for at in range(0, len(part), self.batch_size)]
        shuffled = [batches[index] for index in generator.permutation(len(batches))]
        # Every process must take as many steps as the others, or they would wait for each other for ever.
        while len(shuffled) % self.processes:
            shuffled += shuffled[: self.processes - len(shuffled) % self.processes]
        return iter(shuffled[self.process :: self.processes])
