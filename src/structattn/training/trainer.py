"""A subclass of ``transformers.Trainer`` with this library's batches and evaluation, and exactly resumable checkpoints.

The Trainer provides the loop, gradient clipping, mixed precision and several processes. Its own evaluation and saving
are off; a callback asks for both at fixed steps, and the methods it then calls are overridden here. Inheriting from its
concrete class is how it is meant to be extended.

Exact resumption rests on three things. A checkpoint is written after each evaluation and put in place by renaming it.
The order of the examples follows from seed and epoch alone. And the best model and the patience are read off the
history of evaluations (``history.py``).
"""

import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import get_last_checkpoint

from structattn.data import Example
from structattn.data.tensors import load_tensors, save_tensors
from structattn.syntax.errors import StructAttnError
from structattn.syntax.folders import read_json, read_json_lines, remove, replaced_folder, write_json, write_json_lines
from structattn.training import processes
from structattn.training.averaging import Averaging
from structattn.training.callbacks import Progress, Schedule, short, tensorboard
from structattn.training.checkpoint import save
from structattn.training.config_parts import OptimizationConfig
from structattn.training.folder import RunFolder
from structattn.training.history import History
from structattn.training.latent import tree_entropy
from structattn.training.optimization import build_optimizer, build_schedule
from structattn.training.predictions import write_predictions
from structattn.training.sampler import BatchSampler, LengthBatchSampler, TokenBatchSampler
from structattn.training.state import check_checkpoint, load_optimizer, random_state, save_optimizer, set_random_state
from structattn.training.trained_model import TrainedModel

LOGGER = logging.getLogger("structattn.training")
_WEIGHTS, _HISTORY, _PLAIN = "model.safetensors", "history.jsonl", "states.json"
# Number of development examples over which the entropy of latent trees is averaged.
_LOOKED_AT = 500


def fit(
    model: TrainedModel,
    train: Sequence[Example],
    *,
    dev: Sequence[Example],
    config: OptimizationConfig,
    folder: RunFolder,
    seed: int,
    device: str | None = None,
    resume: bool = False,
) -> History:
    """Train a model; leave the best one, the history and the best predictions in the run folder.

    Args:
        model: the model, which holds the parameters of the last step afterwards.
        train: the training examples.
        dev: the examples that select the best model.
        config: optimisation options.
        folder: the run folder, locked by this run.
        seed: of dropout and of the order of the examples.
        device: ``"cpu"`` to leave a GPU alone.
        resume: continue from the last checkpoint, if there is one.

    Raises:
        StructAttnError: if the loss is not finite any more.
    """
    arguments = TrainingArguments(
        output_dir=str(folder.checkpoints),
        per_device_train_batch_size=config.batch_size,
        num_train_epochs=config.epochs,
        max_grad_norm=config.clip or 0.0,
        bf16=config.mixed_precision == "bf16",
        fp16=config.mixed_precision == "fp16",
        seed=seed,
        use_cpu=device == "cpu" or not torch.cuda.is_available(),
        eval_strategy="no",
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
        # Which parameters take part may depend on the trees of a batch.
        ddp_find_unused_parameters=True,
    )
    # Several GPUs are used by several processes; torch's DataParallel cannot split our batches.
    arguments._n_gpu = min(1, arguments.n_gpu)
    trainer = _Trainer(model, train, dev=dev, optimization=config, folder=folder, arguments=arguments)
    checkpoint = get_last_checkpoint(str(folder.checkpoints)) if resume and folder.checkpoints.is_dir() else None
    if checkpoint is not None:
        check_checkpoint(Path(checkpoint))
        trainer.history.rows = list(read_json_lines(Path(checkpoint) / _HISTORY))
        trainer.started -= trainer.history.last["seconds"]
        trainer.averaging.load(Path(checkpoint), trainer.args.device)
    if processes.is_first():
        # What was logged after the last checkpoint will be logged again.
        write_json_lines(folder.metrics, trainer.history.rows)
    if not trainer.history.has_run_out(config.patience):
        trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.history


