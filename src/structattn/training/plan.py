"""A run as it will be carried out: names, options and files of its configuration, checked and resolved once."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structattn.data import Example
from structattn.data.model_config import ADAPTER, check_backbone, find_model_folder, find_whole_model, read_model_config
from structattn.data.readers.formats import check_format, list_files
from structattn.encoders.table import check_embedder, with_default_embedder
from structattn.errors import ConfigError, ParseError
from structattn.files.text import check_readable, is_parquet, is_pipe
from structattn.tasks import Task
from structattn.tasks.table import check_decoder, get_task, model_kind
from structattn.training.config import FROM_PYTHON, DataConfig, RunConfig

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class RunPlan:
    """A run that can be carried out, as far as can be said before its data are read.

    Attributes:
        config: its configuration.
        task: the task, with the limits of the configuration.
        formats: the data format of each file of ``train``, ``dev`` and ``test``.
        files: every file that it reads data from, patterns expanded.
        examples: ``train``, ``dev`` and ``test`` from Python, in place of files.
    """

    config: RunConfig
    task: Task
    formats: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    examples: Mapping[str, Sequence[Example]] | None = None

    def data_of(self, split: str) -> DataConfig:
        """How to read the file of a split: the configuration of the data, with its format."""
        return dataclasses.replace(self.config.data, format=self.formats[split])

    def with_config(self, **changes: Any) -> "RunPlan":
        """The plan of the same run in another folder, for another seed or one of its folds."""
        return dataclasses.replace(self, config=dataclasses.replace(self.config, **changes))


def plan_run(
    config: RunConfig, *, task: Task | None = None, examples: Mapping[str, Sequence[Example]] | None = None
) -> RunPlan:
    """Check and resolve a configuration. Nothing slow is imported, so that mistakes are reported at once.

    Args:
        config: the configuration.
        task: the task; the one that the configuration names if ``None``.
        examples: ``train``, ``dev`` and ``test`` from Python, in place of files.

    Raises:
        ConfigError: for an unknown task, encoder, format or option, a section that does not apply to the task, files
            that do not go together, or a folder ``config.init`` that this version cannot read.
        ParseError: for a missing, empty or unreadable file.
    """
    task, data = _resolve_task(config, task), config.data
    check_format(data.format)
    if data.train is None:
        check_generated(config, task)
    paths = {name: path for name in SPLITS if (path := getattr(data, name)) is not None}
    files = tuple(
        file
        for path in (*paths.values(), data.parses, data.vectors)
        if path is not None
        for file in list_files(path)
        if _is_file(file)
    )
    for file in files:
        if is_pipe(file):
            raise ParseError("expected a file, as a run reads its data more than once, got a pipe or device", file=file)
        check_readable(file)
    formats = {name: data.format or task.format_of(path) for name, path in paths.items() if _is_file(path)}
    _check_folders(config)
    plan = RunPlan(config, task, formats, files, examples)
    if data.streaming:
        _check_streaming(plan)
    return plan


def check_generated(config: RunConfig, task: Task) -> str:
    """The name of the generator of the data, for a run without a training file.

    Raises:
        ConfigError: if the task's data are not generated, or the configuration needs files.
    """
    data = config.data
    if task.generated is None:
        raise ConfigError(f"data.train: task {task.name!r} needs a training file; see --data.train")
    if data.dev is not None or data.test is not None or config.folds is not None:
        raise ConfigError("data.train: expected a training file, as there is a dev or test file or cross-validation")
    return task.generated


def _resolve_task(config: RunConfig, task: Task | None) -> Task:
    """The task, once the sections of the configuration are known to apply to it, and its names and options to exist."""
    task = get_task(config.task) if task is None else task
    kind = model_kind(task)
    sections = kind.sections
    if config.data.phrases is not None and "phrases" not in sections:
        raise ConfigError(f"data.phrases: task {task.name!r} is answered with {task.answer}, so phrases have no labels")
    if config.data.vectors is not None and "vectors" not in sections:
        raise ConfigError(f"data.vectors: task {task.name!r} learns its own vectors")
    if config.embedder and "vectors" not in sections:
        raise ConfigError(f"embedder: task {task.name!r} learns its own vectors")
    for name, section in (("classifier", config.classifier), ("decoder", config.decoder)):
        if name not in sections and section != type(section)():
            raise ConfigError(f"{name}: task {task.name!r} has none, as it is answered with {task.answer}")
    if kind.check_encoder is not None and ":" not in config.encoder:
        kind.check_encoder(config.encoder, config.options)
        if "vectors" in sections:
            check_embedder(with_default_embedder(config.encoder, config.embedder, config.options))
    if "decoder" in sections:
        check_decoder(config.decoder.name, config.decoder.options)
    longest = config.data.max_length or task.max_length
    return dataclasses.replace(task, max_length=longest, truncation=not config.data.refuse_longer)


def _is_file(path: str) -> bool:
    return not path.startswith(FROM_PYTHON)


def _check_folders(config: RunConfig) -> None:
    """Refuse folders of models that this version cannot read."""
    if config.init is not None:
        read_model_config(find_whole_model(config.init), trust_code=True)
    backbone, adapter = config.embedder.get("folder"), config.options.get("adapter")
    if isinstance(backbone, str):
        check_backbone(backbone)
    if isinstance(adapter, str):
        read_model_config(find_model_folder(adapter, layout=ADAPTER), layout=ADAPTER)


def _check_streaming(plan: RunPlan) -> None:
    """Refuse configurations that cannot be streamed."""
    config, task, data = plan.config, plan.task, plan.config.data
    if task.answer != "label":
        raise ConfigError(f"data.streaming: expected a task that is answered with a class or score, got {task.name!r}")
    if data.train is None or data.dev is None:
        raise ConfigError("data.streaming: expected data.train and data.dev, as nothing is held out of streamed data")
    for name in ("limit", "sample", "parses", "parser"):
        if getattr(data, name) != getattr(DataConfig, name):
            raise ConfigError(f"data.streaming: expected no data.{name}; structattn convert and parse make the files")
    if (data.phrases or task.phrases) != "none" or config.folds is not None:
        raise ConfigError("data.streaming: expected neither data.phrases nor folds")
    if config.optimization.batch_tokens is not None:
        raise ConfigError("data.streaming: expected optimization.batch_size, got batch_tokens")
    for file in list_files(data.train):
        if not is_parquet(file):
            raise ConfigError(f"data.streaming: expected Parquet files (structattn convert makes them), got {file}")
