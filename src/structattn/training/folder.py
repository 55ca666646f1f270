"""The run folder: its files, its lock, and atomic writes.

```
config.yaml             the resolved configuration; ``structattn train --config`` runs it again
environment.json        versions, device, checksums of the data
metrics.jsonl           one line per evaluation
predictions/dev.jsonl   id, gold, predicted, scores of the best model, texts; ``test.jsonl`` likewise
checkpoints/            the state of the unfinished run
best/                   the best model, a Hugging Face folder
plots/                  for pictures
result.json             the best evaluation; its presence says that the run is finished
```

Comparison, prediction and the command line read these folders too.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from structattn.data import Example
from structattn.syntax.errors import ConfigError, StructAttnError
from structattn.syntax.folders import (
    described_by,
    read_json,
    read_yaml,
    remove,
    write_json,
    write_yaml,
)
from structattn.tasks import Evaluation
from structattn.training import machine
from structattn.training.state import preserved_randomness

_LOCK = "lock"
_Result = TypeVar("_Result")


class RunFolder:
    """Paths and files of one run.

    Args:
        path: the folder; it need not exist.

    Example:
        >>> import tempfile
        >>> from structattn.syntax.folders import read_json_lines, write_json_lines
        >>> folder = RunFolder(Path(tempfile.mkdtemp()) / "run")
        >>> with folder.claimed():
        ...     write_json_lines(folder.metrics, [{"step": 1, "accuracy": 0.5}])
        >>> list(read_json_lines(folder.metrics)), folder.is_finished
        ([{'step': 1, 'accuracy': 0.5}], False)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.best = self.path / "best"
        self.plots = self.path / "plots"
        self.result = self.path / "result.json"

    def predictions(self, split: str) -> Path:
        """The predictions of the best model on ``"dev"``, on ``"test"``, or on data that were given a name later."""
        return self.path / "predictions" / f"{split}.jsonl"

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return self.result.is_file()

    def _tidy(self) -> None:
        """Remove temporary files of a killed process."""
        for place in (self.path, self.checkpoints, self.path / "predictions"):
            for old in place.glob(".*.old"):
                target = old.with_name(old.name[1:].removesuffix(".old"))
                if not target.exists():
                    old.rename(target)
            for leftover in place.glob(".*"):
                remove(leftover)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock the folder for this process; it is created if missing, and removed again if nothing was written.

        The lock is the kernel's, so it ends with the process however that ends; the file only names the owner.

        Raises:
            ConfigError: if another process holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / _LOCK
        handle = _lock(lock)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(handle)
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def open_for_run(self, values: Mapping[str, Any], *, resume: bool = False, overwrite: bool = False) -> None:
        """Check that a run may write here; to be called while the folder is locked.

        Args:
            values: the configuration of the run.
            resume: whether the folder may hold an unfinished run with the same configuration, or a finished one.
            overwrite: whether a run in it is removed.

        Raises:
            ConfigError: if the folder holds a run and neither is asked for, a run with another configuration, or
                something else.
        """
        content = {item.name for item in self.path.iterdir()} - {_LOCK}
        if not content:
            return
        if not self.config.is_file():
            raise ConfigError(f"{self.path} is not empty and not a run folder; choose another one")
        if overwrite and not resume:
            for name in content:
                remove(self.path / name)
        elif not resume:
            state = "a finished run" if self.is_finished else "an unfinished run, which can be resumed"
            raise ConfigError(f"{self.path} holds {state}; choose another folder, or overwrite it")
        else:
            self._tidy()
            before = read_yaml(self.config)
            changed = [name for name in values if before.get(name) != values[name]]
            if changed:
                raise ConfigError(f"{self.path}: cannot resume with another {', '.join(changed)}; see {self.config}")

    def describe(self, values: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Write ``environment.json`` and then ``config.yaml``, whose presence makes this a run folder."""
        self.plots.mkdir(exist_ok=True)
        write_json(self.environment, environment)
        write_yaml(self.config, values)

    def clear_if_untrained(self) -> None:
        """Remove a run that failed before its first evaluation: there is nothing to resume."""
        if not any(file.stat().st_size for file in self.path.rglob(self.metrics.name)):
            for item in self.path.iterdir():
                if item.name != _LOCK:
                    remove(item)


def carry_out(
    config: Any,
    place: Callable[[], str | os.PathLike[str]],
    work: Callable[[RunFolder, Any], Mapping[str, Any]],
    read: Callable[[RunFolder, Mapping[str, Any]], _Result],
    *,
    files: Iterable[str | os.PathLike[str] | None] = (),
    resume: bool = False,
    overwrite: bool = False,
) -> _Result:
    """One run from its configuration to ``result.json``, or the result of one that was finished before.

    The folder is locked, checked and described; what the work comes to is written, and only then is the state of the
    unfinished run removed. The caller's random state is put back. Of a run that fails before its first evaluation
    nothing is left.

    Args:
        config: a dataclass with ``hardware``; all of it but ``out`` decides the run.
        place: the path of the run folder, which the first process decides.
        work: trains in the folder with an ``accelerate.Accelerator`` and returns the content of ``result.json``.
        read: what that content means.
        files: what the run reads, whose checksums are kept.
        resume: continue the interrupted run in the folder.
        overwrite: replace the run in the folder.

    Returns:
        What ``read`` makes of ``result.json``.

    Raises:
        ParseError: if the result of a finished run is damaged.
        ConfigError: if the folder is in use, holds a run and neither ``resume`` nor ``overwrite`` is given, or a run
            with another configuration; if there is no such device.
        MissingExtra: if the extra ``train`` is not installed.
    """
    values = plain(config)
    with contextlib.ExitStack() as stack:
        accelerator = stack.enter_context(machine.accelerator_of(config.hardware))
        folder = RunFolder(machine.from_first(place))
        machine.from_first(lambda: stack.enter_context(folder.claimed()))
        stack.enter_context(preserved_randomness())
        machine.from_first(lambda: folder.open_for_run(values, resume=resume, overwrite=overwrite))
        if not machine.from_first(lambda: folder.is_finished):
            try:
                machine.from_first(lambda: folder.describe(values, machine.environment(accelerator.device, files)))
                result = work(folder, accelerator)
                machine.from_first(lambda: write_json(folder.result, result))
            except StructAttnError:
                machine.from_first(folder.clear_if_untrained)
                raise
        machine.from_first(lambda: remove(folder.checkpoints))
        values = machine.from_first(lambda: read_json(folder.result))
        with described_by(folder.result, "a result"):
            return read(folder, values)


def plain(config: Any) -> dict[str, Any]:
    """A configuration as plain values, as YAML gives them back, without the folder: so that the run can be moved."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return {name: value for name, value in values.items() if name != "out"}


def prediction_rows(evaluation: Evaluation, examples: Iterable[Example]) -> Iterator[dict[str, Any]]:
    """For each example id, gold, predicted, the probability of each class as scores, the facts, if any, and the texts.

    Args:
        evaluation: of a model.
        examples: what it was evaluated on.
    """
    for prediction, gold, example in zip(evaluation.predictions, evaluation.gold, examples, strict=True):
        facts = {} if prediction.facts is None else {"facts": list(prediction.facts)}
        yield {
            "id": prediction.id,
            "gold": gold,
            "predicted": prediction.answer,
            "scores": dict(prediction.probabilities),
            **facts,
            "texts": [sentence.text for sentence in example.sentences],
        }


def _lock(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 32).decode().strip()
            os.close(handle)
            raise ConfigError(f"{path.parent} is in use by process {owner}") from None
        # Its last owner may have removed the file between the two calls; a lock on a removed file protects nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == os.fstat(handle).st_ino:
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        os.close(handle)
