"""Batches of indices: laws of all samplers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from structattn.training.optimization_config import OptimizationConfig
from structattn.training.sampler import (
    BatchSampler,
    LengthBatchSampler,
    NoisyBatchSampler,
    TokenBatchSampler,
    WindowBatchSampler,
    batch_sampler,
)

LENGTHS = np.random.default_rng(0).integers(1, 12, size=23).tolist()
GROUPS = [4, 4, 1, 6, 8]
SAMPLERS: dict[str, Callable[..., Any]] = {
    "length": lambda **share: LengthBatchSampler(LENGTHS, 3, **share),
    "noisy": lambda **share: NoisyBatchSampler(LENGTHS, 3, **share),
    "tokens": lambda **share: TokenBatchSampler(LENGTHS, 20, **share),
    "window": lambda **share: WindowBatchSampler(LENGTHS, GROUPS, batch_size=3, window=8, **share),
}


def batches_of_epoch(sampler: BatchSampler, epoch: int) -> list[list[int]]:
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    return batches


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_epoch_has_every_example_once_in_an_order_of_its_own(name: str) -> None:
    sampler = SAMPLERS[name](seed=1)
    epochs = [batches_of_epoch(sampler, epoch) for epoch in range(3)]
    for batches in epochs:
        assert sorted(index for batch in batches for index in batch) == list(range(len(LENGTHS)))
    assert epochs[0] != epochs[1] != epochs[2]
    assert epochs[2] == batches_of_epoch(SAMPLERS[name](seed=1), 2)
    assert epochs[0] != batches_of_epoch(SAMPLERS[name](seed=2), 0)


@pytest.mark.parametrize("processes", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("name", SAMPLERS)
def test_processes_take_turns_and_begin_again_until_all_have_as_many(name: str, processes: int) -> None:
    whole = batches_of_epoch(SAMPLERS[name](seed=1), 1)
    while len(whole) % processes:
        whole += whole[: processes - len(whole) % processes]
    for process in range(processes):
        share = SAMPLERS[name](seed=1, process=process, processes=processes)
        assert batches_of_epoch(share, 1) == whole[process::processes]


def test_lengths_share_a_batch_as_each_sampler_says() -> None:
    assert sorted(sorted(batch) for batch in LengthBatchSampler([3, 9, 3, 9], 2, seed=1)) == [[0, 2], [1, 3]]
    assert sorted(sorted(batch) for batch in NoisyBatchSampler([3, 9, 3, 9], 2, seed=1)) == [[0, 2], [1, 3]]
    assert sorted(sorted(batch) for batch in TokenBatchSampler([3, 9, 3, 9], 9, seed=1)) == [[0, 2], [1], [3]]
    # Groups of 2, 2 and 1 examples: the single one never fits into a window of 4 with both others.
    windows = WindowBatchSampler([3, 9, 3, 9, 5], [2, 2, 1], batch_size=2, window=4, seed=1)
    assert len(windows) == 3
    assert sorted(len(batch) for batch in windows) == [1, 2, 2]


@pytest.mark.parametrize(("tokens", "kind"), [(None, LengthBatchSampler), (20, TokenBatchSampler)])
def test_batches_are_limited_by_examples_or_words(tokens: int | None, kind: type) -> None:
    sampler = batch_sampler(LENGTHS, OptimizationConfig(batch_size=3, batch_tokens=tokens), seed=1)
    assert type(sampler) is kind
    for batch in sampler:
        longest = max(LENGTHS[index] for index in batch)
        assert len(batch) * longest <= 20 if tokens else len(batch) <= 3
