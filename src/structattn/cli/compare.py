"""``structattn compare``: whether one system is better than another, by how much, and on which examples."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator

from structattn.cli.lines import table
from structattn.layers.devices import Hardware
from structattn.training import Comparison, Difference, Group, compare


def command(
    runs: list[str],
    *,
    metric: str | None = None,
    split: str | None = None,
    data: str | None = None,
    format: str | None = None,
    parses: str | None = None,
    flips: int = 10,
    hardware: Hardware,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Mean and deviation over seeds, paired bootstrap against the first run, and the examples that flipped.

    Args:
        runs: run folders, or folders that hold one run folder for each seed.
        metric: name of a metric; the task's own by default.
        split: dev or test; dev where every run has it by default.
        data: a file with labels that the best model of each run is to answer, instead of its own predictions.
        format: the data format of that file; recognised from the file by default.
        parses: a CoNLL-U file with the trees of sentences that come without.
        flips: how many flipped examples to show for each pair of systems.
        hardware: where the models run that answer --data, and in which numbers.
        trust_code: import and run an encoder module:function that a run folder names.
        json: print one JSON object, with every flipped example.
    """
    found = compare(
        *runs,
        metric=metric,
        split=split,
        data=data,
        format=format,
        parses=parses,
        hardware=hardware,
        trust_code=trust_code,
    )
    yield from [jsonlib.dumps(dataclasses.asdict(found), default=str)] if json else _lines(found, flips)


def _lines(found: Comparison, flips: int) -> Iterator[str]:
    yield f"{found.metric} on {found.split}, {found.num_examples} examples"
    yield ""
    header = ["system", "seeds", "mean", "sd", "difference", "95 % interval", "p bootstrap", "p randomisation"]
    # The first group is the one that the others are compared with, so it has no difference of its own.
    first, *others = found.groups
    rows = [_row(group, difference) for group, difference in zip(others, found.differences, strict=True)]
    # A single group has nothing to be compared with.
    shown = len(header) if rows else 4
    yield from table(header[:shown], [_row(first, None)[:shown], *rows])
    yield from _chosen(found)
    for difference in found.differences:
        yield from _flips(difference, flips)


def _chosen(found: Comparison) -> Iterator[str]:
    """Test figures of each system for the runs selected on dev."""
    rows = [(group.name, which, values) for group in found.groups for which, values in group.chosen.items()]
    if rows:
        names = list(dict.fromkeys(name for _, _, values in rows for name in values))
        shown = [
            [name, which, *[f"{values[one]:.4f}" if one in values else "" for one in names]]
            for name, which, values in rows
        ]
        yield ""
        yield from table(["system", "seeds", *names], shown)


def _row(group: Group, difference: Difference | None) -> list[str]:
    deviation = "" if group.deviation is None else f"{group.deviation:.4f}"
    row = [group.name, str(len(group.values)), f"{group.mean:.4f}", deviation]
    if difference is None:
        return [*row, "", "", "", ""]
    test = difference.significance
    randomisation = "" if test.randomisation_p is None else f"{test.randomisation_p:.4f}"
    interval = f"[{test.low:+.4f}, {test.high:+.4f}]"
    return [*row, f"{test.difference:+.4f}", interval, f"{test.bootstrap_p:.4f}", randomisation]


def _flips(difference: Difference, count: int) -> Iterator[str]:
    won = sum(flip.won for flip in difference.flips)
    lost = len(difference.flips) - won
    yield ""
    yield f"{difference.second} against {difference.first}: better on {won} examples, worse on {lost}"
    if count and difference.flips:
        rows = [
            [flip.id, str(flip.gold), _answers(flip.first), _answers(flip.second), "better" if flip.won else "worse"]
            for flip in difference.flips[:count]
        ]
        yield from table(["example", "gold", difference.first, difference.second, "is"], rows)


def _answers(answers: tuple[str | float, ...]) -> str:
    return " ".join(f"{answer:.2f}" if isinstance(answer, float) else answer for answer in answers)
