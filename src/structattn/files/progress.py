"""The progress of long work: a bar on a terminal, lines in the log elsewhere."""

import contextlib
import datetime
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from structattn.files.text import escape_controls

_SECONDS = 10.0  # between two lines of the log


class Bar:
    """A bar on stderr; ``TQDM_DISABLE=1`` turns it off."""

    def __init__(self, total: int | None, *, done: int = 0, unit: str) -> None:
        from tqdm import tqdm  # type: ignore[import-untyped]

        self.bar = tqdm(total=total, initial=done, unit=unit, dynamic_ncols=True)

    def update(self) -> None:
        """One more is done."""
        self.bar.update(1)

    def show(self, values: dict[str, Any]) -> None:
        """Write values beside the bar."""
        self.bar.set_postfix(values)

    def close(self) -> None:
        """Leave the bar as it is."""
        self.bar.close()


class Lines:
    """A line in the log every ten seconds."""

    def __init__(
        self,
        total: int | None,
        *,
        done: int = 0,
        unit: str,
        logger: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = self.first = done
        self.total, self.unit, self.logger, self.clock = total, unit, logger, clock
        self.started = self.logged = clock()

    def update(self) -> None:
        """One more is done."""
        self.done += 1
        now = self.clock()
        if now - self.logged < _SECONDS:
            return
        self.logged = now
        taken = now - self.started
        if self.total is None:
            self.logger.info("%s %s, %s so far", self.unit, f"{self.done:,}", format_time(taken))
            return
        left = taken / (self.done - self.first) * (self.total - self.done)
        self.logger.info(
            "%s %s of %s (%.0f %%), %s so far, at most about %s left",
            self.unit,
            f"{self.done:,}",
            f"{self.total:,}",
            100 * self.done / max(1, self.total),
            format_time(taken),
            format_time(left),
        )

    def show(self, values: dict[str, Any]) -> None:
        """Nothing: values have lines of their own in the log."""

    def close(self) -> None:
        """Nothing."""


Progress = Bar | Lines


def open_progress(total: int | None, *, done: int = 0, unit: str, logger: logging.Logger) -> Progress:
    """A bar on a terminal, lines elsewhere, for ``total`` units of which some are done."""
    if sys.stderr.isatty():
        return Bar(total, done=done, unit=unit)
    return Lines(total, done=done, unit=unit, logger=logger)


def format_time(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(datetime.timedelta(seconds=round(seconds)))


class LogHandler(logging.StreamHandler[Any]):
    """Writes the log to stderr without harm to a bar or to the terminal that shows it."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, after its level if it is a warning or worse."""
        message = super().format(record)
        return f"{record.levelname.lower()}: {message}" if record.levelno >= logging.WARNING else message

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, above a bar if there is one."""
        try:
            line, bars = escape_controls(self.format(record)), sys.modules.get("tqdm")
            if bars is None:
                self.stream.write(f"{line}\n")
            else:
                bars.tqdm.write(line, file=self.stream)
            self.flush()
        except Exception:  # a stream that is closed or full ends no training
            self.handleError(record)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Nothing is logged that is no error, as what a trial finds is said again when it becomes earnest."""
    logger = logging.getLogger("structattn")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
