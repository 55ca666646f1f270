"""``structattn reproduce``: the runs behind published tables, until each has a record."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from structattn.cli import format_metrics
from structattn.errors import ConfigError
from structattn.options.checking import parse_seeds
from structattn_papers import reproduction

if TYPE_CHECKING:
    from structattn_papers.reproduction.queue import Progress


def command(
    paper: list[str],
    *,
    rows: str = "*",
    seeds: str | None = None,
    jobs: int = 1,
    hours: float | None = None,
    places: str = "",
    papers: str = "papers",
    out: str = "runs/reproduction",
    plan: bool = False,
    check: bool = False,
) -> Iterator[str]:
    """Run the rows of papers that have no record yet, and add a line for each run to papers/PAPER/results.

    An interrupted run is resumed when the command is repeated. A finished one is repeated only if its
    configuration or its golden output has changed. With --check, recorded runs are run again in folders of their own,
    beside their records: what differs goes to papers/PAPER/checks.jsonl, and marks the figures of a page.

    Args:
        paper: papers, such as disan, or files of rows.
        rows: names of rows, separated by commas; * matches any characters.
        seeds: seeds in place of the rows' own, such as 1..5 or 1,3,7; studies, and rows that others read, keep theirs.
        jobs: number of runs at a time, each on one core.
        hours: stop after this many hours.
        places: folders that rows read, data=FOLDER,minilm=FOLDER.
        papers: folder of the papers.
        out: folder of the run folders.
        plan: only print the runs to do, and their hours.
        check: run recorded runs again, and compare.
    """
    if jobs < 1 or (hours is not None and hours <= 0):
        raise ConfigError(f"--jobs, --hours: expected at least 1, and a number above 0, got {jobs} and {hours}")
    known = [reproduction.read_rows(one, papers=papers) for one in paper]
    chosen = [row for one in known for row in reproduction.selected(one.values(), rows)]
    numbers = None if seeds is None else parse_seeds(seeds, "--seeds")
    folders = reproduction.parse_places(places)
    queue = reproduction.Queue(chosen, seeds=numbers, places=folders, out=out, is_check=check)
    finished = "without a record" if check else "finished before"
    price = f"; about {_time(queue.seconds)} of one core" if queue.jobs and queue.seconds is not None else ""
    yield f"{len(queue.jobs)} runs of {len(chosen)} rows to do, {queue.num_finished} {finished}{price}"
    if queue.drifted and not check:
        rows_drifted = ", ".join(sorted({str(job.row) for job in queue.drifted}))
        yield f"training takes other steps now than when {rows_drifted} were recorded; --check runs them again"
    if plan:
        yield from (str(job) for job in queue.jobs)
        yield from (f"{row} waits for {row.waits_for}" for row in queue.waiting)
        return
    failed = done = 0
    checks = []
    for progress in queue.work(processes=jobs, hours=hours):
        done = progress.done
        failed += progress.failure is not None
        checks += [] if progress.check is None else [progress.check]
        yield _line(progress)
    if done < len(queue.jobs):
        yield f"{len(queue.jobs) - done} runs left; the same command continues"
    elif queue.waiting and not failed:
        yield f"{len(queue.waiting)} rows waited for a study, which has ended; the same command runs them"
    if checks:
        different = sum(bool(each.differences) for each in checks)
        yield f"{len(checks) - different} of {len(checks)} runs give their record, {different} do not"
    if failed:
        raise ConfigError(f"{failed} of {len(queue.jobs)} runs failed; each has a log in {out}")


def _line(progress: "Progress") -> str:
    line = f"[{progress.done}/{progress.total}] {progress.job}: "
    if progress.failure is not None:
        return f"{line}failed: {progress.failure}"
    if progress.check is not None:
        line += "; ".join(progress.check.differences) or "as recorded"
        line += f"  ({progress.check.machine})" if progress.check.differences else ""
    elif progress.record is not None:
        line += f"{format_metrics(progress.record.metrics)}  {progress.record.seconds:.0f} s"
    else:
        line += "written"
    return line if progress.left is None else f"{line}  ({_time(progress.left)} left)"


def _time(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
