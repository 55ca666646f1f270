"""A queue of runs: one process each, several at a time, interruptible at any moment, with the estimated time left."""

import contextlib
import dataclasses
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from structattn.errors import ConfigError, StructAttnError
from structattn.files.json_yaml import read_yaml
from structattn.training import RunFolder
from structattn_papers.reproduction.checks import Check, append_check, check
from structattn_papers.reproduction.golden import golden_output, golden_step, same_step
from structattn_papers.reproduction.records import (
    Record,
    append_record,
    code_version,
    is_present,
    processor,
    read_records,
    record_of,
)
from structattn_papers.reproduction.rows import Row
from structattn_papers.reproduction.studies import record_of_study

LOGGER = logging.getLogger("structattn.papers")
# Seconds between two checks of the processes, between two signals to stop one, and until it is killed.
_PAUSE = 0.2
_AGAIN = 2.0
_PATIENCE = 60.0


@dataclass(frozen=True)
class Job:
    """One run of a row; without a seed, the writing of the row's file."""

    row: Row
    seed: int | None

    def __str__(self) -> str:
        return str(self.row) if self.seed is None else f"{self.row} seed {self.seed}"


@dataclass(frozen=True)
class Progress:
    """What the queue reports when a run has ended.

    Attributes:
        job: the job that has ended.
        record: its record; ``None`` if it failed, or wrote a file.
        check: it beside its record on file, in a queue that checks.
        failure: why it failed.
        done: number of runs that have ended.
        total: number of runs in the queue.
        left: estimated seconds until all have ended, from the times of recorded runs; ``None`` if there are none.
    """

    job: Job
    record: Record | None
    failure: str | None
    done: int
    total: int
    left: float | None
    check: Check | None = None


