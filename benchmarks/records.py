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
        """The tables that it printed: lines of cells by the names of their columns.

        Example:
            >>> record = Record("", (1,), "", "", 0.0, ("Width 3.", "", "| n | ms |", "|---|---|", "| 2 | 0.1 |"))
            >>> list(record.tables())
            [[{'n': '2', 'ms': '0.1'}]]
        """
        names: list[str] = []
        found: list[dict[str, str]] = []
        for line in (*self.output, ""):
            cells = [cell.strip() for cell in line.strip("|\n").split("|")]
            if not line.startswith("|"):
                if names:
                    yield found
                names, found = [], []
            elif not names:
                names = _unique(cells)
            elif set(line) != set("|-"):
                found.append(dict(zip(names, cells, strict=True)))


def save(part: str, record: Record, folder: Path = RESULTS) -> None:
    """Keep a record, in place of that of the same part and threads."""
    others = [one for one in read(part, folder) if one.threads != record.threads]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{part}.json"
    ordered = sorted([*others, record], key=lambda one: one.threads)
    with replace_text(path) as stream:
        stream.write(json.dumps([asdict(one) for one in ordered], indent=1, ensure_ascii=False) + "\n")


def read(part: str, folder: Path = RESULTS) -> list[Record]:
    """The records of a part, of few threads first; none if it has not run.

    Raises:
        ParseError: if the file holds something else.
    """
    path = folder / f"{part}.json"
    if not path.is_file():
        return []
    with naming_description(path, "a list of records of benchmarks"):
        found = json.loads(path.read_text(encoding="utf-8"))
        return [Record(**{**one, "threads": tuple(one["threads"]), "output": tuple(one["output"])}) for one in found]


def _unique(names: Sequence[str]) -> list[str]:
    """Names of which a second one of the same kind is told from the first."""
    return [f"{name} {names[:at].count(name) + 1}" if name in names[:at] else name for at, name in enumerate(names)]
