"""One process or several: which one writes, and broadcasting its results to the others.

Under ``accelerate launch --multi_gpu --num_processes 2`` or ``torchrun --nproc_per_node 2`` every process runs the same
program; without GPUs they communicate through gloo. Only the first writes to the run folder.
"""

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch.distributed

from structattn.syntax.errors import StructAttnError, require

LOGGER = logging.getLogger("structattn.training")
Value = TypeVar("Value")


def count() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def index() -> int:
    """The rank of this process; rank 0 writes."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """Whether this process writes and prints."""
    return index() == 0


def connect(*, cpu: bool) -> None:
    """Join the other processes, if there are any."""
    if count() > 1:
        require("accelerate", "train").PartialState(cpu=cpu)
    elif "MASTER_ADDR" in os.environ and "ACCELERATE_USE_CPU" in os.environ:
        LOGGER.warning(
            "accelerate launch --cpu has started one process only; for more: accelerate launch --multi_gpu "
            "--num_processes 2 (CPUs too), or torchrun --nproc_per_node 2"
        )


def from_first(make: Callable[[], Value]) -> Value:
    """Compute a value in the first process and broadcast it to all.

    Raises:
        StructAttnError: in every process, if it was raised in the first: otherwise the others would wait forever.
    """
    if count() == 1:
        return make()
    outcome: list[Any] = [None, None]
    if is_first():
        try:
            outcome[0] = make()
        except StructAttnError as error:
            outcome[1] = error
    torch.distributed.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    made: Value = outcome[0]
    return made


def gathered(own: Iterable[Value]) -> list[Value]:
    """Every process's values in one list: its first values of all, then its second ones, and so on.

    The inverse of giving item ``i`` to process ``i % count()``.
    """
    if count() == 1:
        return list(own)
    shares: list[list[Value]] = [[] for _ in range(count())]
    torch.distributed.all_gather_object(shares, list(own))
    total = sum(len(share) for share in shares)
    return [shares[item % count()][item // count()] for item in range(total)]
