"""The state of an unfinished run on disk: model, optimizer, random numbers, and parameters of earlier evaluations.

One file of safetensors with JSON in its header, no pickle: torch itself saves pickles, which can contain code, and a
run folder may come from an untrusted source.
"""

import contextlib
import json
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from structattn.data.tensors import read_with_metadata, serialise
from structattn.files.json_yaml import naming_description
from structattn.files.replacing import replace_bytes
from structattn.files.text import parse_json
from structattn.training.distributed import shard_state


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: groups of tensors by name, plain values, and the file that errors name."""

    file: Path
    tensors: Mapping[str, Mapping[str, Tensor]]
    values: Mapping[str, Any]

    def write(self) -> None:
        """Replace the file."""
        tensors = {f"{group}/{name}": tensor for group, part in self.tensors.items() for name, tensor in part.items()}
        with replace_bytes(self.file) as stream:
            stream.writelines(serialise(tensors, state=json.dumps(self.values)))

    @classmethod
    def read(cls, file: Path) -> "Checkpoint":
        """Read a file that ``write`` wrote; an error names it."""
        stored, metadata = read_with_metadata(file)
        tensors: dict[str, dict[str, Tensor]] = {}
        with naming_description(file, "the state of a run"):
            for key, tensor in stored.items():
                group, name = key.split("/", 1)
                tensors.setdefault(group, {})[name] = tensor
            return cls(file, tensors, parse_json(metadata["state"]))

    def group(self, name: str) -> Mapping[str, Tensor]:
        """The tensors of a group, which may have none."""
        return self.tensors.get(name, {})


def split_optimizer(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of an optimizer's ``state_dict``, and all else as plain values."""
    tensors: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            kind = tensors if isinstance(value, torch.Tensor) else values
            kind[f"{index}.{name}"] = value
    return tensors, {"values": values, "groups": state["param_groups"]}


def load_optimizer(optimizer: Any, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Restore what ``split_optimizer`` gave, in an optimizer of the same model, whose parameters may be shards."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **values["values"]}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    # JSON has no tuples; optimizers compare and unpack theirs.
    groups = [
        {name: tuple(value) if isinstance(value, list) and name != "params" else value for name, value in group.items()}
        for group in values["groups"]
    ]
    optimizer.load_state_dict(shard_state({"state": state, "param_groups": groups}, optimizer))


def random_state() -> dict[str, Any]:
    """The state of every generator that training draws from, as plain values."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state = {
        "python": [version, list(words), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": _to_text(torch.get_rng_state()),
    }
    if torch.cuda.is_available():
        state["cuda"] = [_to_text(device_state) for device_state in torch.cuda.get_rng_state_all()]
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Restore the state of all generators that ``random_state`` returned."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(_from_text(state["torch"]))
    if "cuda" in state and torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all([_from_text(device_state) for device_state in state["cuda"]])


def set_seed(seed: int) -> None:
    """Seed every generator that training draws from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@contextlib.contextmanager
def preserved_randomness() -> Iterator[None]:
    """Restore all generators after the block, which may seed them."""
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)


def _to_text(state: torch.Tensor) -> str:
    return bytes(state.tolist()).hex()


def _from_text(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)


class Averaging:
    """Keeps the latest parameters of a model, ``number`` states, and swaps in their mean within a block."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._latest: deque[dict[str, Tensor]] = deque(maxlen=number)

    @contextlib.contextmanager
    def apply_mean(self, model: nn.Module) -> Iterator[None]:
        """Record the parameters, give the model their mean inside the block, and restore them afterwards."""
        if self.number == 1:
            yield
            return
        latest = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        self._latest.append(latest)
        mean = {name: _mean([state[name] for state in self._latest]) for name in latest}
        model.load_state_dict(mean)
        try:
            yield
        finally:
            model.load_state_dict(latest)

    def groups(self) -> dict[str, Mapping[str, Tensor]]:
        """The recorded parameters, as groups of a checkpoint."""
        return {f"earlier{number}": state for number, state in enumerate(self._latest)}

    def restore(self, checkpoint: Checkpoint, device: torch.device) -> None:
        """Record the parameters of a checkpoint that has ``groups``."""
        self._latest.clear()
        for state in (checkpoint.group(f"earlier{number}") for number in range(self.number)):
            if state:
                self._latest.append({name: tensor.to(device) for name, tensor in state.items()})


def _mean(tensors: list[Tensor]) -> Tensor:
    # Counters and masks have no mean: the latest value is taken.
    return torch.stack(tensors).mean(0) if tensors[0].is_floating_point() else tensors[-1]
