"""What shows a run while it goes on: a bar on terminals, lines in a log file, curves for TensorBoard."""

import datetime
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from structattn.training.folder import RunFolder

LOGGER = logging.getLogger("structattn.training")

# Seconds between two lines of a log file.
_EVERY = 10.0


@runtime_checkable
class Watcher(Protocol):
    """Shows a run while it goes on."""

    def step(self) -> None:
        """A step was taken."""
        ...

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """The model was evaluated after so many steps."""
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
        done: steps that were taken before.
        total: steps of the whole run, if it does not stop early.
        clock: the time in seconds.
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
        """Nothing: every evaluation has a line of its own."""

    def close(self) -> None:
        """Nothing is open."""


class Curves:
    """Curves for TensorBoard."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def step(self) -> None:
        """Nothing: a point for each evaluation is enough."""

    def evaluated(self, step: int, training: Mapping[str, float | None], metrics: Mapping[str, float]) -> None:
        """As ``Watcher``."""
        for room, values in (("train", training), ("dev", metrics)):
            for name, value in values.items():
                if value is not None:
                    self.writer.add_scalar(f"{room}/{name}", value, step)

    def close(self) -> None:
        """As ``Watcher``."""
        self.writer.close()


def bar_or_lines(done: int, total: int) -> Bar | Lines:
    """A bar on a terminal, lines elsewhere.

    Args:
        done: steps that were taken before.
        total: steps of the whole run.
    """
    return Bar(done, total) if sys.stderr.isatty() else Lines(done, total)


def curves(folder: RunFolder) -> list[Curves]:
    """Curves for TensorBoard, where it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return []
    return [Curves(SummaryWriter(str(folder.path / "tensorboard")))]


def _clock_time(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


def short(value: Any) -> str:
    """A value in four digits.

    Example:
        >>> short(0.123456), short(3)
        ('0.1235', '3')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)
