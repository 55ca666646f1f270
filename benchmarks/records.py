"""What benchmarks printed, kept in ``benchmarks/results`` for the page that shows their tables."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from structattn.files.json_yaml import naming_description
from structattn.files.replacing import replace_text

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Record:
    """One run of a benchmark.

    Attributes:
        command: what was run.
        threads: how many each of its parts had.
        version: of the code, see ``code_version``.
        machine: processor and torch.
        seconds: of the whole run.
        output: the lines that it printed.
    """

    command: str
    threads: tuple[int, ...]
    version: str
    machine: str
    seconds: float
    output: tuple[str, ...]

    def tables(self) -> Iterator[list[dict[str, str]]]:
        """The tables that it printed: lines of cells by the names of their columns."""
        names: list[str] = []
        rows: list[dict[str, str]] = []
        for line in (*self.output, ""):
            cells = [cell.strip() for cell in line.strip("|\n").split("|")]
            if not line.startswith("|"):
                if names:
                    yield rows
                names, rows = [], []
            elif not names:
                names = _unique(cells)
            elif set(line) != set("|-"):
                rows.append(dict(zip(names, cells, strict=True)))


def save(part: str, record: Record, folder: Path = RESULTS) -> None:
    """Keep a record, in place of that of the same part and threads."""
    records = {**{previous.threads: previous for previous in read(part, folder)}, record.threads: record}
    folder.mkdir(parents=True, exist_ok=True)
    with replace_text(folder / f"{part}.json") as stream:
        rows = [asdict(records[threads]) for threads in sorted(records)]
        stream.write(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def read(part: str, folder: Path = RESULTS) -> list[Record]:
    """The records of a part, of few threads first; none if it has not run."""
    path = folder / f"{part}.json"
    if not path.is_file():
        return []
    with naming_description(path, "a list of records of benchmarks"):
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [Record(**{**row, "threads": tuple(row["threads"]), "output": tuple(row["output"])}) for row in rows]


def _unique(names: Sequence[str]) -> list[str]:
    """Names of which a second one of the same kind is told from the first."""
    return [f"{name} {names[:at].count(name) + 1}" if name in names[:at] else name for at, name in enumerate(names)]
