"""Fully sharded data parallelism: parameters, gradients and the optimizer's state are sharded across processes.

``accelerate launch --use_fsdp --fsdp_version 2`` asks for it. Training then updates a copy of the model whose
parameters are shards (``torch.distributed.tensor.DTensor``); the model itself stays whole in every process. It receives
the trained parameters before each evaluation, so that it is evaluated, averaged and saved as usual, and to the same
files.

References: Rajbhandari et al. (2020), ZeRO: memory optimizations toward training trillion parameter models; Zhao et al.
(2023), PyTorch FSDP: experiences on scaling fully sharded data parallel.
"""

import copy
import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from structattn.errors import ConfigError, require


def is_asked_for() -> bool:
    """Whether the launcher of this process asked for sharding."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def is_sharded(accelerator: Any) -> bool:
    """Whether an Accelerator shards parameters."""
    return bool(accelerator.distributed_type == "FSDP")


def shard_as_asked(accelerator: Any) -> None:
    """Let an Accelerator of several processes shard if its launcher asked for it, on CPUs too.

    On CPUs, accelerate itself always trains with plain data parallelism, even if asked to shard.

    Raises:
        ConfigError: if version 1 of FSDP was asked for.
    """
    kinds = type(accelerator.distributed_type)
    if not is_asked_for() or accelerator.distributed_type not in (kinds.FSDP, kinds.MULTI_CPU):
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
def gather(shards: nn.Module, module: nn.Module) -> None:
    """Fill a whole module in every process from the shards of all processes; every process must call it."""
    for own, part in _pairs(module, shards):
        own.copy_(whole(part))


@torch.no_grad()
def scatter(module: nn.Module, shards: nn.Module) -> None:
    """Fill the shards from a whole module, the same in every process; every process must call it."""
    for own, part in _pairs(module, shards):
        part.copy_(shard_like(own, part))


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor from the shards of all processes; any other tensor as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor, sharded like another tensor."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


def whole_state(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer, with whole tensors in every process; every process must call it."""
    state = optimizer.state_dict()
    entries = {
        index: {name: whole(value) if isinstance(value, Tensor) else value for name, value in one.items()}
        for index, one in state["state"].items()
    }
    return {**state, "state": entries}


def shard_state(state: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """The inverse of ``whole_state``: tensors with the shape of their parameter are sharded like it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    entries = {
        index: {
            name: shard_like(value, parameters[index])
            if isinstance(value, Tensor) and value.shape == parameters[index].shape
            else value
            for name, value in one.items()
        }
        for index, one in state["state"].items()
    }
    return {**state, "state": entries}


def _pairs(module: nn.Module, shards: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    for tensors in (nn.Module.named_parameters, nn.Module.named_buffers):
        parts = dict(tensors(shards))
        for name, own in tensors(module):
            yield own, parts[name]
