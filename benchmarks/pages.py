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
    """The pages as they have to be now.

    Raises:
        ConfigError: if a part has no record, a table or column is not in it, or a page lacks the marks of a table.
    """
    found: dict[Path, str] = {}
    for path, described in read_yaml(tables).items():
        page = root / path
        found[page] = page.read_text(encoding="utf-8")
        for name, table in described.items():
            record = _record(table, folder)
            content = f"{_origin(record)}\n\n" + "\n".join(_shown(table, record, f"{tables}, {name}"))
            found[page] = fill(found[page], name, content, page)
    return found


def summary(lines: Sequence[Line], by: Sequence[str], of: str) -> list[Line]:
    """How many times faster ours is: the number of cells, their median, the least, and how many are below 1.

    Args:
        lines: of a table.
        by: the columns whose cells tell groups apart.
        of: the column with ``3.2x``; empty cells do not count.

    Example:
        >>> lines = [{"n": "1", "faster": "3.0x"}, {"n": "1", "faster": "0.5x"}, {"n": "2", "faster": ""}]
        >>> summary(lines, ["n"], "faster")
        [{'n': '1', 'compared': '2', 'median': '1.8x', 'least': '0.5x', 'below 1x': '1'}]
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


def _record(described: Mapping[str, Any], folder: Path) -> Record:
    part, threads = described["part"], described.get("threads")
    found = [one for one in records.read(part, folder) if threads is None or one.threads == (threads,)]
    if not found:
        raise ConfigError(f"{folder / part}.json: no record; `python -m benchmarks --parts {part}` makes one")
    return found[0]


def _origin(record: Record) -> str:
    threads = " and ".join(map(str, record.threads))
    plural = "" if record.threads == (1,) else "s"
    return f"`{record.command}`: {record.machine}, {threads} thread{plural}, version {record.version}."


def _shown(described: Mapping[str, Any], record: Record, source: str) -> Iterator[str]:
    tables, number = list(record.tables()), described.get("table", 0)
    if number >= len(tables):
        raise ConfigError(f"{source}: table {number} of {len(tables)} that `{record.command}` printed")
    lines: list[Line] = tables[number]
    where = described.get("where", {})
    _check(where, lines, source)
    lines = [line for line in lines if all(line[name] in cells for name, cells in where.items())]
    if not lines:
        raise ConfigError(f"{source}: no line of what `{record.command}` printed is left")
    if "summary" in described:
        lines = summary(lines, **described["summary"])
    columns = described.get("columns", list(lines[0]))
    _check(columns, lines, source)
    texts, names = described.get("texts", {}), described.get("names", {})
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
