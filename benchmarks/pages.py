"""The tables of docs/evidence/speed.md and rates.md, from what benchmarks printed: ``make bench`` keeps it.

``make tables`` writes them, by ``python -m benchmarks.pages``.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import markdown, records
from benchmarks.records import Record
from structattn.errors import ConfigError
from structattn.files.json_yaml import read_yaml
from structattn.files.replacing import replace_text
from structattn_papers.reproduction.tables import fill

TABLES = Path(__file__).parent / "pages.yaml"
ROOT = Path(__file__).parent.parent

Line = Mapping[str, str]


def pages(folder: Path = records.RESULTS, tables: Path = TABLES, root: Path = ROOT) -> dict[Path, str]:
    """The pages as they have to be now."""
    texts: dict[Path, str] = {}
    for path, descriptions in read_yaml(tables).items():
        page = root / path
        texts[page] = page.read_text(encoding="utf-8")
        for name, description in descriptions.items():
            record = _find_record(description, folder)
            lines = _table_lines(description, record, f"{tables}, {name}")
            texts[page] = fill(texts[page], name, f"{_origin(record)}\n\n" + "\n".join(lines), page)
    return texts


def summary(lines: Sequence[Line], by: Sequence[str], of: str) -> list[Line]:
    """How many times faster ours is: the number of cells of a column, their median, the least, how many are below 1.

    ``by`` are the columns that tell groups apart, ``of`` is the one with ``3.2x``; empty cells do not count.
    """
    groups: dict[tuple[str, ...], list[float]] = {}
    for line in lines:
        if line[of]:
            groups.setdefault(tuple(line[name] for name in by), []).append(float(line[of].removesuffix("x")))
    return [
        dict(zip(by, group, strict=True))
        | {"compared": str(len(ratios)), "median": f"{statistics.median(ratios):.1f}x", "least": f"{min(ratios):.1f}x"}
        | {"below 1x": str(sum(ratio < 1 for ratio in ratios))}
        for group, ratios in groups.items()
    ]


def _find_record(description: Mapping[str, Any], folder: Path) -> Record:
    part, threads = description["part"], description.get("threads")
    for record in records.read(part, folder):
        if threads is None or record.threads == (threads,):
            return record
    raise ConfigError(f"{folder / part}.json: no record; `python -m benchmarks --parts {part}` makes one")


def _origin(record: Record) -> str:
    threads = " and ".join(map(str, record.threads))
    plural = "" if record.threads == (1,) else "s"
    return f"`{record.command}`: {record.machine}, {threads} thread{plural}, version {record.version}."


def _table_lines(description: Mapping[str, Any], record: Record, source: str) -> Iterator[str]:
    tables, number = list(record.tables()), description.get("table", 0)
    if number >= len(tables):
        raise ConfigError(f"{source}: table {number} of {len(tables)} that `{record.command}` printed")
    lines: list[Line] = tables[number]
    where = description.get("where", {})
    _check(where, lines, source)
    lines = [line for line in lines if all(line[name] in cells for name, cells in where.items())]
    if not lines:
        raise ConfigError(f"{source}: no line of what `{record.command}` printed is left")
    if "summary" in description:
        lines = summary(lines, **description["summary"])
    columns = description.get("columns", list(lines[0]))
    _check(columns, lines, source)
    texts, names = description.get("texts", {}), description.get("names", {})
    yield markdown.header([names.get(name, name) for name in columns])
    for line in lines:
        yield markdown.line([texts.get(name, {}).get(line[name], line[name]) for name in columns])


def _check(columns: Iterable[str], lines: Sequence[Line], source: str) -> None:
    unknown = sorted(set(columns) - set(lines[0]))
    if unknown:
        raise ConfigError(f"{source}: expected columns of {', '.join(lines[0])}, not {', '.join(unknown)}")


def main() -> None:
    """Write the pages that are other ones."""
    for path, text in pages().items():
        if text != path.read_text(encoding="utf-8"):
            with replace_text(path) as stream:
                stream.write(text)
            print(path)


if __name__ == "__main__":
    main()