class _Trainer(Trainer):  # type: ignore[misc]  # transformers is untyped here
    optimizer: Any
    lr_scheduler: Any
    control: Any

    def __init__(
        self,
        model: TrainedModel,
        train: Sequence[Example],
        *,
        dev: Sequence[Example],
        optimization: OptimizationConfig,
        folder: RunFolder,
        arguments: TrainingArguments,
    ) -> None:
        self.trained = model
        self.dev = dev
        self.optimization = optimization
        self.folder = folder
        self.history = History(model.task.main_metric)
        self.averaging = Averaging(optimization.average)
        lengths = [model.size_of(example) for example in train]
        share = {"seed": arguments.seed, "process": processes.index(), "processes": processes.count()}
        self.sampler: BatchSampler = (
            LengthBatchSampler(lengths, optimization.batch_size, **share)
            if optimization.batch_tokens is None
            else TokenBatchSampler(lengths, optimization.batch_tokens, **share)
        )
        self.started = time.monotonic()
        self._latest: dict[str, float] = {}
        callbacks: list[TrainerCallback] = [Schedule(model, self.sampler, optimization.evaluations_per_epoch)]
        if processes.is_first():
            callbacks += [Progress(), *tensorboard(folder.path / "tensorboard")]
        super().__init__(model.module, arguments, train_dataset=train, callbacks=callbacks)
        self.remove_callback(PrinterCallback)

    # Batches, optimizer and loss.

    def get_train_dataloader(self) -> DataLoader[Any]:
        collate = self.trained.model.collate
        # The loader would draw a seed from torch's generator each epoch; its own generator leaves that one alone.
        return DataLoader(
            self.train_dataset,  # type: ignore[arg-type]  # a sequence is all that it asks for
            batch_sampler=self.sampler,
            collate_fn=lambda items: {"batch": collate(items)},
            generator=torch.Generator(),
        )

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            self.optimizer = build_optimizer(self.trained.module, self.optimization)
        optimizer: torch.optim.Optimizer = self.optimizer
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        if self.lr_scheduler is None:
            self.lr_scheduler = build_schedule(self.optimizer, self.optimization, num_steps=num_training_steps)
        return self.lr_scheduler

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        batch = inputs["batch"].to(self.args.device)
        return self.trained.model.loss_of(model(batch), batch)

    # Evaluation.

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        self._latest = dict(logs)
        super().log(logs, *args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        loss = self._latest.get("loss", 0.0)
        if not math.isfinite(loss):
            raise StructAttnError(
                f"the training loss is {loss} at step {self.state.global_step}; "
                "try a lower learning rate, a clip or no mixed precision"
            )
        with self.averaging.mean_of(self.trained):
            return self._measured(loss)

    def _measured(self, loss: float) -> dict[str, float]:
        own = self.trained.model.predict(self.dev[processes.index() :: processes.count()])
        evaluation = self.trained.model.measure(self.dev, processes.gathered(own))
        entropy = tree_entropy(self.trained, self.dev[:_LOOKED_AT])
        self.history.add(
            {
                "step": self.state.global_step,
                "epoch": round(float(self.state.epoch or 0), 4),
                "loss": loss,
                "learning_rate": self._latest.get("learning_rate"),
                **evaluation.metrics,
                **({} if entropy is None else {"tree_entropy": entropy}),
                "seconds": round(time.monotonic() - self.started, 2),
            }
        )
        if processes.is_first():
            if self.history.last["is_best"]:
                write_predictions(self.folder.predictions("dev"), self.dev, evaluation)
                save(self.trained, self.folder.best)
            write_json_lines(self.folder.metrics, self.history.rows)
            LOGGER.info("%s", " ".join(f"{name} {short(value)}" for name, value in self.history.last.items()))
        super().log({f"dev/{name}": value for name, value in evaluation.metrics.items()})
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, dict(evaluation.metrics))
        self.control.should_training_stop |= self.history.has_run_out(self.optimization.patience)
        return dict(evaluation.metrics)

    # Checkpoints: what the Trainer would pickle, as safetensors and JSON.

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        states = processes.gathered([random_state()])
        if not processes.is_first():
            return
        target = self.folder.checkpoints / f"checkpoint-{self.state.global_step}"
        with replaced_folder(target) as temporary:
            save_tensors(self.trained.module.state_dict(), temporary / _WEIGHTS)
            save_optimizer(self.optimizer, temporary)
            self.averaging.save(temporary)
            scaler = self.accelerator.scaler and self.accelerator.scaler.state_dict()
            plain = {"schedule": self.lr_scheduler.state_dict(), "scaler": scaler, "random": states}
            write_json(temporary / _PLAIN, plain)
            write_json_lines(temporary / _HISTORY, self.history.rows)
            self.state.save_to_json(str(temporary / TRAINER_STATE_NAME))
        for other in self.folder.checkpoints.iterdir():
            if other != target:
                remove(other)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load_tensors(self.trained.module, Path(resume_from_checkpoint) / _WEIGHTS)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            load_optimizer(self.optimizer, Path(checkpoint))
            self.lr_scheduler.load_state_dict(read_json(Path(checkpoint) / _PLAIN)["schedule"])

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(read_json(Path(checkpoint) / _PLAIN)["scaler"])

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            states = read_json(Path(checkpoint) / _PLAIN)["random"]
            set_random_state(states[processes.index() % len(states)])
