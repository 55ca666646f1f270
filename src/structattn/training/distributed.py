"""The processes and the device of a run: one process or several, each with the whole model or with shards of it.

Under ``accelerate launch --multi_gpu --num_processes 2`` or ``torchrun --nproc_per_node 2`` every process runs the same
program; without GPUs they communicate through gloo. Only the first writes to the run folder.

``accelerate launch --use_fsdp --fsdp_version 2`` asks for fully sharded data parallelism: parameters, gradients and the
optimizer's state are sharded across processes. Training then updates a copy of the model whose parameters are shards
(``torch.distributed.tensor.DTensor``); the model itself stays whole in every process. It receives the trained
parameters before each evaluation, so that it is evaluated, averaged and saved as usual, and to the same files.

References: Rajbhandari et al. (2020), ZeRO: memory optimizations toward training trillion parameter models; Zhao et al.
(2023), PyTorch FSDP: experiences on scaling fully sharded data parallel.
"""

import contextlib
import copy
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch.distributed
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from structattn.errors import ConfigError, StructAttnError, require
from structattn.options.hardware import Hardware

LOGGER = logging.getLogger("structattn.training")
Value = TypeVar("Value")


def num_processes() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_index() -> int:
    """The rank of this process; rank 0 writes."""
    return int(os.environ.get("RANK", "0"))


def is_first_process() -> bool:
    """Whether this process writes and prints: the only one, or the first of those that train together.

    Example:
        >>> is_first_process()
        True
    """
    return process_index() == 0


@contextlib.contextmanager
def open_accelerator(hardware: Hardware, *, report_to: str | None = None) -> Iterator[Any]:
    """An ``accelerate.Accelerator`` on a device, connected with the other processes, if there are any.

    All Accelerators of a process share one device and precision; those of the caller are restored afterwards.
    """
    accelerate = require("accelerate", "train")
    if report_to is not None:  # accelerate itself would continue without it
        require(report_to, report_to)
    device = hardware.torch_device()
    if num_processes() == 1 and "MASTER_ADDR" in os.environ and "ACCELERATE_USE_CPU" in os.environ:
        LOGGER.warning(
            "accelerate launch --cpu has started one process only; for more: accelerate launch --multi_gpu "
            "--num_processes 2 (CPUs too), or torchrun --nproc_per_node 2"
        )
    state = accelerate.state
    kinds = (state.AcceleratorState, state.PartialState, state.GradientState)
    states_of_caller = [dict(kind._shared_state) for kind in kinds]
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
        _shard_if_requested(accelerator)
        yield accelerator
    finally:
        for kind, values in zip(kinds, states_of_caller, strict=True):
            kind._shared_state.clear()
            kind._shared_state.update(values)


def from_first(make: Callable[[], Value]) -> Value:
    """Compute a value in the first process and broadcast it to all; so is a ``StructAttnError`` that is raised there.

    If only the first process raised it, the others would wait forever.
    """
    if num_processes() == 1:
        return make()
    outcome: list[Any] = [None, None]
    if is_first_process():
        try:
            outcome[0] = make()
        except StructAttnError as error:
            outcome[1] = error
    torch.distributed.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    value: Value = outcome[0]
    return value


def gather(values: Iterable[Value]) -> list[Value]:
    """The values of all processes in one list: the first value of each process, then the second of each, and so on.

    The inverse of giving item ``i`` to process ``i % num_processes()``.
    """
    if num_processes() == 1:
        return list(values)
    shares: list[list[Value]] = [[] for _ in range(num_processes())]
    torch.distributed.all_gather_object(shares, list(values))
    total = sum(len(share) for share in shares)
    return [shares[item % num_processes()][item // num_processes()] for item in range(total)]


def is_sharded(accelerator: Any) -> bool:
    """Whether an Accelerator shards parameters."""
    return bool(accelerator.distributed_type == "FSDP")


def _shard_if_requested(accelerator: Any) -> None:
    """Let an Accelerator of several processes shard if its launcher asked for it, on CPUs too.

    On CPUs, accelerate itself always trains with plain data parallelism, even if asked to shard.
    """
    is_requested = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    kinds = type(accelerator.distributed_type)
    if not is_requested or accelerator.distributed_type not in (kinds.FSDP, kinds.MULTI_CPU):
        return
    state = accelerator.state
    if accelerator.distributed_type == kinds.MULTI_CPU:
        accelerate = require("accelerate", "train")
        state.fsdp_plugin = accelerate.FullyShardedDataParallelPlugin()
        if accelerator.mixed_precision != "no":
            state.fsdp_plugin.set_mixed_precision(accelerator.mixed_precision)
        # Both are set, as ``AcceleratorState()`` copies the values of ``PartialState`` each time it is called.
        state.distributed_type = accelerate.PartialState().distributed_type = kinds.FSDP
    if getattr(state.fsdp_plugin, "fsdp_version", 1) != 2:
        raise ConfigError("FSDP: expected accelerate launch --use_fsdp --fsdp_version 2, got version 1")


def copy_to_shard(module: nn.Module) -> nn.Module:
    """A copy for ``Accelerator.prepare``, which names the layers of its backbone, the usual units of sharding."""
    without_parser = getattr(module, "without_parser", None)
    copied = copy.deepcopy(module if without_parser is None else without_parser())
    layers = [name for part in module.modules() for name in getattr(part, "_no_split_modules", None) or ()]
    copied._no_split_modules = sorted(set(layers))  # type: ignore[assignment]  # accelerate reads it off any module
    return copied


@torch.no_grad()
def fill_from_shards(module: nn.Module, shards: nn.Module) -> None:
    """Fill a whole module in every process from the shards of all processes; every process must call it."""
    for whole, shard in _pair_tensors(module, shards):
        whole.copy_(whole_tensor(shard))


@torch.no_grad()
def fill_shards(shards: nn.Module, module: nn.Module) -> None:
    """Fill the shards from a whole module, the same in every process; every process must call it."""
    for whole, shard in _pair_tensors(module, shards):
        shard.copy_(_shard_like(whole, shard))


def whole_tensor(tensor: Tensor) -> Tensor:
    """The whole tensor from the shards of all processes; any other tensor as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_state(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer, with whole tensors in every process; every process must call it."""
    state = optimizer.state_dict()
    entries = {
        index: {name: whole_tensor(value) if isinstance(value, Tensor) else value for name, value in entry.items()}
        for index, entry in state["state"].items()
    }
    return {**state, "state": entries}


def shard_state(state: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """The inverse of ``whole_state``: tensors with the shape of their parameter are sharded like it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    entries = {
        index: {
            name: _shard_like(value, parameters[index])
            if isinstance(value, Tensor) and value.shape == parameters[index].shape
            else value
            for name, value in entry.items()
        }
        for index, entry in state["state"].items()
    }
    return {**state, "state": entries}


def _shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor, sharded like another tensor."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


def _pair_tensors(module: nn.Module, shards: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    for tensors in (nn.Module.named_parameters, nn.Module.named_buffers):
        by_name = dict(tensors(shards))
        for name, whole in tensors(module):
            yield whole, by_name[name]
