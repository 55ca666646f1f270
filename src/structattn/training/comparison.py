"""A comparison of runs, as values: groups of runs, differences between them, and the examples that flipped."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from structattn.training.significance import Significance


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only.

    Attributes:
        name: for tables.
        folders: the run folders.
        values: the metric of each run.
        mean: over the runs.
        deviation: sample standard deviation over the runs; ``None`` for a single run.
        chosen: on test, every figure of several runs as `chosen_on_dev` has them.
    """

    name: str
    folders: tuple[Path, ...]
    values: tuple[float, ...]
    mean: float
    deviation: float | None
    chosen: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Flip:
    """An example on which the systems differ: one was right in more of its runs than the other.

    Attributes:
        id: the example's id.
        texts: its sentence, or its two, as texts; none if the predictions have none.
        gold: its true answer.
        first: the first group's answers, one for each run.
        second: the second group's answers.
        won: whether the second group is the better one here.
    """

    id: str
    texts: tuple[str, ...]
    gold: str | float
    first: tuple[str | float, ...]
    second: tuple[str | float, ...]
    won: bool


@dataclass(frozen=True)
class Difference:
    """One group against the first.

    Attributes:
        first: name of the first group.
        second: name of the other group.
        significance: interval and p-values.
        flips: the examples that flipped, largest change first; for scores, all that moved.
    """

    first: str
    second: str
    significance: Significance
    flips: tuple[Flip, ...]


@dataclass(frozen=True)
class Comparison:
    """The result of ``compare``.

    Attributes:
        metric: name of the metric.
        split: ``"dev"``, ``"test"``, or the name of the data that were given.
        num_examples: how many examples the runs share.
        groups: the groups, in the order given.
        differences: every other group against the first.
    """

    metric: str
    split: str
    num_examples: int
    groups: tuple[Group, ...]
    differences: tuple[Difference, ...]
