"""Progress of a run: a bar on terminals, lines in a log file, curves in an experiment tracker."""

import datetime
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from structattn.files.json_yaml import read_yaml
from structattn.training.folder import RunFolder

LOGGER = logging.getLogger("structattn.training")

# Seconds between two lines of a log file.
_EVERY = 10.0


@runtime_checkable
class Watcher(Protocol):
    """Shows the progress of a run."""

    def step(self) -> None:
        """A step was taken."""
        ...

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """The model was evaluated after this many steps."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Bar:
    """A bar on stderr, on terminals only; ``TQDM_DISABLE=1`` turns it off."""

    def __init__(self, done: int, total: int) -> None:
        from tqdm import tqdm  # type: ignore[import-untyped]

        self.bar = tqdm(total=total, initial=done, disable=None, unit="step", dynamic_ncols=True)

    def step(self) -> None:
        """As ``Watcher``."""
        self.bar.update(1)

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """As ``Watcher``."""
        self.bar.set_postfix({name: short(value) for name, value in metrics.items()})

    def close(self) -> None:
        """As ``Watcher``."""
        self.bar.close()


class Lines:
    """A line in the log every ten seconds, where there is no terminal for a bar.

    Args:
        done: steps already taken.
        total: steps of the whole run, if it does not stop early.
        clock: returns the time in seconds.
    """

    def __init__(self, done: int, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.done = self.first = done
        self.total = total
        self.clock = clock
        self.started = self.logged = clock()

    def step(self) -> None:
        """As ``Watcher``."""
        self.done += 1
        now = self.clock()
        if now - self.logged >= _EVERY:
            self.logged = now
            taken = now - self.started
            left = taken / (self.done - self.first) * (self.total - self.done)
            LOGGER.info(
                "step %s of %s (%.0f %%), %s so far, at most about %s left",
                f"{self.done:,}",
                f"{self.total:,}",
                100 * self.done / self.total,
                _clock_time(taken),
                _clock_time(left),
            )

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """Do nothing: every evaluation has a line of its own."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


class Curves:
    """Curves in one of accelerate's experiment trackers."""

    def __init__(self, tracker: Any) -> None:
        self.tracker = tracker

    def step(self) -> None:
        """Do nothing: one point per evaluation is enough."""

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """As ``Watcher``."""
        named = {f"train/{name}": value for name, value in training.items() if value is not None}
        self.tracker.log({**named, **{f"dev/{name}": value for name, value in metrics.items()}}, step=step)

    def close(self) -> None:
        """As ``Watcher``."""
        self.tracker.finish()


def bar_or_lines(done: int, total: int) -> Bar | Lines:
    """A bar on a terminal, lines elsewhere.

    Args:
        done: steps already taken.
        total: steps of the whole run.
    """
    return Bar(done, total) if sys.stderr.isatty() else Lines(done, total)


def curves(accelerator: Any, folder: RunFolder) -> list[Curves]:
    """Curves in the tracker that an ``accelerate.Accelerator`` was made with, if any, with the run's configuration.

    Args:
        accelerator: the run's Accelerator.
        folder: run folder, for the files of the tracker.
    """
    if not accelerator.log_with:
        return []
    accelerator.project_configuration.logging_dir = str(folder.path)
    config = dict(_flat(read_yaml(folder.config))) if folder.config.is_file() else {}
    (name,) = map(str, accelerator.log_with)
    # TensorBoard uses the name of the project as the name of a folder.
    project = name if name == "tensorboard" else "structattn"
    place = {"dir": str(folder.path), "name": str(folder.path)}
    accelerator.init_trackers(project, config, {"wandb": place} if name == "wandb" else {})
    return [Curves(tracker) for tracker in accelerator.trackers]


def _flat(values: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a configuration by their option names; lists become text, as trackers take plain values."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{section}{name}.")
        else:
            yield f"{section}{name}", str(value) if isinstance(value, list) else value


def _clock_time(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


def short(value: Any) -> str:
    """A value with four significant digits.

    Example:
        >>> short(0.123456), short(3)
        ('0.1235', '3')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)
