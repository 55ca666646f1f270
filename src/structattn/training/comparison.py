"""A comparison of runs, as values: groups of runs, differences between them, and the examples that flipped."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from structattn.training.significance import Significance


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed.

    Attributes:
        name: its name in tables.
        folders: the run folders.
        values: the metric of each run.
        mean: mean of the metric over the runs.
        deviation: sample standard deviation over the runs; ``None`` for a single run.
        chosen: for several runs on test data, the figures that `chosen_on_dev` returns.
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
        texts: the text of its sentence, or of both; empty if the predictions have no texts.
        gold: its true answer.
        first: the first group's answers, one for each run.
        second: the second group's answers.
        won: whether the second group is better on this example.
    """

    id: str
    texts: tuple[str, ...]
    gold: str | float
    first: tuple[str | float, ...]
    second: tuple[str | float, ...]
    won: bool


@dataclass(frozen=True)
class Difference:
    """The difference between the first group and another.

    Attributes:
        first: name of the first group.
        second: name of the other group.
        significance: interval and p-values.
        flips: the examples that flipped, largest change first; for scores, all whose error changed.
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
