"""The result of a run, as stored in its folder."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structattn.files.json_yaml import naming_description, read_json
from structattn.training.folder import RunFolder


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        folder: the run folder; ``structattn.load(folder)`` gives the best model.
        metrics: the task's metrics of the best model on dev; for cross-validation, the means over the test parts of the
            folds, with their standard deviations as ``<metric>_sd``.
        test: the metrics of the best model on the test data, if there are any.
        parameters: trained parameters apart from word vectors.
        seconds: training time.
        peak_memory: peak memory of the process until the end of training, in MiB: on a GPU that of
            torch's tensors there, on a CPU all of it, with Python, torch and the data.
        examples: numbers of examples for training, phrases included, and for each evaluation.
        best: the row of ``metrics.jsonl`` that belongs to the best model.
    """

    folder: Path
    metrics: Mapping[str, float]
    test: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0
    seconds: float = 0.0
    peak_memory: float = 0.0
    examples: Mapping[str, int] = field(default_factory=dict)
    best: Mapping[str, Any] = field(default_factory=dict)


def read_result(folder: RunFolder) -> RunResult:
    """The result of a finished run.

    Raises:
        ParseError: if it is missing or damaged; the message names the file.
    """
    values = read_json(folder.result)
    with naming_description(folder.result, "a result"):
        return result_of(folder, values)


def result_of(folder: RunFolder, values: Mapping[str, Any]) -> RunResult:
    """The result that the values of a result file describe; unknown values are left out."""
    known = {item.name for item in dataclasses.fields(RunResult)} - {"folder"}
    return RunResult(folder.path, **{name: value for name, value in values.items() if name in known})
