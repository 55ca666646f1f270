"""Callbacks of the Trainer: the schedule of evaluation and saving, the progress bar, TensorBoard's curves."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.integrations import TensorBoardCallback

from structattn.training.sampler import BatchSampler
from structattn.training.trained_model import TrainedModel


class Schedule(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Requests log, evaluation and checkpoint at evenly spaced steps; notifies sampler and model of each new epoch."""

    def __init__(self, model: TrainedModel, sampler: BatchSampler, evaluations: int) -> None:
        self.model = model
        self.sampler = sampler
        steps = len(sampler)
        self.steps = {round(steps * part / evaluations) for part in range(1, evaluations + 1)} - {0}

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Notify the sampler and the model."""
        epoch = state.global_step // len(self.sampler)
        self.sampler.set_epoch(epoch)
        self.model.set_epoch(epoch)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Request them at one of the steps."""
        if (state.global_step - 1) % len(self.sampler) + 1 in self.steps:
            control.should_log = control.should_evaluate = control.should_save = True


class Progress(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """A bar on stderr, on terminals only; ``TQDM_DISABLE=1`` turns it off."""

    def __init__(self) -> None:
        self.bar: Any = None

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Draw the bar."""
        from tqdm import tqdm  # type: ignore[import-untyped]

        self.bar = tqdm(total=state.max_steps, initial=state.global_step, disable=None, unit="step", dynamic_ncols=True)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Advance by one step."""
        self.bar.update(1)

    def on_evaluate(
        self, args: Any, state: TrainerState, control: TrainerControl, metrics: Any = None, **kwargs: Any
    ) -> None:
        """The latest metrics beside the bar."""
        self.bar.set_postfix({name: short(value) for name, value in metrics.items()})

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Leave the bar as it is."""
        self.bar.close()


def tensorboard(folder: Path) -> list[TrainerCallback]:
    """Curves for TensorBoard, where it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return []
    return [TensorBoardCallback(SummaryWriter(str(folder)))]


def short(value: Any) -> str:
    """A metric in few digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
