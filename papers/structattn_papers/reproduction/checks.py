"""Recorded runs that were run again: a line in ``papers/<system>/checks.jsonl`` says what differs from the record."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from structattn.files.json_yaml import naming_description, read_json_lines
from structattn_papers.reproduction.records import Record, append_line
from structattn_papers.reproduction.rows import Row

CHECKS = "checks.jsonl"


@dataclass(frozen=True)
class Check:
    """A recorded run, and the same run now.

    Attributes:
        row: name of the row.
        seed: its seed.
        recorded: the version of the code that made the record.
        version: the version that ran it again.
        machine: where.
        differences: what differs from the record; on another machine than the record's that may be due to it.
    """

    row: str
    seed: int
    recorded: str
    version: str
    machine: str
    differences: Sequence[str]


def check(row: Row, before: Record, after: Record) -> Check:
    """A record beside the same run with the present code."""
    return Check(row.name, before.seed, before.version, after.version, after.machine, compare(before, after))


def compare(before: Record, after: Record) -> tuple[str, ...]:
    """What differs between two records of the same run: data, metrics, answers.

    Example:
        >>> before = Record(1, "", "", "", {}, "dev", {"accuracy": 0.5}, 0.0, "", examples=4, right="c")
        >>> after = dataclasses.replace(before, metrics={"accuracy": 0.75}, right="e", seconds=9.0)
        >>> compare(before, after)
        ('accuracy 0.5 on record, 0.75 now', 'other answers to 1 of 4 examples')
    """
    differences = [f"{name} is another file" for name, value in before.data.items() if after.data.get(name) != value]
    if (before.examples, before.order) != (after.examples, after.order):
        differences.append("other examples")
    for name in dict.fromkeys([*before.metrics, *after.metrics]):
        first, second = before.metrics.get(name), after.metrics.get(name)
        if first != second:
            differences.append(f"{name} {first} on record, {second} now")
    first_right, second_right = before.is_right, after.is_right
    if first_right is not None and second_right is not None and len(first_right) == len(second_right):
        if changed := int((first_right != second_right).sum()):
            differences.append(f"other answers to {changed} of {len(first_right)} examples")
    elif before.predictions != after.predictions:
        differences.append("other predictions")
    return tuple(differences)


def append_check(row: Row, result: Check) -> None:
    """Add a line to the checks of a paper."""
    append_line(row.folder / CHECKS, dataclasses.asdict(result))


def read_checks(folder: Path) -> list[Check]:
    """The checks of a paper, the latest last."""
    file, checks = folder / CHECKS, []
    for values in read_json_lines(file, keys=("row", "seed")) if file.is_file() else ():
        with naming_description(file, "a check"):
            checks.append(Check(**values))
    return checks


def has_drifted(row: Row, records: Sequence[Record], checks: Sequence[Check]) -> bool:
    """Whether the latest check of any of these records found a difference, on the machine that made the record."""
    origins = {record.seed: (record.version, record.machine) for record in records}
    latest = {}
    for result in checks:
        if result.row == row.name and origins.get(result.seed) == (result.recorded, result.machine):
            latest[result.seed] = result
    return any(result.differences for result in latest.values())
