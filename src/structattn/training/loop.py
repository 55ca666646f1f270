"""The training loop that all models share, on ``accelerate.Accelerator``.

A step processes one or several batches, clips the gradient, and updates the parameters and the learning rate. At evenly
spaced steps the model is evaluated, the best one is kept, and a checkpoint is written. The Accelerator takes care of
devices, mixed precision and several processes.

Exact resumption relies on three things. A checkpoint is written after each evaluation, and replaces the previous one by
renaming. The order of the examples depends only on seed and epoch. Best model and patience are derived from the
evaluation history (``history.py``).
"""

import dataclasses
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from structattn.data.tensors import fill_model
from structattn.errors import StructAttnError, require
from structattn.files.json_yaml import naming_description
from structattn.files.progress import open_progress
from structattn.tasks import Metric
from structattn.tasks.memory import explain_memory
from structattn.training import distributed
from structattn.training.checkpoint import (
    Averaging,
    Checkpoint,
    load_optimizer,
    random_state,
    set_random_state,
    split_optimizer,
)
from structattn.training.history import History, HistoryRow, ProgressWatcher, Watcher, format_short, open_curves
from structattn.training.optimization import build_optimizer, build_schedule
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.run_folder import RunFolder
from structattn.training.sampler import BatchSampler

BATCH_OPTIONS = "optimization.batch_size or data.max_length"
"""The options that make a batch smaller, as errors name them."""
LOGGER = logging.getLogger("structattn.training")


def _nothing() -> None:
    """Keep nothing, for a model that is not evaluated."""


@dataclass(frozen=True)
class Measured:
    """What ``Learner.measure`` returns: one row of the history of a run, ``metrics.jsonl``, is made of it.

    Attributes:
        metrics: how good the model is; one of them decides which evaluation is the best, and those of the best model
            are the metrics of the run.
        values: anything else that is to be in the history and the tracker, such as an entropy or a speed.
        keep: keeps the model that was evaluated; called at once if it is the best so far.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    keep: Callable[[], None] = _nothing


@runtime_checkable
class Learner(Protocol):
    """A model to train: where its examples come from, which loss is minimised, and how it is evaluated.

    After each evaluation, ``metrics.jsonl`` gets a row: ``step``, ``epoch``, ``seconds`` and ``is_best``; what
    ``measure`` returned as ``metrics`` and as ``values``; and as ``training`` the mean ``loss`` since the last
    evaluation, the ``learning_rate`` and the norm of the last gradient before it was clipped, ``grad_norm``. To log
    another value, return it from ``measure``. A tracker gets the same under ``dev/NAME`` and ``train/NAME``.

    Attributes:
        module: the module whose parameters are trained, if they require gradients.
    """

    module: nn.Module

    def batch(self, rows: list[int]) -> Any:
        """The training examples with these indices, as tensors."""
        ...

    def loss(self, module: nn.Module, batch: Any) -> Tensor:
        """The mean loss of a batch on the right device.

        Args:
            module: ``self.module``, wrapped for several processes; only its ``forward`` may be called.
            batch: a batch that ``batch`` returned.
        """
        ...

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch, counted from 0, and before the rest of a resumed one; does nothing by default."""
        return

    def measure(self) -> Measured:
        """Evaluate the module as it is; by default there is nothing to measure."""
        return Measured()


def fit(
    learner: Learner,
    sampler: BatchSampler,
    config: OptimizationConfig,
    *,
    folder: RunFolder,
    accelerator: Any,
    metric: Metric | None = None,
    clipped: Iterable[nn.Parameter] | None = None,
    measure_first: bool = False,
) -> History:
    """Train to the end, from the last checkpoint in the run folder if there is one.

    Args:
        learner: the model to train; it has the parameters of the last step afterwards.
        sampler: yields the indices of the examples of each batch.
        config: optimiser, schedule and batches.
        folder: the run folder, which the run has locked; for the history and the checkpoint.
        accelerator: an ``accelerate.Accelerator``.
        metric: decides which evaluation is the best; the latest one if ``None``.
        clipped: the parameters whose gradients are clipped by their joint norm; those of the optimizer, in its order,
            if ``None``. The order affects the last bit of the norm.
        measure_first: also evaluate before the first step.

    Returns:
        The evaluations.

    Raises:
        StructAttnError: if the loss is not finite.
        ParseError: if a file of the checkpoint is missing or damaged; the message names it.
    """
    return _Loop(learner, sampler, config, folder, accelerator, metric, clipped).run(measure_first)


