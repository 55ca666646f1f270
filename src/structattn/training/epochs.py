"""A plain loop over epochs with exact resumption, for parsers and question answering; needs no transformers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm  # type: ignore[import-untyped]

from structattn.data.tensors import load_tensors, save_tensors
from structattn.syntax.errors import StructAttnError
from structattn.syntax.folders import (
    described_by,
    read_json,
    read_json_lines,
    replaced_folder,
    write_json,
    write_json_lines,
)
from structattn.training.config_parts import OptimizationConfig
from structattn.training.folder import RunFolder
from structattn.training.optimization import build_schedule
from structattn.training.sampler import LengthBatchSampler
from structattn.training.state import load_optimizer, random_state, save_optimizer, set_random_state

_WEIGHTS, _HISTORY, _STATES, _CURRENT = "model.safetensors", "history.jsonl", "states.json", "current"


class EpochLoop:
    """Module, optimizer, schedule and data order of a run: the state that a checkpoint holds.

    Args:
        module: what is trained.
        optimizer: of its parameters.
        sampler: gives the numbers of the examples of each step.
        optimization: schedule, epochs and the largest norm of the gradient.
        folder: of the run, claimed by it.

    Example:
        >>> import tempfile
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> settings = OptimizationConfig(optimizer="sgd", learning_rate=0.1, epochs=2)
        >>> optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        >>> folder = RunFolder(tempfile.mkdtemp())
        >>> loop = EpochLoop(layer, optimizer, LengthBatchSampler([1, 1], 1, seed=1), settings, folder=folder)
        >>> loop.restore()
        []
        >>> loss = loop.learn(0, lambda rows: layer(torch.ones(len(rows), 1)).square().mean())
        >>> loop.save([{"epoch": 1, "loss": loss}])
        >>> [row["epoch"] for row in loop.restore()]
        [1]
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        sampler: LengthBatchSampler,
        optimization: OptimizationConfig,
        *,
        folder: RunFolder,
    ) -> None:
        self.module = module
        self.optimizer = optimizer
        self.sampler = sampler
        self.clip = optimization.clip or math.inf
        self.schedule = build_schedule(optimizer, optimization, num_steps=len(sampler) * optimization.epochs)
        self.checkpoint = folder.checkpoints / _CURRENT

    def learn(self, epoch: int, loss_of: Callable[[list[int]], Tensor]) -> float:
        """One epoch; the mean loss of its examples.

        Args:
            epoch: its number, from 0.
            loss_of: the mean loss of the examples with these numbers.

        Raises:
            StructAttnError: if the loss is not finite.
        """
        self.sampler.set_epoch(epoch)
        trained = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        total, count = 0.0, 0
        with tqdm(self.sampler, desc=f"epoch {epoch + 1}", unit="step", disable=None, leave=False) as steps:
            for rows in steps:
                loss = loss_of(rows)
                self.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(trained, self.clip)
                self.optimizer.step()
                self.schedule.step()
                total, count = total + loss.item() * len(rows), count + len(rows)
        mean = total / count
        if not math.isfinite(mean):
            raise StructAttnError(f"the training loss is {mean} in epoch {epoch + 1}; try a lower learning_rate")
        return mean

    def save(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write the state and the evaluations so far, atomically."""
        with replaced_folder(self.checkpoint) as temporary:
            save_tensors(self.module.state_dict(), temporary / _WEIGHTS)
            save_optimizer(self.optimizer, temporary)
            write_json(temporary / _STATES, {"schedule": self.schedule.state_dict(), "random": random_state()})
            write_json_lines(temporary / _HISTORY, rows)

    def restore(self) -> list[dict[str, Any]]:
        """Restore the last state, if there is one, and return the evaluations up to then.

        Raises:
            ParseError: if a file of it is missing or damaged; the message names it.
        """
        if not self.checkpoint.is_dir():
            return []
        load_tensors(self.module, self.checkpoint / _WEIGHTS)
        load_optimizer(self.optimizer, self.checkpoint)
        states = read_json(self.checkpoint / _STATES, keys=("schedule", "random"))
        with described_by(self.checkpoint / _STATES, "a state"):
            self.schedule.load_state_dict(states["schedule"])
            set_random_state(states["random"])
        return list(read_json_lines(self.checkpoint / _HISTORY))
