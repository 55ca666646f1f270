"""The run folder: its files, its lock, and the result of the run.

```
config.yaml             the resolved configuration; ``structattn train --config`` runs it again
environment.json        versions, device, checksums of the data
metrics.jsonl           one line per evaluation: step, epoch, training, metrics, values, seconds, is_best
predictions/dev.jsonl   id, gold, predicted, scores of the best model, texts; ``test.jsonl`` the same
checkpoint.safetensors  the state of the unfinished run
best/                   the best model, a Hugging Face folder, with its model card
plots/                  for pictures
result.json             the best evaluation, with reports by class; its presence marks the run as finished
```

Comparison, prediction and the command line read these folders too.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structattn.errors import ConfigError
from structattn.files.json_yaml import naming_description, read_json, read_yaml
from structattn.files.replacing import (
    ASIDE,
    claim_folder,
    clear_content,
    list_content,
    remove,
    remove_leftovers,
    set_content_aside,
    settle_content,
)
from structattn.files.urls import check_local


class RunFolder:
    """Paths and files of one run.

    Args:
        path: the folder; it need not exist.

    Example:
        >>> import tempfile
        >>> from structattn.files.json_yaml import read_json_lines, write_json_lines
        >>> folder = RunFolder(Path(tempfile.mkdtemp()) / "run")
        >>> with folder.claimed():
        ...     write_json_lines(folder.metrics, [{"step": 1, "metrics": {"accuracy": 0.5}}])
        >>> list(read_json_lines(folder.metrics)), folder.is_finished
        ([{'step': 1, 'metrics': {'accuracy': 0.5}}], False)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_local(path)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.best = self.path / "best"
        self.plots = self.path / "plots"
        self.result = self.path / "result.json"

    def predictions(self, split: str) -> Path:
        """The file of the best model's predictions on ``"dev"``, on ``"test"``, or on later data under another name."""
        return self.path / "predictions" / f"{split}.jsonl"

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return self.result.is_file()

    def claimed(self) -> contextlib.AbstractContextManager[None]:
        """Lock the folder for this process.

        The folder and its parents are created if missing, and removed again if nothing was written.

        The kernel holds the lock, so it is released however the process ends; the lock file only names the owner.

        Raises:
            ConfigError: if another process holds it.
        """
        return claim_folder(self.path)

    def check_free(self, config: Any = None, *, resume: bool = False, overwrite: bool = False) -> None:
        """Check that a run may write here.

        Args:
            config: the configuration of the run; not needed to overwrite one.
            resume: whether the folder may contain an unfinished run with the same configuration, or a finished one.
            overwrite: whether a run in it may be removed.

        Raises:
            ConfigError: if the folder contains a run and neither is asked for, a run with another configuration, or
                anything else.
        """
        if not self.config.is_file():
            if list_content(self.path):
                raise ConfigError(f"{self.path} is not empty and not a run folder; choose another one")
        elif resume:
            values, previous = plain_values(config), read_yaml(self.config)
            changed = [name for name in values if previous.get(name) != values[name]]
            if changed:
                names = ", ".join(changed)
                raise ConfigError(f"{self.path}: cannot resume with other values of {names}; see {self.config}")
        elif not overwrite:
            state = "a finished run" if self.is_finished else "an unfinished run, which can be resumed (--resume)"
            raise ConfigError(f"{self.path} contains {state}; choose another folder, or overwrite it (--overwrite)")

    @contextlib.contextmanager
    def running(
        self,
        config: Any,
        describe: Callable[["RunFolder"], object],
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> Iterator[None]:
        """Lock the folder while a run writes to it; a finished run is only to be read.

        A run that fails before its first evaluation leaves nothing behind, and the run that it was to replace is put
        back. A later interrupt carries a note that says how to resume the run.

        Args:
            config: the configuration of the run, a ``RunSettings``.
            describe: writes ``environment.json`` and ``config.yaml``, unless the run is finished.
            resume: whether the folder may contain an unfinished run with the same configuration, or a finished one.
            overwrite: whether a run in it is replaced.

        Raises:
            ConfigError: if another process holds the folder; as ``check_free``.
        """
        with self.claimed():
            settle_content(self.path, stays=self.is_trained)  # after a process that was killed
            self.check_free(config, resume=resume, overwrite=overwrite)
            if not resume:
                set_content_aside(self.path)
            else:
                for folder in (self.path, self.path / "predictions"):
                    remove_leftovers(folder)
            try:
                if not self.is_finished:
                    describe(self)
                yield
            except BaseException as error:
                if not self.is_trained:
                    clear_content(self.path)
                elif isinstance(error, KeyboardInterrupt):
                    way = f"--seed {config.seed} --out {self.path} --resume"
                    error.add_note(f"{self.path} keeps the run so far; resume it with {way}")
                raise
            finally:
                settle_content(self.path, stays=self.is_trained)
            remove(self.checkpoint)

    @property
    def is_trained(self) -> bool:
        """Whether the run has had an evaluation; before the first, there is nothing to resume."""
        if self.is_finished:
            return True
        histories = self.path.rglob(self.metrics.name)
        return any(file.stat().st_size for file in histories if self.path / ASIDE not in file.parents)

    def check_data(self, checksums: Mapping[str, str]) -> None:
        """Check that the run has read the same files so far.

        Args:
            checksums: checksums of the present files, by their paths.

        Raises:
            ConfigError: if the content of a file has changed; the message names it. The same content under another name
                is no change.
        """
        previous = read_json(self.environment).get("sha256") if self.environment.is_file() else None
        if not isinstance(previous, dict):
            return
        changed = [file for file, content in checksums.items() if previous.get(file, content) != content]
        for files, counterparts in ((checksums, previous), (previous, checksums)):
            contents = counterparts.values()
            changed += [file for file in files if file not in counterparts and files[file] not in contents]
        if changed:
            reason = f"the content of {', '.join(changed)} has changed since the run began"
            raise ConfigError(f"{self.path}: cannot resume: {reason}; see {self.environment}")


def plain_values(config: Any) -> dict[str, Any]:
    """A configuration as plain values, as read from YAML; without the folder, so that the run can be moved."""
    values: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    return {name: value for name, value in values.items() if name != "out"}


def stated_values(config: Any) -> dict[str, Any]:
    """The same without what is ``None`` by default and in this configuration, as most options of most runs are."""
    return _leave_out_nulls(plain_values(config), config)


def _leave_out_nulls(values: Mapping[str, Any], config: Any) -> dict[str, Any]:
    defaults = {item.name: item.default for item in dataclasses.fields(config)}
    sections = {name: getattr(config, name, None) for name in values}
    return {
        name: _leave_out_nulls(value, sections[name]) if dataclasses.is_dataclass(sections[name]) else value
        for name, value in values.items()
        if value is not None or defaults.get(name, ...) is not None
    }


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
        reports: what lies behind the metrics on dev and test, see ``Evaluation.report``, as plain values.
    """

    folder: Path
    metrics: Mapping[str, float]
    test: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0
    seconds: float = 0.0
    peak_memory: float = 0.0
    examples: Mapping[str, int] = field(default_factory=dict)
    best: Mapping[str, Any] = field(default_factory=dict)
    reports: Mapping[str, Any] = field(default_factory=dict, repr=False)


def read_result(folder: RunFolder) -> RunResult:
    """The result of a finished run; an error names the missing or damaged file."""
    values = read_json(folder.result)
    with naming_description(folder.result, "a result"):
        return make_result(folder, values)


def make_result(folder: RunFolder, values: Mapping[str, Any]) -> RunResult:
    """The result that the values of a result file describe; unknown values are left out."""
    fields = {item.name for item in dataclasses.fields(RunResult)} - {"folder"}
    return RunResult(folder.path, **{name: value for name, value in values.items() if name in fields})
