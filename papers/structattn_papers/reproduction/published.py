"""Published results, row by row, beside the results measured here: the reproduction page and its verdicts.

``papers/<system>/published.yaml`` lists every row of every table and every figure::

    paper: "Shen et al. 2018, DiSAN"
    tables:
      - title: SNLI
        measured: test
        differs: 6,514 of 549,367 pairs for training, measured on dev
        above: disan/snli-transformer
        rows:
          - {row: DiSAN, published: 85.62, ours: disan/snli-disan, tried: vectors of two sizes}
          - {row: LSTM, published: 80.6, quoted: true}
          - {row: BERT, published: 85.7, needs: BERT-base}
          - {row: figure 6, drawn: figures.md}

``differs`` says how the data and the setting differ from the paper's. For the verdict on the order, ``above`` names a
row of ours whose counterpart in the paper is worse than this row. Values that were not read in the paper itself are
``recalled``.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from structattn.errors import ConfigError
from structattn.files.json_yaml import read_yaml
from structattn.options.checking import suggest
from structattn_papers.reproduction.differences import difference
from structattn_papers.reproduction.figures import OLDER, figure
from structattn_papers.reproduction.intervals import interval
from structattn_papers.reproduction.reading import MAX_VALUES
from structattn_papers.reproduction.records import Recorded
from structattn_papers.reproduction.tables import LEGEND, NONE, Evidence

PUBLISHED = "published.yaml"
REPRODUCED, ORDERED, FAILED, MEASURED, MISSING, WAITING, QUOTED, DRAWN = (
    "reproduced",
    "ordering reproduced",
    "not reproduced",
    "measured",
    "cannot be run here",
    "not run yet",
    "quoted",
    "drawn",
)
MEANING: Mapping[str, str] = {
    REPRODUCED: "the published value lies in our interval, or below it",
    ORDERED: "our value is lower, but significantly above the same baseline as in the paper",
    FAILED: "neither of these; the note says what was tried",
    MEASURED: "an additional row that is not in the paper",
    MISSING: "the data or pretrained model named in the note is not available here",
    WAITING: "a configuration exists, but there is no record yet",
    QUOTED: "the paper quotes it from other work; it is not one of its own systems and was not run for this table",
    DRAWN: "a figure without numbers of its own, drawn by a command on the linked page",
}

_DEFAULTS = {"metric": "accuracy", "scale": 100, "digits": 1}
_TABLE_KEYS = {"title", "rows", "measured", "differs", "above", "recalled", "tried", *_DEFAULTS, "lowest"}
_ROW_KEYS = {"row", "published", "ours", "quoted", "needs", "drawn"} | (_TABLE_KEYS - {"title", "rows"})


@dataclass(frozen=True)
class Verdict:
    """The verdict on a published row.

    Attributes:
        name: a key of ``MEANING``.
        note: what was tried, which data are missing, where it is drawn.
        value: our value as it is printed, with its deviation and seeds.
        interval: its 95 % interval.
        is_older: whether its records are older than the row.
    """

    name: str
    note: str = ""
    value: str = NONE
    interval: str = NONE
    is_older: bool = False


def _is_better(found: Recorded, other: Recorded, metric: str, lowest: bool) -> bool:
    """Whether one row is significantly better than another in a metric, see ``difference``; lower if ``lowest``."""
    result = difference(found, other, metric)
    return result is not None and bool(result.high < 0 if lowest else result.low > 0)


def verdict(entry: Mapping[str, Any], evidence: Evidence, place: str) -> Verdict:
    """The verdict on a published row.

    Args:
        entry: the row, with the defaults of its table.
        evidence: the records.
        place: name of the row in errors.

    Raises:
        ConfigError: if the row does not say what it is compared with, or names an unknown row.
    """
    if entry.get("drawn"):
        return Verdict(DRAWN, f"[page]({entry['drawn']})")
    if entry.get("quoted"):
        return Verdict(QUOTED)
    if not entry.get("ours"):
        if not entry.get("needs"):
            raise ConfigError(f"{place}: expected ours, needs, quoted or drawn: no row without a verdict")
        return Verdict(MISSING, f"needs {entry['needs']}")
    found = evidence.of(entry["ours"], place)
    shown = figure(found, entry["metric"], entry["scale"])
    if found is None or shown is None:
        return Verdict(WAITING)
    bounds = interval(found, entry["metric"], entry["scale"])
    published = _number(entry.get("published"))
    sign = -1 if entry.get("lowest") else 1
    best = sign * (mean(shown.values) if bounds is None else bounds[sign > 0])
    name = FAILED if published is not None else MEASURED
    if published is not None and best >= sign * published:
        name = REPRODUCED
    elif published is not None and entry.get("above") not in (None, entry["ours"]):
        other = evidence.of(entry["above"], place)
        if other is not None and _is_better(found, other, entry["metric"], bool(entry.get("lowest"))):
            name = ORDERED
    note = f"tried {entry['tried']}" if name in (FAILED, ORDERED) and "tried" in entry else ""
    digits = entry["digits"]
    text = NONE if bounds is None else f"{bounds[0]:.{digits}f} to {bounds[1]:.{digits}f}"
    return Verdict(name, note, shown.text(digits), text, shown.is_older)


def reproduction_page(papers: str | os.PathLike[str] = "papers", evidence: Evidence | None = None) -> str:
    """The reproduction page: every published row of every paper with its verdict.

    Raises:
        ConfigError: for an unknown key or row, or a row without a verdict.
    """
    evidence = Evidence(papers) if evidence is None else evidence
    counted: Counter[str] = Counter()
    recalled: Counter[str] = Counter()
    parts: list[str] = []
    for file in sorted(Path(papers).glob(f"*/{PUBLISHED}")):
        values = read_yaml(file, max_values=MAX_VALUES)
        parts.append(f"## {values['paper']}")
        for table in values["tables"]:
            _check_keys(table, _TABLE_KEYS, f"{file}: {table.get('title')}")
            lines, notes = [], []
            for row in table["rows"]:
                place = f"{file}: {table['title']}: {row.get('row')}"
                _check_keys(row, _ROW_KEYS, place)
                entry = {**_DEFAULTS, **{name: one for name, one in table.items() if name != "rows"}, **row}
                found = verdict(entry, evidence, place)
                counted[found.name] += 1
                recalled[found.name] += bool(entry.get("recalled")) and entry.get("published") is not None
                lines.append(_line(entry, found))
                notes += [f"{row['row']}: {row['differs']}."] if "differs" in row else []
            parts.append(_table(table, lines, notes))
    return "\n\n".join([_HEAD.format(verdicts="\n".join(_summary(counted, recalled))), *parts]) + "\n"


_HEAD = """# Reproduction, row by row