class _Loop:
    def __init__(
        self,
        learner: Learner,
        sampler: BatchSampler,
        config: OptimizationConfig,
        folder: RunFolder,
        accelerator: Any,
        metric: Metric | None,
        clipped: Iterable[nn.Parameter] | None,
    ) -> None:
        self.learner = learner
        self.sampler = sampler
        self.config = config
        self.folder = folder
        self.accelerator = accelerator
        self.history = History(metric)
        self.averaging = Averaging(config.average)
        self.is_sharded = distributed.is_sharded(accelerator)
        trained = learner.module.to(accelerator.device)
        if self.is_sharded:
            trained = distributed.copy_to_shard(trained)
        optimizer = build_optimizer(trained, config)
        in_order = (parameter for group in optimizer.param_groups for parameter in group["params"])
        self.clipped = list(in_order if clipped is None else clipped)
        self.module, self.optimizer = accelerator.prepare(trained, optimizer)
        if self.is_sharded:  # shards are other parameters, and accelerate wants all of them at once
            self.clipped = list(self.module.parameters())
        self.steps = -(-len(sampler) // config.gradient_accumulation)
        self.schedule = build_schedule(self.optimizer, config, num_steps=self.steps * config.epochs)
        every = max(round(config.evaluations_per_epoch), 1)
        self.evaluated_steps = {round(self.steps * part / every) for part in range(1, every + 1)} - {0}
        self.epochs_between_evaluations = max(round(1 / config.evaluations_per_epoch), 1)
        self.step = self.logged = 0
        self.loss = torch.zeros((), device=accelerator.device)
        self.norm: float | Tensor | None = None
        self.rate: float = config.learning_rate
        self.started = time.monotonic()
        self.watchers: list[Watcher] = []

    def run(self, measure_first: bool) -> History:
        self._restore()
        if distributed.is_first_process():
            if self.history.rows or self.folder.metrics.is_file():
                # What was logged after the last checkpoint will be logged again.
                self.history.write(self.folder.metrics)
            begun = time.monotonic()
            total = self.steps * self.config.epochs
            progress = open_progress(total, done=self.step, unit="step", logger=LOGGER)
            self.watchers = [ProgressWatcher(progress), *open_curves(self.accelerator, self.folder)]
            self.started += time.monotonic() - begun  # connecting to a tracker does not count as training
        if measure_first and not self.history.rows:
            self._evaluate(loss=None)
        try:
            while not self._is_over():
                epoch, done = divmod(self.step, self.steps)
                self.sampler.set_epoch(epoch)
                self.learner.begin_epoch(epoch)
                for batches in itertools.islice(self._batches(), done, None):
                    self._take_step(batches)
                    if self._is_evaluated():
                        self._evaluate(self._mean_loss())
                        self._save()
                        if self._is_over():
                            break
        finally:
            for watcher in self.watchers:
                watcher.close()
            self.accelerator.unwrap_model(self.module, keep_fp32_wrapper=False)
        if distributed.is_first_process() and self.history.metric is not None:
            name, best, last = self.history.metric.name, self.history.best, self.history.last
            value = format_short(best.metrics[name])
            LOGGER.info("best: %s %s in epoch %g of %g", name, value, best.epoch, last.epoch)
        return self.history

    def _is_last(self) -> bool:
        return self.step >= self.steps * self.config.epochs

    def _is_over(self) -> bool:
        return self._is_last() or self.history.has_run_out(self.config.patience)

    def _is_evaluated(self) -> bool:
        epoch, step = divmod(self.step - 1, self.steps)
        is_due = (epoch + 1) % self.epochs_between_evaluations == 0 or self._is_last()
        return is_due and step + 1 in self.evaluated_steps

    def _batches(self) -> Iterator[list[list[int]]]:
        """The batches of each step of an epoch."""
        remaining = iter(self.sampler)
        while batches := list(itertools.islice(remaining, self.config.gradient_accumulation)):
            yield batches

    def _take_step(self, batches: Sequence[list[int]]) -> None:
        rows = [row for rows in batches for row in rows]
        with explain_memory(len(rows), max(int(self.sampler.lengths[row]) for row in rows), options=BATCH_OPTIONS):
            self._add_gradients(batches)
        self.norm = distributed.whole_tensor(
            self.accelerator.clip_grad_norm_(self.clipped, self.config.clip or math.inf)
        )
        self.optimizer.step()
        self.rate = float(self.schedule.get_last_lr()[0])
        if not self.accelerator.optimizer_step_was_skipped:
            self.schedule.step()
        self.optimizer.zero_grad()
        self.step += 1
        for watcher in self.watchers:
            watcher.step()

    def _add_gradients(self, batches: Sequence[list[int]]) -> None:
        send = require("accelerate", "train").utils.send_to_device
        for number, rows in enumerate(batches, start=1):
            batch = send(self.learner.batch(rows), self.accelerator.device)
            is_last = number == len(batches)
            # Processes exchange the gradient once per step.
            with nullcontext() if is_last else self.accelerator.no_sync(self.module):
                with self.accelerator.autocast():
                    loss = self.learner.loss(self.module, batch) / len(batches)
                self.accelerator.backward(loss)
            self.loss += loss.detach()

    def _mean_loss(self) -> float:
        """The mean over the steps since the last evaluation."""
        mean: float = self.accelerator.gather(self.loss).mean().item() / (self.step - self.logged)
        if not math.isfinite(mean):
            raise StructAttnError(
                f"the training loss is {mean} at step {self.step}; "
                "try a lower learning rate, a clip or no mixed precision"
            )
        self.loss.zero_()
        self.logged = self.step
        return mean

    def _evaluate(self, loss: float | None) -> None:
        if self.is_sharded:
            distributed.fill_from_shards(self.learner.module, self.module)
        norm = None if self.norm is None else float(self.norm)
        with self.averaging.apply_mean(self.learner.module), self.accelerator.autocast():
            measured = self.learner.measure()
            self.history.add(
                HistoryRow(
                    self.step,
                    round(self.step / self.steps, 4),
                    {"loss": loss, "learning_rate": self.rate, "grad_norm": norm},
                    dict(measured.metrics),
                    dict(measured.values),
                    round(time.monotonic() - self.started, 2),
                )
            )
            row = self.history.last
            if distributed.is_first_process() and row.is_best:
                measured.keep()
        if distributed.is_first_process():
            self.history.write(self.folder.metrics)
            LOGGER.info("%s", self.history.describe_last())
        for watcher in self.watchers:
            watcher.evaluated(row)

    def _save(self) -> None:
        states = distributed.gather([random_state()])
        optimizer = distributed.whole_state(self.optimizer)
        if not distributed.is_first_process():
            return
        tensors, optimizer_values = split_optimizer(optimizer)
        values = {
            "step": self.step,
            "schedule": self.schedule.state_dict(),
            "scaler": self.accelerator.scaler and self.accelerator.scaler.state_dict(),
            "random": states,
            "optimizer": optimizer_values,
            "history": [dataclasses.asdict(row) for row in self.history.rows],
        }
        groups = {"model": self.learner.module.state_dict(), "optimizer": tensors, **self.averaging.groups()}
        Checkpoint(self.folder.checkpoint, groups, values).write()

    def _restore(self) -> None:
        file = self.folder.checkpoint
        if not file.is_file():
            return
        checkpoint = Checkpoint.read(file)
        fill_model(self.learner.module, checkpoint.group("model"), file)
        if self.is_sharded:
            distributed.fill_shards(self.module, self.learner.module)
        with naming_description(file, "the state of a run"):
            states = checkpoint.values
            self.history.rows = [HistoryRow(**row) for row in states["history"]]
            load_optimizer(self.optimizer, checkpoint.group("optimizer"), states["optimizer"])
            self.averaging.restore(checkpoint, self.accelerator.device)
            self.schedule.load_state_dict(states["schedule"])
            if (scaler := states["scaler"]) is not None and self.accelerator.scaler is not None:
                self.accelerator.scaler.load_state_dict(scaler)
            self.step = self.logged = int(states["step"])
            self.started -= self.history.last.seconds
            set_random_state(states["random"][distributed.process_index() % len(states["random"])])
        if len(states["random"]) != distributed.num_processes():
            self._share_anew(len(states["random"]))

    def _share_anew(self, processes: int) -> None:
        """Continue from the same place in the epoch, whose step depends on the number of processes."""
        self.step = self.logged = round(self.history.last.epoch * self.steps)
        self.schedule.last_epoch = self.step - 1
        self.schedule.step()
        if distributed.is_first_process():
            LOGGER.warning(
                "a run of %d processes is resumed with %d: weights, optimizer, history and the place in the epoch are "
                "kept; the size and number of steps, their batches and the random draws change, so the result differs "
                "from that of an uninterrupted run",
                processes,
                distributed.num_processes(),
            )