class Queue:
    """Runs of rows that are not recorded yet.

    An interrupted run is resumed; a finished one is only recorded. A run is repeated if its row's configuration or
    golden output has changed since it was recorded.

    A queue that checks runs the recorded runs again, in folders of their own, and leaves the records as they are.

    Attributes:
        jobs: the runs that are left to do.
        drifted: recorded runs whose model takes another training step now, in its last bits at least.
        num_finished: number of runs that are recorded.
        waiting: rows whose options a study has yet to choose; a queue that is made after the study has them among its
            jobs.

    Args:
        rows: the rows, each after those that it needs.
        seeds: the seeds of each row; its own if ``None``. Studies, and rows that other rows of the queue read, keep
            their own, as the other rows use one choice or one folder.
        places: the folder of each place.
        out: folder for all run folders.
        is_check: whether recorded runs are run again, rather than those without a record.
        program: the command that runs this package.

    Raises:
        ConfigError: if a row needs a place that is not given.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        seeds: Sequence[int] | None,
        places: Mapping[str, str],
        out: str | os.PathLike[str],
        is_check: bool = False,
        program: Sequence[str] = (sys.executable, "-m", "structattn"),
    ) -> None:
        self._program = list(program)
        self._version = code_version()
        # Runs that were checked with one version are no check of the next.
        self._out = Path(out).absolute() / (f"check-{self._version.replace(' ', '-')}" if is_check else "")
        self._is_check = is_check
        self._places = {name: os.path.abspath(path) for name, path in places.items()}
        self._rows = list(rows)
        self._usage: dict[Job, float] = {}
        self._is_whole: dict[Job, bool] = {}
        self._held = set[Job]()
        self.drifted: list[Job] = []
        self.waiting = [row for row in rows if row.waits_for is not None]
        rows = [row for row in rows if row.waits_for is None and not (is_check and row.space is not None)]
        for row in rows:
            row.words(self._places_of(row))
        self._golden = {str(row): golden_output(row) for row in rows}
        self._steps: dict[str, Mapping[str, Any] | None] = {}
        self._seconds = {str(row): [record.seconds for record in read_records(row)] for row in rows}
        self.jobs: list[Job] = []
        self.num_finished = 0
        for row in rows:
            for seed in self._seeds_of(row, seeds):
                job = Job(row, seed)
                record = self._record_on_file(job)
                if record is not None and not self._takes_step(record, row):
                    self.drifted.append(job)
                if self._is_to_do(job, record):
                    self.jobs.append(job)
                else:
                    self.num_finished += 1

    def work(self, *, processes: int = 1, hours: float | None = None) -> Iterator[Progress]:
        """Run the jobs of the queue.

        When time is up, or on an interruption, the runs in progress are stopped; the next call continues them.

        Args:
            processes: number of runs at a time, each on one core.
            hours: hours after which to stop; no limit if ``None``.

        Yields:
            The progress after each run that has ended.

        Raises:
            KeyboardInterrupt: if this process is interrupted or terminated; the runs are stopped first.
        """
        end = time.monotonic() + (hours or 1e9) * 3600
        waiting, running = list(self.jobs), dict[Job, subprocess.Popen[bytes]]()
        done, failed = 0, set[str]()
        with _noting_interruptions() as interruptions, _stopping(running):
            while (waiting or running) and time.monotonic() < end:
                unfinished = {str(job.row) for job in (*waiting, *running)}
                for job in list(waiting):
                    needed = {f"{job.row.folder.name}/{name}" for name in job.row.needs}
                    if lacking := sorted(needed & failed):
                        waiting.remove(job)
                        done += 1
                        left = self._left(waiting, running, processes)
                        yield Progress(job, None, f"not run, as {lacking[0]} failed", done, len(self.jobs), left)
                    elif len(running) < processes and not needed & unfinished and not self._is_held(job):
                        waiting.remove(job)
                        running[job] = self._start(job)
                time.sleep(_PAUSE)
                if interruptions:
                    raise KeyboardInterrupt
                for job in [job for job, process in running.items() if self._has_ended(job, process)]:
                    code = running.pop(job).returncode
                    done += 1
                    record, checked, failure = self._collect(job, code)
                    if failure is not None and job.seed in (None, *job.row.seeds[:1]):
                        failed.add(str(job.row))  # Other rows read the first seed's folder.
                    left = self._left(waiting, running, processes)
                    yield Progress(job, record, failure, done, len(self.jobs), left, checked)

    @property
    def seconds(self) -> float | None:
        """Estimated seconds of one core for all jobs; ``None`` if no run of these rows is recorded."""
        return self._left(self.jobs, {}, 1)

    def folder(self, job: Job) -> Path:
        """The run folder of a job; the folder of the row itself if it writes a file."""
        place = self._out / job.row.folder.name / job.row.name
        return place if job.seed is None else place / f"seed{job.seed}"

    def _places_of(self, row: Row) -> dict[str, str]:
        by_name = {one.name: one for one in self._rows if one.folder == row.folder}
        needed = {
            f"run:{name}": str(self.folder(Job(by_name[name], next(iter(by_name[name].seeds), None))))
            for name in row.needs
        }
        return {**self._places, **needed}

    def _is_needed(self, row: Row) -> bool:
        return any(row.name in other.needs for other in self._rows if other.folder == row.folder)

    def _seeds_of(self, row: Row, seeds: Sequence[int] | None) -> Sequence[int | None]:
        if row.command == "parse":
            return [None]
        return row.seeds if seeds is None or row.space is not None or self._is_needed(row) else seeds

    def _record_on_file(self, job: Job) -> Record | None:
        """The latest record of a run with the row's present configuration and model."""
        golden = self._golden[str(job.row)]
        records = [record for record in read_records(job.row) if record.seed == job.seed]
        return next((record for record in reversed(records) if is_present(record, job.row, golden)), None)

    def _is_to_do(self, job: Job, record: Record | None) -> bool:
        if job.row.writes is not None:
            return not (self.folder(job) / job.row.writes).is_file()
        is_missing = self._is_needed(job.row) and not RunFolder(self.folder(job)).is_finished
        return is_missing or (record is None) is not self._is_check

    def _step(self, row: Row) -> Mapping[str, Any] | None:
        """The present training step of a row, computed when it is first compared or recorded."""
        if str(row) not in self._steps:
            self._steps[str(row)] = golden_step(row)
        return self._steps[str(row)]

    def _takes_step(self, record: Record, row: Row) -> bool:
        same_machine = processor() in record.machine
        return record.step is None or same_step(record.step, self._step(row), same_machine=same_machine)

    def _has_ended(self, job: Job, process: "subprocess.Popen[bytes]") -> bool:
        """Whether a process has ended, and what it cost the processor."""
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            self._usage[job] = round(usage.ru_utime + usage.ru_stime, 1)
        return bool(ended)

    def _is_held(self, job: Job) -> bool:
        """Whether another process, such as a second queue, works in the folder of a job; it is waited for, and said."""
        folder = RunFolder(self.folder(job))
        if job.row.writes is not None or not folder.path.is_dir():
            return False
        try:
            with folder.claimed():
                return False
        except ConfigError as error:
            if job not in self._held:
                self._held.add(job)
                LOGGER.info("%s waits: %s", job, error)
            return True

    def _start(self, job: Job) -> subprocess.Popen[bytes]:
        folder = self.folder(job)
        places = self._places_of(job.row)
        words = [*self._program, *job.row.words(places)]
        if job.row.writes is not None:
            folder.mkdir(parents=True, exist_ok=True)
            words += ["--out", str(folder / job.row.writes)]
        elif job.row.space is not None:
            # A study resumes by itself.
            words += ["--seed", str(job.seed), "--out", str(folder)]
        else:
            again = self._again(job, places)
            words += ["--seed", str(job.seed), "--out", str(folder), *again]
            self._is_whole[job] = again != ["--resume"]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log(job), "wb") as log:
            # A session of its own, so that an interruption reaches the run only from this process, and only once.
            return subprocess.Popen(
                die_with_parent(words),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={"OMP_NUM_THREADS": "1", **os.environ},
            )

    def _again(self, job: Job, places: Mapping[str, str]) -> list[str]:
        """The option for a folder with a run in it: resume a run with the same configuration, or replace another."""
        folder = RunFolder(self.folder(job))
        if not folder.config.is_file():
            return []
        is_same = job.row.digest_of(read_yaml(folder.config), places) == job.row.digest
        # A finished run whose record is older than the model must be repeated.
        # Nor does a check with uncommitted changes say which ones it was made with.
        is_older = folder.is_finished and (
            self._version.endswith("+")
            if self._is_check
            else any(record.seed == job.seed for record in read_records(job.row))
        )
        return ["--resume"] if is_same and not is_older else ["--overwrite"]

    def _collect(self, job: Job, code: int) -> tuple[Record | None, Check | None, str | None]:
        if code != 0:
            return None, None, _last_line(self._log(job)) or f"ended with code {code}"
        if job.seed is None:
            return None, None, None
        folder, places = self.folder(job), self._places_of(job.row)
        try:
            if job.row.space is not None:
                record = record_of_study(job.row, job.seed, folder, places=places)
            else:
                record = dataclasses.replace(
                    record_of(job.row, job.seed, folder, places=places),
                    processor_seconds=self._usage[job] if self._is_whole[job] else None,
                    golden=self._golden[str(job.row)],
                    step=self._step(job.row),
                )
        except StructAttnError as error:
            return None, None, str(error)
        checked = None
        if not self._is_check:
            append_record(job.row, record)
        elif (before := self._record_on_file(job)) is not None:
            checked = check(job.row, before, record)
            append_check(job.row, checked)
        self._seconds[str(job.row)].append(record.seconds)
        return record, checked, None

    def _left(
        self, waiting: Sequence[Job], running: Mapping[Job, subprocess.Popen[bytes]], processes: int
    ) -> float | None:
        known = {name: mean(seconds) for name, seconds in self._seconds.items() if seconds}
        if not known:
            return None
        usual = mean(known.values())
        seconds = sum(known.get(str(job.row), usual) for job in waiting)
        # Running jobs count half, as they are somewhere in the middle.
        return (seconds + sum(known.get(str(job.row), usual) for job in running) / 2) / processes

    def _log(self, job: Job) -> Path:
        folder = self.folder(job)
        return folder.with_name(f"{folder.name}.log")


# Linux alone tells a process that its parent has ended, whatever ended it; elsewhere ``_is_held`` is what helps.
_DIE = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


def die_with_parent(words: Sequence[str]) -> list[str]:
    """A command that is killed when this process ends, even by ``kill -9``; a run that is killed can be resumed."""
    return [sys.executable, "-c", _DIE, str(os.getpid()), *words]


@contextlib.contextmanager
def _stopping(running: dict[Job, subprocess.Popen[bytes]]) -> Iterator[None]:
    """Stop running jobs at the end, as Ctrl-C would, so that nothing is half written; again if a signal got lost."""
    try:
        yield
    finally:
        deadline = time.monotonic() + _PATIENCE
        while left := [process for process in running.values() if process.poll() is None]:
            for process in left:
                if time.monotonic() < deadline:
                    process.send_signal(signal.SIGINT)
                else:
                    process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                left[0].wait(_AGAIN)


@contextlib.contextmanager
def _noting_interruptions() -> Iterator[list[int]]:
    """Note signals to stop for later: only between two of its steps does a queue know what it has started."""
    noted: list[int] = []
    before: dict[int, Callable[..., object] | int | None] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        for stopping, handler in before.items():
            signal.signal(stopping, handler)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
