"""Inputs of a trained model: a data file, plain text with one sentence per line, or stdin."""

import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from structattn.data import Example
from structattn.data.model_config import check_folders, find_whole_model, read_model_config
from structattn.data.readers.formats import check_format, list_files
from structattn.errors import ConfigError
from structattn.files.text import Source, check_readable
from structattn.parsing.parsers import check_parser
from structattn.syntax import Sentence
from structattn.tasks import Task
from structattn.training.config import DataConfig, load_config
from structattn.training.folder import RunFolder

Item = TypeVar("Item")


def check_inputs(
    run: str | None = None,
    data: str | None = None,
    *,
    format: str | None = None,
    parses: str | None = None,
    parser: str | None = None,
    trust_code: bool = False,
) -> None:
    """Check the inputs of a command before anything that takes long to import is needed.

    Args:
        run: a run folder, or the folder of a saved model.
        data: a file, a pattern of files, or ``-`` for stdin.
        format: its data format, or ``"text"``.
        parses: a CoNLL-U file.
        parser: as for ``structattn.load``.
        trust_code: whether an encoder module:function that the folder names may be imported and run.

    Raises:
        ConfigError: for an unknown format or parser, or a folder without a model that this version can read.
        ParseError: for a missing or unreadable file.
    """
    if run is not None:
        read_model_config(find_whole_model(run), trust_code=trust_code)
    check_format(format)
    if parser is not None and parser != "none":
        check_parser(parser)
    for path in (data, parses):
        if path is not None and path != "-":
            for file in list_files(path):
                check_readable(file)


def check_sources(*files: str | None, backbone: str | None = None, adapter: str | None = None) -> None:
    """Check the files and folders that a run reads before anything that takes long to import is needed.

    Args:
        *files: treebanks and other files.
        backbone: folder of a Hugging Face model.
        adapter: folder of HYDRA heads, or of a run that pretrained some.

    Raises:
        ParseError: for a missing or unreadable file.
        ConfigError: for a folder without a model, or with one that this version cannot read.
    """
    for file in files:
        if file is not None:
            check_readable(file)
    check_folders(backbone=backbone, adapter=adapter)


def check_goes_with(needed: str, **given: object) -> None:
    """Refuse options that have no effect without another option.

    Raises:
        ConfigError: for the first one that is given.

    Example:
        >>> check_goes_with("data", data_format=None, parses="a.conllu")
        Traceback (most recent call last):
        ...
        structattn.errors.ConfigError: --parses: changes nothing without --data
    """
    for name, value in given.items():
        if value is not None and value is not False:
            raise ConfigError(f"--{name}: changes nothing without --{needed}")


def opened(file: str) -> Source:
    """The file, or stdin for ``-``."""
    return sys.stdin if file == "-" else file


def data_config(run: str, *, format: str | None, parses: str | None = None, **columns: int | str | None) -> DataConfig:
    """How to read a file for a trained model.

    Args:
        run: the folder of the model.
        format: the data format of the file.
        parses: a CoNLL-U file with its trees.
        **columns: ``text_column``, ``label_column`` and ``id_column`` of a table or the keys of JSON; where ``None``,
            those that the run was trained with.
    """
    config = RunFolder(run).config
    usual = load_config(config).data if config.is_file() else DataConfig()
    given: dict[str, Any] = {name: column for name, column in columns.items() if column is not None}
    return dataclasses.replace(usual, format=format, parses=parses, **given)


def text_example(task: Task, texts: Sequence[str]) -> Example:
    """One example from one text, or from two for tasks on pairs.

    Raises:
        ConfigError: if the task takes another number of sentences.
    """
    return next(iter(task.prepare([Example([Sentence.from_text(text) for text in texts], id="text")])))


def chunks(items: Iterable[Item], *, size: int) -> Iterator[list[Item]]:
    """The items in lists of at most ``size``.

    Example:
        >>> list(chunks("abcde", size=2))
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while chunk := list(itertools.islice(rest, size)):
        yield chunk
