"""What a run folder knows about data: where its own are, and how further files are read."""

import dataclasses
import inspect
import itertools
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from structattn.data import Example
from structattn.data.readers.formats import FORMATS, find_reader, list_files, recognise_format, split_paths
from structattn.errors import ConfigError, ParseError
from structattn.files.json_yaml import read_json, read_json_lines
from structattn.files.urls import is_remote
from structattn.tasks import Task
from structattn.training.examples import Data, read_split, stream_examples
from structattn.training.plan import check_continued, plan_data
from structattn.training.run_config import FROM_PYTHON, DataConfig, RunConfig, load_config
from structattn.training.run_folder import RunFolder

LOGGER = logging.getLogger("structattn.training")
_COLUMNS = ("text_column", "label_column", "id_column")
# What a configuration says about training data, and about no others.
_PAST = ("train", "limit", "sample", "test_size", "parses", "class_weights", "generated")


def read_data_config(run: str | os.PathLike[str]) -> DataConfig:
    """How a run read its data; the defaults for a folder that is not a run."""
    config = RunFolder(run).config
    return load_config(config).data if config.is_file() else DataConfig()


def inherit_data_config(
    run: str | os.PathLike[str] | DataConfig, source: Data, *, labelled: bool = True, **changes: Any
) -> DataConfig:
    """How to read data for the model of a run: as its training data, except for changes that are not ``None``.

    Args:
        run: the run folder, or how it read its data; another folder gives the defaults.
        source: the data; a file whose name ends as that of the training data has the format that the run was told.
        labelled: whether they have labels; lines without look like those of another format.
        **changes: fields of ``DataConfig``; neither the run's own trees nor its own format are those of other data.

    Example:
        >>> inherit_data_config("nowhere", "a.csv", text_column="review").columns
        {'text_column': 'review'}
    """
    trained = run if isinstance(run, DataConfig) else read_data_config(run)
    format = trained.format
    is_own = format is not None and (labelled or format in FORMATS.added() or ":" in format)
    is_similar = isinstance(source, str | os.PathLike) and _ending(source) == _ending(trained.train or "")
    values: dict[str, Any] = {"format": format if is_own and is_similar else None, "parses": None}
    has_columns = any(getattr(trained, name) is not None for name in _COLUMNS)
    if _are_tuples(source) or (
        has_columns and not _can_have_columns(source, changes.get("format") or values["format"])
    ):
        values |= dict.fromkeys(_COLUMNS)
    values |= {name: value for name, value in changes.items() if value is not None}
    return dataclasses.replace(trained, **values)


def _can_have_columns(source: Data, format: str | None) -> bool:
    """Whether data can have columns with names, unlike trees."""
    if not isinstance(source, str | os.PathLike) or source == "-":
        return True
    try:
        reader = find_reader(format or recognise_format(list_files(source)[0]))
    except (ParseError, ConfigError):  # which whoever reads the data raises
        return True
    return "text_column" in inspect.signature(reader).parameters


def _are_tuples(source: Data) -> bool:
    """Whether the places of values, rather than names of columns, say what they are."""
    return isinstance(source, Sequence) and bool(source) and isinstance(source[0], tuple)


def _ending(path: str | os.PathLike[str]) -> str:
    return Path(os.fspath(path).removesuffix(".gz")).suffix


def read_to_show(task: Task, source: Data, data: DataConfig, *, limit: int | None = None) -> list[Example]:
    """The first examples of data that may lack labels, as a page or a picture shows them."""
    try:
        return list(itertools.islice(stream_examples(task, source, data), limit))
    except ParseError:
        plain = dataclasses.replace(data, label_column=None)
        return list(itertools.islice(stream_examples(task, source, plain, need_labels=False), limit))


def read_run_examples(
    run: str | os.PathLike[str], split: Literal["train", "dev", "test"] | None = "dev", *, task: Task | None = None
) -> tuple[list[Example], str]:
    """The examples that a run trained on or was measured on, and the name of their split; None is test, or else dev."""
    # Files are looked for where they were when the run began, then from here. Where they are gone, or came from Python,
    # the texts of the predictions that the run keeps stand in for those of sentences.
    folder = RunFolder(run)
    if not folder.config.is_file():
        raise ConfigError(f"{run} has no {folder.config.name} that says where the data are: give --data")
    config = load_located(folder)
    has_test = config.folds is not None or config.data.has_test
    name = split or ("test" if has_test else "dev")
    try:
        path = getattr(config.data, name)
        if path is None or path.startswith(FROM_PYTHON) or config.folds is not None:
            return list(getattr(read_split(plan_data(config, task=task)), name)), name
        plan = plan_data(config, task=task, splits=(name,))
        return [plan.task.limited(each) for each in stream_examples(plan.task, path, plan.data_config(name))], name
    except (ParseError, ConfigError) as error:
        kept = folder.predictions(name)
        if not kept.is_file() or (task is not None and not task.judges_texts):
            raise
        LOGGER.warning("%s; the texts in %s are used", error, kept)
    rows = read_json_lines(kept, keys=("id", "gold", "texts"))
    return [Example(tuple(row["texts"]), row["gold"], id=str(row["id"])) for row in rows], name


def load_located(folder: RunFolder) -> RunConfig:
    """The configuration of a run with the paths of its data as they were when it began, if they are still there."""
    config = load_config(folder.config)
    start = read_json(folder.environment).get("directory") if folder.environment.is_file() else None
    if not isinstance(start, str):
        return config
    paths = {name: getattr(config.data, name) for name in ("train", "dev", "test", "parses")}
    moved: dict[str, Any] = {name: _locate(path, start) for name, path in paths.items() if path is not None}
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **moved))


def _locate(path: str, start: str) -> str:
    if path.startswith(FROM_PYTHON) or is_remote(path):
        return path
    try:
        there = ",".join(os.path.join(start, part) for part in split_paths(path))
        return there if all(map(os.path.exists, list_files(there))) else path
    except ParseError:  # such as a pattern that matches nothing
        return path


def inherit_config(run: str | os.PathLike[str], source: Data = "") -> dict[str, Any]:
    """The values of the configuration of a run for one that continues it on this data, without its own and its folder.

    Its dev and test files are kept, so that figures can be compared.
    """
    folder = RunFolder(run)
    check_continued(folder)
    values = load_located(folder).to_dict()
    data = {name: value for name, value in values.pop("data").items() if name not in _PAST}
    for name in ("dev", "test"):
        if str(data[name]).startswith(FROM_PYTHON):
            data[name] = None
    if _are_tuples(source):  # then columns have no names, which the files of the run need
        data |= dict.fromkeys((*_COLUMNS, "dev", "test"))
    for name in ("init", "out", "seed", "folds", "fold", "report_to"):
        del values[name]
    return {**values, "continued": os.fspath(run), "data": data}