Generated from `papers/*/published.yaml` and the records of runs by `make tables`. Every row of every results table of
the five papers, and every figure that shows results, has one of these verdicts:

| verdict | rows | meaning |
|---|---|---|
{verdicts}

Published values are on the split that each table names, most on test; ours are on development data, because test
splits stay untouched. Ours are mean ± standard deviation (number of seeds). Intervals are 95 %, over examples and seeds
for accuracy and over seeds for other metrics; a verdict on the ordering is a paired bootstrap over seeds and the same
examples. *Recalled* values were not checked in the paper itself: do not cite them. `structattn reproduce` runs rows
without a record, see [results](results.md)."""


def _summary(counted: Mapping[str, int], recalled: Mapping[str, int]) -> Iterator[str]:
    for name, meaning in MEANING.items():
        against = f" ({recalled[name]} of them against a recalled value)" if recalled[name] else ""
        yield f"| {name} | {counted[name]} | {meaning}{against} |"
    yield f"| all | {sum(counted.values())} | |"


def _line(entry: Mapping[str, Any], found: Verdict) -> str:
    value = entry.get("published")
    published = NONE if value is None else f"{value:.{entry['digits']}f}" if not isinstance(value, str) else value
    if entry.get("recalled") and value is not None:
        published = f"*{published}, recalled*"
    note = f": {found.note}" if found.note else ""
    row = f"`{entry['ours']}`" if entry.get("ours") else NONE
    return f"| {entry['row']} | {published} | {found.value} | {found.interval} | {row} | {found.name}{note} |"


def _table(table: Mapping[str, Any], lines: list[str], notes: list[str]) -> str:
    head = f"### {table['title']}"
    told = [f"Published on {table['measured']}."] if table.get("measured") else []
    told += [f"Here: {table['differs']}."] if table.get("differs") else []
    columns = ["| row | published | ours | 95 % interval | row here | verdict |", "|---|---|---|---|---|---|"]
    text = [head, *([" ".join([*told, *notes])] if told or notes else []), "\n".join([*columns, *lines])]
    return "\n\n".join([*text, LEGEND] if any(OLDER in line for line in lines) else text)


def _number(published: float | int | str | None) -> float | None:
    """A published value; the first one if a cell has several."""
    return float(published.split(" ")[0]) if isinstance(published, str) else published


def _check_keys(values: Mapping[str, Any], known: set[str], place: str) -> None:
    if unknown := [key for key in values if key not in known]:
        raise ConfigError(f"{place}: unknown key {unknown[0]!r}{suggest(unknown[0], known)}")
