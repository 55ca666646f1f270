"""One run from its configuration to its result, in a folder of its own."""

import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch

import structattn
from structattn.data.model_card import Trained, write_card
from structattn.files.json_yaml import naming_description, read_json, write_json, write_yaml
from structattn.files.text import checksum
from structattn.tasks.reports import Report
from structattn.training import distributed
from structattn.training.checkpoint import preserved_randomness
from structattn.training.run_config import FROM_PYTHON
from structattn.training.run_folder import RunFolder, plain_values, stated_values

_Result = TypeVar("_Result")


def carry_out(
    config: Any,
    work: Callable[[RunFolder, Any], Mapping[str, Any]],
    read: Callable[[RunFolder, Mapping[str, Any]], _Result],
    *,
    name: str,  # the command, for the model card
    files: Iterable[str | os.PathLike[str] | None] = (),  # what the run reads; their checksums are kept
    resume: bool = False,
    overwrite: bool = False,
) -> _Result:
    """Carry out one run from its ``RunSettings`` to ``result.json``, or read the result if the run is finished.

    ``work`` trains in the folder and returns what ``result.json`` contains, which ``read`` makes the result of.
    """
    with contextlib.ExitStack() as stack:
        accelerator = stack.enter_context(distributed.open_accelerator(config.hardware, report_to=config.report_to))
        # Each process has made a name with the time in it.
        out = distributed.from_first(lambda: config.out)
        folder = RunFolder(out)
        environment: dict[str, Any] = {}

        def describe(folder: RunFolder) -> None:
            environment.update(_collect_environment(accelerator.device, files))
            _describe(folder, config, environment)

        running = folder.running(config, describe, resume=resume, overwrite=overwrite)
        distributed.from_first(lambda: stack.enter_context(running))
        if not distributed.from_first(lambda: folder.is_finished):
            with preserved_randomness():
                result = work(folder, accelerator)
            values = distributed.from_first(lambda: _finish(folder, name, result, stated_values(config), environment))
        else:
            values = distributed.from_first(lambda: read_json(folder.result))
    with naming_description(folder.result, "a result"):
        return read(folder, values)


def peak_memory(device: torch.device) -> float:
    """The peak memory of this process so far, in MiB: on a GPU that of torch's tensors there, on a CPU all of it."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def _describe(folder: RunFolder, config: Any, environment: Mapping[str, Any]) -> None:
    """Write ``environment.json`` and then ``config.yaml``, whose presence makes this a run folder."""
    if folder.is_trained:
        folder.check_data(environment["sha256"])
    folder.plots.mkdir(exist_ok=True)
    write_json(folder.environment, environment)
    write_yaml(folder.config, plain_values(config))


def _collect_environment(device: torch.device, files: Iterable[str | os.PathLike[str] | None]) -> dict[str, Any]:
    """Versions, machine and command of a run, and the checksums of the files that it reads."""
    versions: dict[str, str | None] = {}
    for name in ("accelerate", "numpy", "safetensors", "tokenizers", "transformers"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "structattn": structattn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        **versions,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "processes": distributed.num_processes(),
        "command": sys.argv,
        "directory": os.getcwd(),
        "sha256": {os.fspath(file): checksum(file) for file in files if file is not None and Path(file).is_file()},
    }


def _finish(
    folder: RunFolder, name: str, result: Mapping[str, Any], config: Mapping[str, Any], environment: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the result of a run, and the card of its best model; a run over all folds keeps no model.

    Returns what ``result.json`` contains, as it will be read; ``example`` is for the card alone.
    """
    result, example = {key: value for key, value in result.items() if key != "example"}, result.get("example")
    if folder.best.is_dir():
        from_python = str((config.get("data") or {}).get("train")).startswith(FROM_PYTHON)
        counts = [result[key] for key in ("examples", "sentences", "questions") if key in result]
        versions = ("structattn", "python", "torch", "transformers", "device")
        trained = Trained(
            None if from_python else f"structattn {name} --config config.yaml --out again",
            config,
            scores={"dev": result["metrics"], "test": result.get("test", {})},
            counts=counts[0],
            checksums=environment["sha256"],
            environment={key: environment[key] for key in versions if environment[key] is not None},
            metric=result.get("main_metric"),
            reports={part: Report.from_dict(report).markdown() for part, report in result.get("reports", {}).items()},
            example=example,
        )
        write_card(folder.best, trained)
    write_json(folder.result, result)
    values: dict[str, Any] = json.loads(json.dumps(result))
    return values
