"""A run as it will be carried out: names, options and files of its configuration, checked and resolved once."""

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structattn.data import Example
from structattn.data.model_config import check_folders
from structattn.data.readers.formats import check_format, list_files
from structattn.errors import ConfigError, ParseError
from structattn.files.text import FileStart, check_readable, is_pipe, read_start
from structattn.tasks import Task
from structattn.tasks.task_table import DECODERS, TASKS, ModelKind, find_model_kind
from structattn.training.run_config import FROM_PYTHON, DataConfig, RunConfig, load_config
from structattn.training.run_folder import RunFolder

SPLITS = ("train", "dev", "test")
# What makes a model, and so stays when its run is continued: of the configuration, and of that of the data.
_MODEL = ("task", "encoder", "options", "embedder", "classifier", "decoder")
_READING = ("parser", "lowercase", "trees", "unary", "tree_seed")


@dataclass(frozen=True)
class RunPlan:
    """A run that can be carried out, as far as can be said before its data are read.

    ``formats`` and ``examples`` (from Python, in place of files) are by split; ``files`` are all that it reads, and
    ``starts`` how those of examples begin.
    """

    config: RunConfig
    task: Task
    formats: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    examples: Mapping[str, Sequence[Example]] | None = None
    starts: Mapping[str, FileStart] = field(default_factory=dict)

    @property
    def stratify(self) -> bool:
        """Whether development data and folds have their share of every class."""
        wanted, task = self.config.data.stratify, self.task
        return (
            (task.stratify if wanted is None else wanted == "always") and task.judges_texts and not task.is_regression
        )

    def data_config(self, split: str) -> DataConfig:
        """How to read the file of a split: the configuration of the data, with its format."""
        return dataclasses.replace(self.config.data, format=self.formats[split])

    def with_config(self, **changes: Any) -> "RunPlan":
        """The plan of the same run in another folder, for another seed or one of its folds."""
        return dataclasses.replace(self, config=dataclasses.replace(self.config, **changes))


def plan_run(
    config: RunConfig, *, task: Task | None = None, examples: Mapping[str, Sequence[Example]] | None = None
) -> RunPlan:
    """Check and resolve a configuration; a task or examples from Python replace those that it names.

    Nothing slow is imported, so mistakes are reported at once.
    """
    task = TASKS.find(config.task) if task is None else task
    if config.continued is not None:
        check_continued(RunFolder(config.continued), config)
    kind, data = find_model_kind(task), config.data
    _check_sections(config, task, kind)
    if kind.check_encoder is not None and ":" not in config.encoder:
        kind.check_encoder(config.encoder, config.options, config.embedder)
    if "decoder" in kind.sections:
        DECODERS.check_options(config.decoder.name, config.decoder.options)
    check_format(data.format)
    if data.train is None:
        _check_generated(config, task)
    plan = plan_data(config, task=task, examples=examples)
    further_files = [file for path in (data.parses, data.vectors) if path is not None for file in _list_files(path)]
    for file in further_files:
        check_readable(file)
    config = dataclasses.replace(config, out=_new_folder(config) if config.out is None else config.out)
    plan = dataclasses.replace(plan, config=config, files=(*plan.files, *further_files))
    if data.streaming:
        _check_streaming(plan)
    check_folders(model=config.init, backbone=config.embedder.get("folder"), adapter=config.options.get("adapter"))
    return plan


def plan_data(
    config: RunConfig,
    *,
    task: Task | None = None,
    examples: Mapping[str, Sequence[Example]] | None = None,
    splits: Sequence[str] = SPLITS,
) -> RunPlan:
    """The part of a plan that reading the data needs: the task, and files and formats of some splits."""
    task, data = TASKS.find(config.task) if task is None else task, config.data
    longest = data.max_length or task.max_length
    name = config.optimization.metric
    metrics = task.metrics if name is None else tuple(dict.fromkeys((name, *task.metrics)))
    task = dataclasses.replace(task, max_length=longest, truncation=not data.refuse_longer, metrics=metrics)
    paths = {name: path for name in splits if (path := getattr(data, name)) and not path.startswith(FROM_PYTHON)}
    starts = {file: read_start(file, is_recorded=True) for path in paths.values() for file in _list_files(path)}
    formats = {name: data.format or task.recognise_format(path, starts) for name, path in paths.items()}
    return RunPlan(config, task, formats, tuple(starts), examples, starts)


