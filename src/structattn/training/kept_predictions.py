"""The predictions that run folders keep: of training, and on further data; and checks for comparing them."""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from structattn.errors import ConfigError
from structattn.files.json_yaml import read_json, read_json_lines, write_json, write_json_lines
from structattn.tasks.metrics import Metric
from structattn.training.run_config import RunConfig, load_config
from structattn.training.run_folder import RunFolder

if TYPE_CHECKING:
    from structattn.tasks import Evaluation

PathLike = str | os.PathLike[str]
LOGGER = logging.getLogger("structattn.training")
_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class KeptRun:
    """The predictions of one run on a split: ``id``, ``gold`` and ``predicted`` of each example.

    ``metric`` is the main one of its task, and ``file`` says in messages where the predictions are from.
    """

    folder: Path
    config: RunConfig
    metric: str
    split: str
    file: Path
    rows: Sequence[Mapping[str, Any]]


def find_run_folders(group: PathLike | Sequence[PathLike]) -> list[Path]:
    """The run folders of a system, given as one run folder, a folder of run folders, or a sequence."""
    if not isinstance(group, str | os.PathLike):
        folders = [folder for item in group for folder in find_run_folders(item)]
    elif RunFolder(group).config.is_file():
        return [Path(group)]
    else:
        folders = sorted(path.parent for path in Path(group).glob("*/config.yaml"))
    if not folders:
        raise ConfigError(f"{group} is not a run folder and contains none (no config.yaml)")
    return folders


def read_run(path: Path, split: str | None) -> KeptRun:
    """The predictions of a finished run on a split; on dev, or else test, if ``None``."""
    folder = RunFolder(path)
    if not folder.is_finished:
        raise ConfigError(f"{path}: this run is not finished (no {folder.result.name})")
    splits = sorted(file.stem for file in folder.predictions("*").parent.glob("*.jsonl"))
    name = split or ("test" if "dev" not in splits and "test" in splits else "dev")
    if name not in splits:
        raise ConfigError(f"{path}: this run has no predictions on {name!r}; it has {', '.join(splits) or 'none'}")
    file = folder.predictions(name)
    main_metric = str(read_json(folder.result).get("main_metric"))
    return KeptRun(
        path,
        load_config(folder.config),
        main_metric,
        name,
        file,
        list(read_json_lines(file, keys=("id", "gold", "predicted"))),
    )


def check_same_examples(first: KeptRun, second: KeptRun) -> None:
    """Check that two runs answered the same examples in the same order; an error names the first that differs."""
    if len(first.rows) != len(second.rows):
        raise ConfigError(
            f"{first.file} has {len(first.rows)} examples and {second.file} has {len(second.rows)}: "
            "runs are compared on the same examples only"
        )
    for mine, theirs in zip(first.rows, second.rows, strict=True):
        if (mine["id"], mine["gold"]) != (theirs["id"], theirs["gold"]):
            raise ConfigError(
                f"{first.file} has example {mine['id']!r} ({mine['gold']!r}) where {second.file} has {theirs['id']!r} "
                f"({theirs['gold']!r}): runs are compared on the same examples only"
            )


def collect_answers(rows: Sequence[Mapping[str, Any]], key: str, metric: Metric, file: Path) -> np.ndarray:
    """The answers, ``gold`` or ``predicted``, as an array that a metric takes; numbers or labels, as it expects."""
    values = [row[key] for row in rows]
    if any(isinstance(value, str) == metric.is_numeric for value in values):
        kind = "numbers" if metric.is_numeric else "labels"
        raise ConfigError(f"{file}: the metric {metric.name!r} compares {kind}, which these predictions are not")
    return np.asarray(values, dtype=np.float64 if metric.is_numeric else np.str_)


def check_split(path: str | os.PathLike[str], split: str) -> None:
    """Check, before anything is predicted, that a run folder may keep predictions under this name; ``dev`` is taken."""
    folder = RunFolder(path)
    if not _NAME.fullmatch(split) or split == "dev":
        raise ConfigError(f"split: expected test or another name of letters and digits, got {split!r}")
    if not folder.config.is_file():
        raise ConfigError(f"{folder.path} is not a run folder (no {folder.config.name}), so it keeps no predictions")
    if not folder.is_finished:
        raise ConfigError(f"{folder.path}: this run is not finished; resume it before its predictions are kept")


def keep_predictions(path: str | os.PathLike[str], split: str, evaluation: "Evaluation") -> Path:
    """Write the predictions of the best model of a run into its folder, where ``compare`` finds them by their split.

    Those on ``"test"`` become the test figures of the run. A name that other examples have is refused.
    """
    check_split(path, split)
    folder = RunFolder(path)
    file = folder.predictions(split)
    rows = list(evaluation.rows())
    with folder.claimed():
        if file.is_file():
            answered = [(row.get("id"), row.get("gold")) for row in read_json_lines(file)]
            if answered != [(row["id"], row["gold"]) for row in rows]:
                raise ConfigError(f"{file} contains predictions on other examples; choose another name for these")
        write_json_lines(file, rows)
        if split == "test":
            values = read_json(folder.result)
            reports = {**values.get("reports", {}), "test": evaluation.task.report(rows).to_dict()}
            write_json(folder.result, {**values, "test": dict(evaluation.metrics), "reports": reports})
    return file


def warn_if_unfinished(path: str | os.PathLike[str]) -> None:
    """Log a warning if a folder contains an unfinished run, as its best model may still change."""
    folder = RunFolder(path)
    if folder.config.is_file() and not folder.is_finished:
        LOGGER.warning("%s: this run is not finished; its best model so far is used", folder.path)
