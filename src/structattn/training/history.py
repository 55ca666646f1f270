"""The evaluations of a run so far, and how they are shown: a bar on a terminal, lines in a log, curves in a tracker.

Best model and patience are derived from the evaluations, without separate counters.
"""

import dataclasses
import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structattn.files.json_yaml import read_yaml, write_json_lines
from structattn.files.progress import Progress
from structattn.tasks import Metric
from structattn.training.run_folder import RunFolder

LOGGER = logging.getLogger("structattn.training")


@dataclass(frozen=True)
class HistoryRow:
    """One evaluation: ``training`` is what training logs by itself, ``values`` what a learner logs beside its metrics.

    ``seconds`` of training precede it, and it ``is_best`` if the metric was better than in all rows before.
    """

    step: int
    epoch: float
    training: Mapping[str, float | None]
    metrics: Mapping[str, float]
    values: Mapping[str, float]
    seconds: float
    is_best: bool = True

    def flat(self) -> dict[str, Any]:
        """All values by their names."""
        values = {"step": self.step, "epoch": self.epoch, **self.training, **self.metrics, **self.values}
        return {**values, "seconds": self.seconds, "is_best": self.is_best}


class History:
    """One row per evaluation, in order; ``metrics.jsonl`` is exactly this.

    The metric decides which evaluation is the best; it is the latest one if there is no metric.
    """

    def __init__(self, metric: Metric | None) -> None:
        self.metric = metric
        self.rows: list[HistoryRow] = []

    def add(self, row: HistoryRow) -> None:
        """Append a row, and mark it if it is the best so far."""
        metric = self.metric
        if metric is not None:
            value, *earlier = (rank_value(each.metrics[metric.name], metric) for each in (row, *self.rows))
            row = dataclasses.replace(row, is_best=all(value > rank for rank in earlier))
        self.rows.append(row)

    @property
    def last(self) -> HistoryRow:
        """The latest row."""
        return self.rows[-1]

    @property
    def best(self) -> HistoryRow:
        """The row of the best model."""
        return next(row for row in reversed(self.rows) if row.is_best)

    def describe_last(self) -> str:
        """The latest row as a line of the log: the learning rate only if it changes, and a mark at the best so far."""
        row = self.last
        values = {name: value for name, value in row.flat().items() if name != "is_best"}
        if len({each.training.get("learning_rate") for each in self.rows}) == 1:
            values.pop("learning_rate", None)
        mark = "  * best so far" if row.is_best and self.metric is not None else ""
        return " ".join(f"{name} {format_short(value)}" for name, value in values.items()) + mark

    def has_run_out(self, patience: int | None) -> bool:
        """Whether the last ``patience`` evaluations brought no improvement; never with ``None``."""
        latest = self.rows[-patience:] if patience else []
        return bool(latest) and not any(row.is_best for row in latest)

    def write(self, file: Path) -> None:
        """Write one JSON object per row."""
        write_json_lines(file, map(dataclasses.asdict, self.rows))


def rank_value(value: float, metric: Metric) -> tuple[bool, float]:
    """A sort key that is greater for better values of a metric; NaN is worse than any number."""
    if math.isnan(value):
        return False, 0.0
    return True, value if metric.greater_is_better else -value


class Watcher:
    """Shows the progress of a run; by default nothing."""

    def step(self) -> None:
        """A step was taken."""

    def evaluated(self, row: HistoryRow) -> None:
        """The model was evaluated."""

    def close(self) -> None:
        """The run is over."""


class ProgressWatcher(Watcher):
    """A bar, or lines in the log beside those of evaluations, see ``open_progress``."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def step(self) -> None:
        """Move by one step."""
        self.progress.update()

    def evaluated(self, row: HistoryRow) -> None:
        """Write the metrics beside the bar."""
        self.progress.show({name: format_short(value) for name, value in row.metrics.items()})

    def close(self) -> None:
        """Leave the bar as it is."""
        self.progress.close()


class Curves(Watcher):
    """Curves in one of accelerate's experiment trackers, with a point for each evaluation."""

    def __init__(self, tracker: Any) -> None:
        self.tracker = tracker

    def evaluated(self, row: HistoryRow) -> None:
        """Add a point to each curve."""
        training = {f"train/{name}": value for name, value in row.training.items() if value is not None}
        evaluated = {f"dev/{name}": value for name, value in {**row.metrics, **row.values}.items()}
        self.tracker.log({**training, **evaluated}, step=row.step)

    def close(self) -> None:
        """Send what the tracker has not sent yet."""
        self.tracker.finish()


def open_curves(accelerator: Any, folder: RunFolder) -> list[Curves]:
    """Curves in the tracker that an ``accelerate.Accelerator`` was made with, if any, with the run's configuration.

    TensorBoard and its like write their files into the run folder.
    """
    if not accelerator.log_with:
        return []
    accelerator.project_configuration.logging_dir = str(folder.path)
    config = dict(_flatten(read_yaml(folder.config))) if folder.config.is_file() else {}
    (name,) = map(str, accelerator.log_with)
    # TensorBoard uses the name of the project as the name of a folder.
    project = name if name == "tensorboard" else os.environ.get("WANDB_PROJECT", "structattn")
    settings = {"dir": str(folder.path), "name": os.environ.get("WANDB_NAME", str(folder.path))}
    options = {"wandb": settings} if name == "wandb" else {}
    accelerator.init_trackers(project, config, options)
    return [Curves(tracker) for tracker in accelerator.trackers]


def _flatten(values: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a configuration by their option names; lists become text, as trackers take plain values."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{section}{name}.")
        else:
            yield f"{section}{name}", str(value) if isinstance(value, list) else value


def format_short(value: Any) -> str:
    """A number with four significant digits if it is a fraction; anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