def check_continued(folder: RunFolder, config: RunConfig | None = None) -> None:
    """Refuse what is no run folder to continue, and a configuration with another model than that of the run."""
    if not folder.config.is_file():
        raise ConfigError(f"continued: expected a run folder, {folder.path} has no {folder.config.name}")
    if config is None:
        return
    if config.init is not None:
        raise ConfigError("continued: expected no init beside it, which takes an encoder alone")
    if config.out is not None and os.path.realpath(config.out) == os.path.realpath(folder.path):
        raise ConfigError(f"out: expected another folder than that of the run to continue, got {config.out}")
    previous, present = load_config(folder.config).to_dict(), config.to_dict()
    pairs = [(name, previous[name], present[name]) for name in _MODEL]
    pairs += [(f"data.{name}", previous["data"][name], present["data"][name]) for name in _READING]
    for name, old, new in pairs:
        if old != new:
            raise ConfigError(
                f"{name}: the run {folder.path} has {old}, which stays when it is continued, got {new}; "
                f"--init {folder.path} takes its encoder alone"
            )


def _list_files(path: str) -> list[str]:
    """Every file of a path; none can be read only once."""
    files = list_files(path)
    for file in files:
        if is_pipe(file):
            raise ParseError("expected a file, as a run reads its data more than once, got a pipe or device", file=file)
    return files


def _check_sections(config: RunConfig, task: Task, kind: ModelKind) -> None:
    """Refuse parts of the configuration that do not concern this kind of model."""
    if config.data.phrases is not None and "phrases" not in kind.sections:
        raise ConfigError(f"data.phrases: task {task.name!r} is answered with {task.answer}, which phrases do not have")
    if config.data.vectors is not None and "vectors" not in kind.sections:
        raise ConfigError(f"data.vectors: task {task.name!r} learns its own vectors")
    if config.embedder and kind.sections.isdisjoint({"vectors", "embedder"}):
        raise ConfigError(f"embedder: task {task.name!r} learns its own vectors")
    has_classes = task.judges_texts and not task.is_regression
    for name in ("class_weights", "sampling", "stratify"):
        if getattr(config.data, name) not in (None, "never") and not has_classes:
            raise ConfigError(f"data.{name}: task {task.name!r} has no classes of examples")
    if config.data.sampling is not None and config.optimization.batch_tokens is not None:
        raise ConfigError("data.sampling: expected optimization.batch_size, got batch_tokens")
    for name, section in (("classifier", config.classifier), ("decoder", config.decoder)):
        if name not in kind.sections and section != type(section)():
            raise ConfigError(f"{name}: task {task.name!r} has none, as it is answered with {task.answer}")


def _check_generated(config: RunConfig, task: Task) -> None:
    """Refuse a run without a training file if the task's data are not generated, or the run needs files."""
    if task.generated is None:
        raise ConfigError(f"data.train: task {task.name!r} needs a training file; see --data.train")
    if config.data.dev is not None or config.data.has_test or config.folds is not None:
        raise ConfigError("data.train: expected a training file, as there is a dev or test file or cross-validation")


def _new_folder(config: RunConfig) -> str:
    """A folder with the time in its name."""
    name = f"seed{config.seed}"
    if config.folds is not None:
        name += f"-{config.folds}folds" if config.fold is None else f"-fold{config.fold}of{config.folds}"
    name += f"-{time.strftime('%Y%m%d-%H%M%S')}"
    return os.path.join("runs", config.task, config.encoder.replace(":", "."), name)


def _check_streaming(plan: RunPlan) -> None:
    """Refuse configurations that cannot be streamed."""
    config, task, data = plan.config, plan.task, plan.config.data
    if not task.judges_texts:
        raise ConfigError(f"data.streaming: expected a task that is answered with a class or score, got {task.name!r}")
    if data.train is None or data.dev is None:
        raise ConfigError("data.streaming: expected data.train and data.dev, as nothing is held out of streamed data")
    for name in ("limit", "sample", "parses", "parser", "class_weights", "sampling"):
        if getattr(data, name) != getattr(DataConfig, name):
            raise ConfigError(f"data.streaming: expected no data.{name}; structattn convert and parse make the files")
    if (data.phrases or task.phrases) != "none" or config.folds is not None:
        raise ConfigError("data.streaming: expected neither data.phrases nor folds")
    if config.optimization.batch_tokens is not None:
        raise ConfigError("data.streaming: expected optimization.batch_size, got batch_tokens")
    for file in list_files(data.train):
        if not read_start(file).is_parquet:
            raise ConfigError(f"data.streaming: expected Parquet files (structattn convert makes them), got {file}")
