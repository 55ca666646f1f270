"""One run from a configuration to a run folder, and resuming an interrupted one."""

import contextlib
import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import structattn
from structattn.encoders.build import check_trusted
from structattn.syntax.errors import ConfigError, StructAttnError, require
from structattn.syntax.folders import described_by, read_json, remove, write_json
from structattn.tasks import Task
from structattn.training import processes
from structattn.training.checkpoint import load
from structattn.training.config import RunConfig, load_config
from structattn.training.folder import RunFolder
from structattn.training.history import BOOKKEEPING
from structattn.training.initial import start_from
from structattn.training.memory import peak_memory
from structattn.training.predictions import write_predictions
from structattn.training.preparation import Split, checksums, count_parameters, prepare_model, read_split, task_of
from structattn.training.state import preserved_randomness


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        folder: the run folder; ``structattn.load(folder)`` gives the best model.
        metrics: the task's metrics of the best model on dev; for cross-validation the means over the folds on their
            test parts, with ``<metric>_sd`` beside them.
        test: the metrics of the best model on the test data, if there are any.
        parameters: trained parameters apart from word vectors.
        seconds: spent in training.
        peak_memory: peak memory of the process, in MiB; see ``training/memory.py``.
        best: the row of ``metrics.jsonl`` that belongs to the best model.
    """

    folder: Path
    metrics: Mapping[str, float]
    test: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0
    seconds: float = 0.0
    peak_memory: float = 0.0
    best: Mapping[str, Any] = field(default_factory=dict)


def run(config: RunConfig, *, resume: bool = False, overwrite: bool = False, trust_code: bool = False) -> RunResult:
    """Train as configured and leave a run folder.

    Args:
        config: the configuration.
        resume: continue the interrupted run in ``config.out``; a finished one is only read.
        overwrite: replace the run in ``config.out``.
        trust_code: whether code that the folder ``config.init`` names may be imported and run; the encoder of
            ``config`` itself is the caller's.

    Raises:
        ConfigError: for options that are unknown or do not fit the data; if the folder is in use, or holds a run and
            neither ``resume`` nor ``overwrite`` is given; if the run to resume was configured otherwise.
        ParseError: with file and line, for malformed data.
        MissingExtra: if the extra ``train`` is not installed.
    """
    require("transformers", "train")
    require("accelerate", "train")
    if resume and config.out is None:
        raise ConfigError("resume needs out: the run folder to go on with")
    task = task_of(config)
    _check_device(config)
    processes.connect(cpu=config.device == "cpu" or not torch.cuda.is_available())
    if config.folds is not None and config.fold is None:
        from structattn.training.cross_validation import cross_validate

        return cross_validate(config, resume=resume, overwrite=overwrite, trust_code=trust_code)
    folder = RunFolder(processes.from_first(lambda: choose_folder(config)))
    with claimed(folder), preserved_randomness():
        processes.from_first(lambda: open_folder(folder, config, resume=resume, overwrite=overwrite))
        if folder.is_finished:
            return read_result(folder)
        try:
            return _train(config, task, folder, resume=resume, trust_code=trust_code)
        except StructAttnError:
            if processes.is_first():
                folder.clear_if_untrained()
            raise


def resume(folder: str | os.PathLike[str], *, trust_code: bool = False) -> RunResult:
    """Resume the interrupted run in a folder; a finished one is only read.

    Args:
        folder: of the run.
        trust_code: whether an encoder that the folder names as ``module:function`` may be imported and run.

    Raises:
        ConfigError: if the folder is in use, is no run folder, or names code that is not trusted.
    """
    file = RunFolder(folder).config
    config = load_config(file)
    check_trusted(config.encoder, source=file, trust_code=trust_code)
    return run(dataclasses.replace(config, out=os.fspath(folder)), resume=True, trust_code=trust_code)


def read_result(folder: RunFolder) -> RunResult:
    """The result of a finished run.

    Raises:
        ParseError: if it is missing or damaged; the message names the file.
    """
    values = read_json(folder.result)
    known = {item.name for item in dataclasses.fields(RunResult)} - {"folder"}
    with described_by(folder.result, "a result"):
        return RunResult(folder.path, **{name: value for name, value in values.items() if name in known})


def choose_folder(config: RunConfig) -> Path:
    """The folder that the configuration names, or a new one with the time in its name."""
    if config.out is not None:
        return Path(config.out)
    name = f"seed{config.seed}"
    if config.folds is not None:
        name += f"-{config.folds}folds" if config.fold is None else f"-fold{config.fold}of{config.folds}"
    return Path("runs", config.task, config.encoder.replace(":", "."), f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")


@contextlib.contextmanager
def claimed(folder: RunFolder) -> Iterator[None]:
    """Lock the folder for all processes of this run; the first one holds the lock."""
    with contextlib.ExitStack() as stack:
        processes.from_first(lambda: stack.enter_context(folder.claimed()))
        yield


def open_folder(folder: RunFolder, config: RunConfig, *, resume: bool, overwrite: bool) -> None:
    """Check that the run may write here, and that a run to resume is this one.

    Raises:
        ConfigError: as ``run``.
    """
    folder.open_for_run(resume=resume, overwrite=overwrite)
    folder.require_same(_stored(config).to_dict(), read=lambda path: load_config(path).to_dict())


def write_description(folder: RunFolder, config: RunConfig, environment: Mapping[str, Any]) -> None:
    """Write ``config.yaml`` and ``environment.json``, and make the folder for pictures."""
    folder.plots.mkdir(exist_ok=True)
    write_json(folder.environment, environment)
    # Last, as its presence makes this a run folder.
    folder.describe(_stored(config).to_dict())


def write_result(folder: RunFolder, result: RunResult, task: Task) -> None:
    """Write ``result.json``, which marks the run as finished."""
    values = {name: value for name, value in dataclasses.asdict(result).items() if name != "folder"}
    write_json(folder.result, {"main_metric": task.main_metric.name, **values})


def environment(config: RunConfig) -> dict[str, Any]:
    """The environment of a run."""
    versions = {
        name: require(name, "train").__version__ for name in ("numpy", "safetensors", "transformers", "accelerate")
    }
    on_gpu = config.device != "cpu" and torch.cuda.is_available()
    return {
        "structattn": structattn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        **versions,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
        "processes": processes.count(),
        "command": sys.argv,
        "sha256": checksums(config.data),
    }


def _train(config: RunConfig, task: Task, folder: RunFolder, *, resume: bool, trust_code: bool) -> RunResult:
    from structattn.training.trainer import fit

    split = read_split(config, task)
    torch.manual_seed(config.seed)
    model = prepare_model(config, task, split)
    if config.init is not None:
        start_from(model, config.init, trust_code=trust_code)
    if processes.is_first():
        write_description(folder, config, environment(config))
    history = fit(
        model,
        split.train,
        dev=split.dev,
        config=config.optimization,
        folder=folder,
        seed=config.seed,
        device=config.device,
        resume=resume,
    )
    metrics = {name: value for name, value in history.best.items() if name not in BOOKKEEPING}
    result = RunResult(
        folder.path,
        metrics,
        parameters=count_parameters(model),
        seconds=history.last["seconds"],
        peak_memory=peak_memory(next(model.parameters()).device),
        best=history.best,
    )
    return processes.from_first(lambda: _finish(result, config, task, split, folder))


def _finish(result: RunResult, config: RunConfig, task: Task, split: Split, folder: RunFolder) -> RunResult:
    if split.test:
        # The folder of a run to resume may come from anybody: it may name the encoder of this run and no other code.
        evaluation = load(folder.best, trust_code=config.encoder).evaluate(split.test)
        write_predictions(folder.predictions("test"), split.test, evaluation)
        result = dataclasses.replace(result, test=dict(evaluation.metrics))
    write_result(folder, result, task)
    # Only now: until the result stands, an interrupted run must find its state.
    remove(folder.checkpoints)
    return result


def _check_device(config: RunConfig) -> None:
    if torch.cuda.is_available():
        return
    if config.device == "cuda":
        raise ConfigError("device: cuda is not available on this machine; take cpu")
    if config.optimization.mixed_precision == "fp16":
        raise ConfigError("optimization.mixed_precision: fp16 needs a GPU; on a CPU take bf16 or no")


def _stored(config: RunConfig) -> RunConfig:
    """Without the folder, so that running ``config.yaml`` again makes a new one."""
    return RunConfig.from_dict(json.loads(json.dumps(dataclasses.replace(config, out=None).to_dict())))
