"""Records of finished runs: one line for each in ``papers/<system>/results/<row>.jsonl``."""

import base64
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

import structattn
from structattn import __version__
from structattn.errors import ConfigError
from structattn.files.json_yaml import naming_description, read_json, read_json_lines, read_yaml
from structattn.files.text import parse_json
from structattn.tasks.counted_metrics import Counted
from structattn.tasks.metrics import METRICS
from structattn.training import RunFolder
from structattn_papers.reproduction.golden import same_output
from structattn_papers.reproduction.rows import Row, symbolic

# Which answers were right is kept for at most this many examples: one character for four.
_KEPT = 12_000
ANSWERED = ("accuracy", "exact_match")
"""Metrics that are the share of examples answered correctly."""
_PREDICTIONS = ("predictions/test.jsonl", "predictions/dev.jsonl", "predictions.json")


@dataclass(frozen=True)
class Record:
    """The record of a finished run.

    Attributes:
        seed: its seed.
        command: the command, with names of places instead of folders.
        config: the hash of its resolved configuration, ``Row.digest``.
        version: version of the code: the package's, and the commit if there is one.
        data: the checksum of every file that was read.
        split: what the metrics were measured on.
        metrics: the metrics of the run; if it was measured on test data, also those on dev, as ``dev_accuracy`` and so
            on.
        seconds: training time.
        machine: processor, threads and torch.
        golden: the golden output of the row at that time, see ``golden_output``.
        examples: number of examples measured on.
        order: hash of their ids and true answers: only runs on the same examples may be compared.
        right: which of them were answered correctly, four bits per character; for labels, and answers to questions.
        gold: the true answers, if they are numbers.
        predicted: the predicted numbers, to four digits.
        counts: for metrics that are computed from counts, such as BLEU, the counts of each example, ``packed``.
        predictions: hash of the file of predictions.
        values: the value that a study has chosen for each option of its space.
        processor_seconds: seconds of the processor, of all threads; ``None`` if the run was resumed.
        step: the gradients of one training step at that time, see ``golden_step``.
    """

    seed: int
    command: str
    config: str
    version: str
    data: Mapping[str, str]
    split: str
    metrics: Mapping[str, int | float]
    seconds: int | float
    machine: str
    golden: Sequence[float] | None = None
    examples: int | None = None
    order: str | None = None
    right: str | None = None
    gold: Sequence[float | int] | None = None
    predicted: Sequence[float | int] | None = None
    counts: Mapping[str, str] | None = None
    predictions: str | None = None
    values: Mapping[str, Any] | None = None
    processor_seconds: int | float | None = None
    step: Mapping[str, Any] | None = None

    @property
    def is_right(self) -> np.ndarray | None:
        """For each example, whether it was answered correctly.

        Example:
            >>> record = Record(1, "", "", "", {}, "dev", {}, 0.0, "", examples=5, right=bits([1, 0, 1, 1, 1]))
            >>> record.right, record.is_right.tolist()
            ('b8', [True, False, True, True, True])
        """
        if self.right is None or self.examples is None:
            return None
        packed = np.frombuffer(bytes.fromhex(self.right.ljust(-(-len(self.right) // 2) * 2, "0")), dtype=np.uint8)
        return np.unpackbits(packed)[: self.examples].astype(bool)


@dataclass(frozen=True)
class Recorded:
    """The records of a row that count: the latest of each seed.

    Attributes:
        row: the row.
        records: one for each seed, in the order of the seeds.
        is_older: whether they were made with another configuration or model than the row has now.
        has_drifted: whether one was run again since with another result.
    """

    row: Row
    records: tuple[Record, ...]
    is_older: bool = False
    has_drifted: bool = False

    def values(self, metric: str) -> list[int | float]:
        """A metric for each seed that has it."""
        return [record.metrics[metric] for record in self.records if metric in record.metrics]


def bits(right: Sequence[Any]) -> str:
    """Truth values as hexadecimal digits, four values per digit.

    Example:
        >>> bits([True, False, False, True, True])
        '98'
    """
    return np.packbits(np.asarray(right, dtype=bool)).tobytes().hex()[: -(-len(right) // 4)]


def packed(counts: Float[np.ndarray, "example count"]) -> str:
    """Whole numbers below 65,536 as text.

    Example:
        >>> unpacked(packed(np.array([[1.0, 2.0], [0.0, 400.0]])), 2).tolist()
        [[1.0, 2.0], [0.0, 400.0]]
    """
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), level=9)).decode()


def unpacked(text: str, examples: int) -> Float[np.ndarray, "example count"]:
    """The inverse of ``packed``."""
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2")
    return numbers.reshape(examples, -1).astype(np.float64)


def read_records(row: Row) -> list[Record]:
    """All records of a row, the oldest first.

    Raises:
        ParseError: with file and line, for a line that is not a record.
    """
    if not row.records.is_file():
        return []
    known = {item.name for item in dataclasses.fields(Record)}
    found = []
    for values in read_json_lines(row.records, keys=("seed", "config", "metrics", "split")):
        with naming_description(row.records, "a record"):
            found.append(Record(**{name: value for name, value in values.items() if name in known}))
    return found


def recorded(row: Row, golden: Sequence[float] | None) -> Recorded:
    """The records of a row that count.

    Records of the row's present configuration and model count. If there are none, the latest record of each seed
    counts, and the result ``is_older``.

    Args:
        row: the row.
        golden: its present golden output.
    """
    records = read_records(row)
    present = [one for one in records if is_present(one, row, golden)]
    latest = {record.seed: record for record in present or records}
    return Recorded(row, tuple(latest[seed] for seed in sorted(latest)), is_older=bool(records) and not present)


def is_present(record: Record, row: Row, golden: Sequence[float] | None) -> bool:
    """Whether a record belongs to the configuration and the model that the row has now."""
    return record.config == row.digest and same_output(record.golden, golden)


def append_record(row: Row, record: Record) -> None:
    """Add a line to the records of a row, and remove the part of a line that a killed process left.

    A whole line is kept even if an editor left out the line break at its end.
    """
    append_line(row.records, {name: value for name, value in dataclasses.asdict(record).items() if value is not None})


def append_line(path: Path, values: Mapping[str, Any]) -> None:
    """Add a JSON line to a file, in place of the part of a line that a killed process left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(values, ensure_ascii=False) + "\n"
    with open(path, "a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        written = stream.read()
        end = written.rfind(b"\n") + 1
        if _is_json(written[end:]):
            stream.write(b"\n")
        else:
            stream.truncate(end)
        stream.write(line.encode())
        stream.flush()
        os.fsync(stream.fileno())


def _is_json(text: bytes) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def record_of(row: Row, seed: int, path: Path, *, places: Mapping[str, str]) -> Record:
    """The record of a finished run.

    Args:
        row: the row.
        seed: its seed.
        path: its run folder.
        places: the path of each place.

    Raises:
        ConfigError: if the folder contains a run with another configuration than the row's.
        ParseError: if a file of it is damaged.
    """
    folder = RunFolder(path)
    config, environment, result = read_yaml(folder.config), read_json(folder.environment), read_json(folder.result)
    check_digest(row, row.digest_of(config, places), path)
    file = next((path / name for name in _PREDICTIONS if (path / name).is_file()), None)
    # Metrics and predictions are of the same examples: the test data, if the run has any. Folds have means.
    tested = config.get("folds") is None and bool(result.get("test"))
    metrics = _with_dev(result) if tested else _metrics(result)
    common = common_record(row, seed, config, environment, places)
    return dataclasses.replace(
        common,
        split=_test_split(config) if tested else common.split,
        metrics=metrics,
        seconds=round(float(result.get("seconds", 0.0)), 1),
        predictions=None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:16],
        **_answers(file, metrics),
    )


def common_record(
    row: Row, seed: int, config: Mapping[str, Any], environment: Mapping[str, Any], places: Mapping[str, str]
) -> Record:
    """The common part of every record: command, hash, versions, checksums, split and machine, without figures."""
    return Record(
        seed,
        "structattn " + " ".join(row.words()),
        row.digest,
        code_version(),
        symbolic(_short(environment.get("sha256", {})), places),
        _split(config),
        {},
        0.0,
        _machine(environment),
    )


def check_digest(row: Row, digest: str, path: Path) -> None:
    """Check that a folder contains a run or study of a row's configuration.

    Raises:
        ConfigError: if it does not.
    """
    if digest != row.digest:
        raise ConfigError(
            f"{path} contains a run of another configuration than {row}; remove it, or give another --out"
        )


def code_version() -> str:
    """The version of the package, with the commit if Git tracks the package, and ``+`` if it has changed since."""
    package = Path(structattn.__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(package), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    with contextlib.suppress(FileNotFoundError):
        if git("ls-files", "__init__.py"):
            changed = "+" if git("status", "--porcelain", "--", ".") else ""
            return f"{__version__} {git('rev-parse', '--short=10', 'HEAD')}{changed}"
    return __version__


def _short(sums: Mapping[str, str]) -> dict[str, Any]:
    return {name: value[:16] for name, value in sums.items()}


def _split(config: Mapping[str, Any]) -> str:
    if config.get("folds") is not None:
        return f"{config['folds']} folds"
    data = config.get("data")
    if not isinstance(data, Mapping):
        return "dev"
    if data.get("train") is None:
        return "generated dev"
    return "dev" if data.get("dev") is not None else f"held-out {data['holdout']:g}"


def _test_split(config: Mapping[str, Any]) -> str:
    data = config.get("data")
    if not isinstance(data, Mapping):
        return "test"
    if data.get("train") is None:
        return "generated test"
    return f"held-out {data['test_size']}" if data.get("test_size") else "test"


def _metrics(result: Mapping[str, Any]) -> dict[str, int | float]:
    """The metrics of a result; for a result of another form, its numbers."""
    values = result["metrics"] if isinstance(result.get("metrics"), Mapping) else result
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name != "seconds"
    }


def _with_dev(result: Mapping[str, Any]) -> dict[str, int | float]:
    """The metrics on test data, and those on dev under another name."""
    dev = {f"dev_{name}": value for name, value in _metrics(result).items()}
    return {**_metrics({"metrics": result["test"]}), **dev}


def _machine(environment: Mapping[str, Any]) -> str:
    device = environment.get("device", "cpu")
    if device == "cpu":
        device = processor()
    threads = environment.get("threads", 1)
    return f"{device}, {threads} thread{'s' if threads != 1 else ''}, torch {environment.get('torch')}"


def processor() -> str:
    """The name of this machine's processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as stream:
        for line in stream:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _answers(file: Path | None, metrics: Iterable[str]) -> dict[str, Any]:
    """Which examples were answered correctly, for labels and scored texts; for numbers the answers."""
    if file is None or file.suffix != ".jsonl":
        return {}
    order, gold, predicted, exact = hashlib.sha256(), [], [], []
    for row in _rows(file):
        order.update(f"{row['id']}\t{row['gold']}\n".encode())
        gold.append(row["gold"])
        predicted.append(row["predicted"])
        exact.append(row.get("exact_match", row["predicted"] == row["gold"]))
    found: dict[str, Any] = {"examples": len(gold), "order": order.hexdigest()[:16]}
    if len(gold) > _KEPT:
        return found
    if all(isinstance(one, str) for one in predicted):
        known = {name: METRICS[name].function for name in metrics if name in METRICS}
        counted = {name: one for name, one in known.items() if isinstance(one, Counted)}
        # Questions have several true answers, but no such metric.
        texts = (np.asarray(gold, dtype=np.str_), np.asarray(predicted, dtype=np.str_)) if counted else ()
        counts = {name: packed(one.counts(*texts)) for name, one in counted.items()}
        return {**found, "right": bits(exact), "counts": counts or None}
    if all(isinstance(one, float | int) for one in (*gold, *predicted)):
        return {**found, "gold": gold, "predicted": [float(f"{one:.4g}") for one in predicted]}
    return found


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    return read_json_lines(file, keys=("id", "gold", "predicted"))
