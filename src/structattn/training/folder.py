"""The run folder: its files, its lock, and atomic writes.

```
config.yaml             the resolved configuration; ``structattn train --config`` runs it again
environment.json        versions, device, checksums of the data
metrics.jsonl           one line per evaluation
predictions/dev.jsonl   id, gold, predicted, scores of the best model; ``test.jsonl`` likewise
checkpoints/            the state of the unfinished run
best/                   the best model, a Hugging Face folder
plots/                  for pictures
result.json             the best evaluation; its presence says that the run is finished
```

Comparison, prediction and the command line read these folders too.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from structattn.syntax import replace_text
from structattn.syntax.errors import ConfigError
from structattn.syntax.folders import read_yaml, remove

_LOCK = "lock"


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
        """The predictions of the best model on ``"dev"`` or ``"test"``."""
        return self.path / "predictions" / f"{split}.jsonl"

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return self.result.is_file()

    def _tidy(self) -> None:
        """Remove temporary files of a killed process."""
        for old in self.path.glob(".*.old"):
            target = old.with_name(old.name[1:].removesuffix(".old"))
            if not target.exists():
                old.rename(target)
        for leftover in [*self.path.glob(".*"), *self.path.glob("predictions/.*")]:
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

    def open_for_run(self, *, resume: bool = False, overwrite: bool = False) -> None:
        """Check that a run may write here; to be called while the folder is locked.

        Raises:
            ConfigError: if the folder holds a run and neither is asked for, or holds something else.
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

    def describe(self, values: Mapping[str, Any]) -> None:
        """Write ``config.yaml``; its presence makes this a run folder."""
        with replace_text(self.config) as stream:
            stream.write(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))

    def require_same(
        self, values: Mapping[str, Any], *, read: Callable[[Path], Mapping[str, Any]] | None = None
    ) -> None:
        """Raise if the folder has a run with another configuration.

        Args:
            values: what ``describe`` would write now.
            read: gives what it wrote then; its text as it stands by default.

        Raises:
            ConfigError: naming what differs.
        """
        if not self.config.is_file():
            return
        before = read_yaml(self.config) if read is None else read(self.config)
        changed = [name for name in values if before.get(name) != values[name]]
        if changed:
            raise ConfigError(f"{self.path}: cannot resume with another {', '.join(changed)}; see {self.config}")

    def clear_if_untrained(self) -> None:
        """Remove a run that failed before its first evaluation: there is nothing to resume."""
        if not self.metrics.exists() or not self.metrics.stat().st_size:
            for item in self.path.iterdir():
                if item.name != _LOCK:
                    remove(item)


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
