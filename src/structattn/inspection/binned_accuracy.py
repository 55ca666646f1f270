"""Accuracy in bins, by sentence length or by number of attractors.

Shen et al. 2018 (DiSAN), figure 5, from the prediction files that training writes.
"""

import bisect
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from structattn.data import Example
from structattn.files.json_yaml import read_json_lines
from structattn.pictures import Series, line_chart
from structattn.tasks.answering import num_words

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

    def figure(self, x_label: str = "words in the sentence", width: float = 640.0) -> str:
        """Accuracy against the binned value, with deviations over seeds and the size of each bin, as SVG."""
        axes = {"x_label": x_label, "y_label": "accuracy", "x_names": self.names, "counts": self.counts}
        return line_chart(self.series, percent=True, width=width, **axes)  # type: ignore[arg-type]


def num_attractors(example: Example) -> int:
    """The number of attractors between subject and verb, from the metadata of agreement data.

    Args:
        example: an example of the task ``agreement``, as the readers of its data and ``agreement_treebank`` make it.

    Returns:
        The number in the metadata of its first sentence that has one.

    Raises:
        ValueError: if no sentence has one.

    Example:
        >>> from structattn.syntax import Sentence
        >>> num_attractors(Example([Sentence(["the", "keys"], metadata={"attractors": "2"})]))
        2
    """
    for sentence in example.sentences:
        if "attractors" in sentence.metadata:
            return int(sentence.metadata["attractors"])
    raise ValueError(f"{example.describe()} has no number of attractors in its metadata")


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
        examples: the examples that were predicted, in order.
        value: the value by which examples are binned.
        edges: where the bins begin; the last one is open.

    Returns:
        For each system, mean and standard deviation over its runs in each bin that is not empty.

    Raises:
        ParseError: for a malformed prediction file.
        ValueError: if a file lacks an example, an example lies below the first edge, or ``edges`` do not increase.

    Example:
        >>> import tempfile
        >>> from structattn.files.json_yaml import write_json_lines
        >>> from structattn.syntax import Sentence
        >>> examples = [Example([Sentence(["so"])], "a", id="0"), Example([Sentence(["so"] * 12)], "b", id="1")]
        >>> file = Path(tempfile.mkdtemp(), "dev.jsonl")
        >>> write_json_lines(file, [{"id": part.id, "gold": part.label, "predicted": "a"} for part in examples])
        >>> result = binned_accuracy({"all a": [file]}, examples)
        >>> result.names, result.counts, result.series[0].y
        (('0–9', '10–19'), (1, 1), [1.0, 0.0])
    """
    if not edges or list(edges) != sorted(set(edges)):
        raise ValueError(f"edges must increase; got {list(edges)}")
    bins: list[list[str]] = [[] for _ in edges]
    for index, example in enumerate(examples):
        number = bisect.bisect_right(edges, value(example)) - 1
        if number < 0:
            raise ValueError(f"{example.describe(index)} has value {value(example)}, below the first edge {edges[0]}")
        bins[number].append(example.id or str(index))
    filled = [number for number, ids in enumerate(bins) if ids]
    series = []
    for system, files in predictions.items():
        runs = [_accuracies(file, [bins[number] for number in filled]) for file in files]
        columns = list(zip(*runs, strict=True))
        errors = [statistics.stdev(column) for column in columns] if len(runs) > 1 else None
        means = [statistics.fmean(column) for column in columns]
        series.append(Series(system, list(range(len(means))), means, errors=errors))
    names = tuple(_name_bin(edges, number) for number in filled)
    return BinnedAccuracy(names, tuple(len(bins[number]) for number in filled), tuple(series))


def _accuracies(file: FileName, bins: Sequence[Sequence[str]]) -> list[float]:
    correct = {str(row.get("id")): row.get("gold") == row.get("predicted") for row in read_json_lines(Path(file))}
    for ids in bins:
        for name in ids:
            if name not in correct:
                raise ValueError(f"{os.fspath(file)} has no prediction for example {name}")
    return [sum(correct[name] for name in ids) / len(ids) for ids in bins]


def _name_bin(edges: Sequence[int], number: int) -> str:
    first = edges[number]
    if number + 1 == len(edges):
        return f"{first}+"
    last = edges[number + 1] - 1
    return f"{first}" if last == first else f"{first}–{last}"
