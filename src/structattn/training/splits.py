"""Predictions of a trained run on further data, kept in its folder beside those made in training."""

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

from structattn.data import Example
from structattn.errors import ConfigError
from structattn.files.json_yaml import read_json, read_json_lines, write_json, write_json_lines
from structattn.tasks import Evaluation
from structattn.training.folder import RunFolder, prediction_rows

LOGGER = logging.getLogger("structattn.training")

_NAME = re.compile(r"[\w-]+")


def check_split(path: str | os.PathLike[str], split: str) -> None:
    """Check that predictions may be kept in a folder under this name, before anything is predicted.

    Args:
        path: path of the run folder.
        split: ``"test"``, or another name of letters, digits, ``-`` and ``_``.

    Raises:
        ConfigError: if the folder contains no finished run, or the name is ``"dev"`` or malformed.
    """
    folder = RunFolder(path)
    if not _NAME.fullmatch(split) or split == "dev":
        raise ConfigError(f"split: expected test or another name of letters and digits, got {split!r}")
    if not folder.config.is_file():
        raise ConfigError(f"{folder.path} is not a run folder (no {folder.config.name}), so it keeps no predictions")
    if not folder.is_finished:
        raise ConfigError(f"{folder.path}: this run is not finished; resume it before its predictions are kept")


def keep_predictions(
    path: str | os.PathLike[str], split: str, evaluation: Evaluation, examples: Sequence[Example]
) -> Path:
    """Write the predictions of the best model of a run into its folder, where ``compare`` finds them by their split.

    The metrics on ``"test"`` become the test figures of the run.

    Args:
        path: path of the run folder.
        split: as in `check_split`.
        evaluation: evaluation of the best model.
        examples: the examples it was evaluated on.

    Returns:
        The file.

    Raises:
        ConfigError: as `check_split`; if the run has predictions of that name on other examples, or the folder is in
            use.
    """
    check_split(path, split)
    folder = RunFolder(path)
    file = folder.predictions(split)
    rows = list(prediction_rows(evaluation, examples))
    with folder.claimed():
        if file.is_file():
            before = [(row.get("id"), row.get("gold")) for row in read_json_lines(file)]
            if before != [(row["id"], row["gold"]) for row in rows]:
                raise ConfigError(f"{file} contains predictions on other examples; choose another name for these")
        write_json_lines(file, rows)
        if split == "test":
            write_json(folder.result, {**read_json(folder.result), "test": dict(evaluation.metrics)})
    return file


def warn_if_unfinished(path: str | os.PathLike[str]) -> None:
    """Log a warning if a folder contains an unfinished run, as its best model may still change."""
    folder = RunFolder(path)
    if folder.config.is_file() and not folder.is_finished:
        LOGGER.warning("%s: this run is not finished; its best model so far is used", folder.path)
