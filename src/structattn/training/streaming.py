"""Training on examples that stay on disk: the options that it may be combined with, and the examples."""

import functools
from collections.abc import Iterable, Iterator

from structattn.data import Example
from structattn.data.readers.formats import all_files_of
from structattn.data.treebank.stream import StreamedExamples
from structattn.errors import ConfigError
from structattn.files.text import is_parquet
from structattn.tasks import Task
from structattn.training.config import DataConfig, RunConfig


def check_streaming(config: RunConfig, task: Task) -> None:
    """Refuse configurations that cannot be streamed, before any data are read.

    Raises:
        ConfigError: for a task, an option or a file that cannot be combined with ``data.streaming``.
    """
    data = config.data
    usual = DataConfig()
    if task.answer != "label":
        raise ConfigError(f"data.streaming: expected a task that is answered with a class or score, got {task.name!r}")
    if data.train is None or data.dev is None:
        raise ConfigError("data.streaming: expected data.train and data.dev, as nothing is held out of streamed data")
    for name in ("limit", "sample", "parses", "parser"):
        if getattr(data, name) != getattr(usual, name):
            raise ConfigError(f"data.streaming: expected no data.{name}; structattn convert and parse make the files")
    if (data.phrases or task.phrases) != "none" or config.folds is not None:
        raise ConfigError("data.streaming: expected neither data.phrases nor folds")
    if config.optimization.batch_tokens is not None:
        raise ConfigError("data.streaming: expected optimization.batch_size, got batch_tokens")
    for file in all_files_of(data.train):
        if not is_parquet(file):
            raise ConfigError(f"data.streaming: expected Parquet files (structattn convert makes them), got {file}")


def streamed_examples(data: DataConfig, task: Task) -> StreamedExamples:
    """The training examples of a run, counted in one pass.

    Raises:
        ParseError: as ``StreamedExamples``.
    """

    dropped = {label for label, renamed in task.relabel.items() if renamed is None}
    prepare = functools.partial(_prepared, task)
    files = all_files_of(data.train or "")
    return StreamedExamples(files, prepare, dropped=dropped, max_length=task.max_length, cached=data.window)


def _prepared(task: Task, examples: Iterable[Example]) -> Iterator[Example]:
    return map(task.limited, task.prepare(examples, published=False))
