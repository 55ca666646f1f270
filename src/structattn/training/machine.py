"""The processes and the device of a run, and their description in ``environment.json``.

Under ``accelerate launch --multi_gpu --num_processes 2`` or ``torchrun --nproc_per_node 2`` every process runs the same
program; without GPUs they communicate through gloo. Only the first writes to the run folder.
"""

import contextlib
import hashlib
import importlib.metadata
import logging
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed

import structattn
from structattn.errors import StructAttnError, require
from structattn.options.hardware import Hardware
from structattn.training.sharding import shard_as_asked

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


@contextlib.contextmanager
def accelerator_of(hardware: Hardware, *, report_to: str | None = None) -> Iterator[Any]:
    """An ``accelerate.Accelerator`` on a device, connected with the other processes, if there are any.

    All Accelerators of a process share one device and precision; those of the caller are restored afterwards.

    Args:
        hardware: the device and its precision.
        report_to: the name of one of accelerate's trackers, which its package and its extra have too.

    Raises:
        ConfigError: if the device is not available, or the launcher asked for version 1 of FSDP.
        MissingExtra: if the extra ``train``, or that of the tracker, is not installed.
    """
    accelerate = require("accelerate", "train")
    if report_to is not None:  # accelerate itself would continue without it
        require(report_to, report_to)
    device = hardware.torch_device()
    if count() == 1 and "MASTER_ADDR" in os.environ and "ACCELERATE_USE_CPU" in os.environ:
        LOGGER.warning(
            "accelerate launch --cpu has started one process only; for more: accelerate launch --multi_gpu "
            "--num_processes 2 (CPUs too), or torchrun --nproc_per_node 2"
        )
    state = accelerate.state
    kinds = (state.AcceleratorState, state.PartialState, state.GradientState)
    before = [dict(kind._shared_state) for kind in kinds]
    # Which parameters are used may depend on the trees of a batch.
    unused = accelerate.DistributedDataParallelKwargs(find_unused_parameters=True)
    try:
        for kind in kinds:
            kind._shared_state.clear()
        accelerator = accelerate.Accelerator(
            cpu=device.type == "cpu",
            mixed_precision=hardware.mixed_precision,
            kwargs_handlers=[unused],
            log_with=report_to,
            # The folder that trackers write to is known once there is a run folder.
            project_config=accelerate.utils.ProjectConfiguration(logging_dir=os.curdir),
        )
        shard_as_asked(accelerator)
        yield accelerator
    finally:
        for kind, values in zip(kinds, before, strict=True):
            kind._shared_state.clear()
            kind._shared_state.update(values)


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
    """The values of all processes in one list: the first value of each process, then the second of each, and so on.

    The inverse of giving item ``i`` to process ``i % count()``.
    """
    if count() == 1:
        return list(own)
    shares: list[list[Value]] = [[] for _ in range(count())]
    torch.distributed.all_gather_object(shares, list(own))
    total = sum(len(share) for share in shares)
    return [shares[item % count()][item // count()] for item in range(total)]


def environment(device: torch.device, files: Iterable[str | os.PathLike[str] | None] = ()) -> dict[str, Any]:
    """Versions, machine and command of a run, and the checksums of the files that it reads.

    Args:
        device: device of the run.
        files: paths; those that are not files are left out.
    """
    installed: dict[str, str | None] = {}
    for name in ("accelerate", "numpy", "safetensors", "tokenizers", "transformers"):
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = None
    return {
        "structattn": structattn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        **installed,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "processes": count(),
        "command": sys.argv,
        "sha256": {os.fspath(file): _checksum(file) for file in files if file is not None and Path(file).is_file()},
    }


def peak_memory(device: torch.device) -> float:
    """The peak memory of this process so far, in MiB.

    On a GPU, this is the memory of torch's tensors there; on a CPU, the resident memory, including Python, torch and
    the data.

    Args:
        device: device of the model.

    Example:
        >>> peak_memory(torch.device("cpu")) > 1
        True
    """
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def _checksum(file: str | os.PathLike[str]) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
