"""Accuracy in bins, by sentence length or by number of attractors.

Shen et al. 2018 (DiSAN), figure 5, from the prediction files that training leaves behind.
"""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from structattn.data import Example
from structattn.pictures import Series, line_chart
from structattn.syntax.folders import read_json_lines
from structattn.tasks import num_words

FileName = str | os.PathLike[str]


@dataclass(frozen=True)
class BinnedAccuracy:
    """Accuracy in bins of a data set.

    Attributes:
        names: the bins, for example ``"10–19"``; empty bins are left out.
        counts: number of examples in each.
        series: for each system, mean and standard deviation over its runs.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    series: tuple[Series, ...]


def num_attractors(example: Example) -> int:
    """The attractors between subject and verb, as the agreement data says.

    Raises:
        ValueError: if the example does not say.
    """
    for sentence in example.sentences:
        if "attractors" in sentence.metadata:
            return int(sentence.metadata["attractors"])
    raise ValueError(f"example {example.id!r} does not say how many attractors it has")


def binned_accuracy(
    predictions: Mapping[str, Sequence[FileName]],
    examples: Sequence[Example],
    *,
    value: Callable[[Example], int] = num_words,
    edges: Sequence[int] = (0, 10, 20, 30, 40),
) -> BinnedAccuracy:
    """Accuracy of several systems in bins of one data set.

    Args:
        predictions: for each system the prediction files of its runs, one per seed.
        examples: the data that was predicted, in its order.
        value: the value by which examples are binned.
        edges: where the bins begin; the last one is open.

    Raises:
        ParseError: for a malformed prediction file.
        ValueError: if a file lacks an example, or ``edges`` do not increase.
    """
    if not edges or list(edges) != sorted(set(edges)):
        raise ValueError(f"edges must increase; got {list(edges)}")
    parts: list[list[str]] = [[] for _ in edges]
    for index, example in enumerate(examples):
        found = [part for part, edge in enumerate(edges) if edge <= value(example)]
        if not found:
            raise ValueError(
                f"example {example.id or index} has value {value(example)}, below the first edge {edges[0]}"
            )
        parts[found[-1]].append(example.id or str(index))
    kept = [part for part, ids in enumerate(parts) if ids]
    names = [_part_name(edges, part) for part in kept]
    series = []
    for system, files in predictions.items():
        runs = [_accuracies(file, [parts[part] for part in kept]) for file in files]
        columns = list(zip(*runs, strict=True))
        errors = [statistics.stdev(column) for column in columns] if len(runs) > 1 else None
        means = [statistics.fmean(column) for column in columns]
        series.append(Series(system, list(range(len(means))), means, errors=errors))
    return BinnedAccuracy(tuple(names), tuple(len(parts[part]) for part in kept), tuple(series))


def accuracy_figure(parts: BinnedAccuracy, *, x_label: str = "words in the sentence", title: str | None = None) -> str:
    """Accuracy against length, or whatever the bins are, with deviations over seeds and the size of each bin.

    Example:
        >>> parts = BinnedAccuracy(("0–9", "10+"), (3, 2), (Series("DiSAN", [0, 1], [0.9, 0.5]),))
        >>> "n = 3" in accuracy_figure(parts)
        True
    """
    return line_chart(
        parts.series,
        title=title,
        x_label=x_label,
        y_label="accuracy",
        x_names=parts.names,
        counts=parts.counts,
        percent=True,
    )


def _accuracies(file: FileName, parts: Sequence[Sequence[str]]) -> list[float]:
    right = {str(row.get("id")): row.get("gold") == row.get("predicted") for row in read_json_lines(Path(file))}
    for ids in parts:
        for name in ids:
            if name not in right:
                raise ValueError(f"{os.fspath(file)} has no prediction for example {name}")
    return [sum(right[name] for name in ids) / len(ids) for ids in parts]


def _part_name(edges: Sequence[int], part: int) -> str:
    if part + 1 == len(edges):
        return f"{edges[part]}+"
    return f"{edges[part]}" if edges[part + 1] == edges[part] + 1 else f"{edges[part]}–{edges[part + 1] - 1}"
