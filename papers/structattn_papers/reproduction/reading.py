"""Reading files of rows, with what one row takes from another.

``papers/<system>/rows.yaml`` lists them::

    trec:
      command: train
      encoders: {disan: {}, ms_san: {options.missing_trees: word}}   # rows trec-disan and trec-ms_san
      options:
        task: trec
        data.train: "{data}/trec/TREC.train.all.gz"
        optimization.epochs: 12
      seeds: 1..5

The rows of ``variants`` differ in the options given there; those of ``encoders`` also in the encoder, and are named
after it. A place, ``{data}``, stands for a folder on this machine, and ``{run:NAME}`` for the run folder of another
row's first seed. ``preset`` names a configuration file in the same folder, and ``like`` another row, whose options this
row inherits and may override.

A row with the command ``sweep`` is a study; ``space`` names the file of its search space. The values that it chose,
according to its record, complete the options of rows that are ``tuned`` by it::

    trec-study: {command: sweep, space: space.yaml, options: {task: trec, encoder: disan, ...}}
    trec: {command: train, tuned: trec-study, options: {task: trec, encoder: disan, ...}, seeds: 101..105}
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from structattn.errors import ConfigError, shown
from structattn.files.json_yaml import read_json_lines, read_yaml
from structattn.options.checking import parse_seeds, suggest
from structattn_papers.reproduction.rows import COMMANDS, Row

ROWS = "rows.yaml"
MAX_VALUES = 20_000
"""Maximum number of values in a file of rows or of published figures."""

# What an entry may have: the kind of each value, and of what it contains.
_KEYS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("command", "preset", "like", "writes", "space", "tuned"), ("a text", str)),
    "seeds": ("seeds such as 1..5", (str, int)),
    "arguments": ("a list of texts", list),
    **dict.fromkeys(("options", "encoders", "variants"), ("names and values", dict)),
}


def read_rows(paper: str | os.PathLike[str], *, papers: str | os.PathLike[str] = "papers") -> dict[str, Row]:
    """The rows of a paper by their names.

    Args:
        paper: a folder of ``papers``, or a file of rows.
        papers: the folder of all papers.

    Raises:
        ConfigError: if there is no such file; with the file, for an unknown key, command or row, or a row without a
            command.
    """
    file = Path(paper) if Path(paper).is_file() else Path(papers) / paper / ROWS
    if not file.is_file():
        known = sorted(path.parent.name for path in Path(papers).glob(f"*/{ROWS}"))
        raise ConfigError(f"{paper}: no paper and no file of rows; known: {', '.join(known) or 'none'}")
    entries = read_yaml(file, max_values=MAX_VALUES)
    found: dict[str, Row] = {}
    for name, entry in entries.items():
        if not isinstance(name, str) or not isinstance(entry, Mapping):
            raise ConfigError(f"{file}: {name}: expected keys and values, got {shown(entry)}")
        for row in _rows(file, name, _inherited(file, entries, name)):
            found[row.name] = row
    found = {name: _chosen(row, found, file) for name, row in found.items()}
    for row in found.values():
        for needed in row.needs:
            if needed not in found:
                raise ConfigError(f"{file}: {row.name} reads {{run:{needed}}}, and there is no row {needed!r}")
    return found


def all_rows(papers: str | os.PathLike[str] = "papers") -> dict[str, Row]:
    """The rows of all papers by ``system/name``."""
    files = sorted(Path(papers).glob(f"*/{ROWS}"))
    return {str(row): row for file in files for row in read_rows(file).values()}


def selected(rows: Iterable[Row], patterns: str) -> list[Row]:
    """The rows whose names match one of the patterns, and before them those that they need or wait for.

    Args:
        rows: all rows of a paper.
        patterns: comma-separated, such as ``"trec-*,sick-disan"``.

    Raises:
        ConfigError: for a pattern that nothing matches.

    Example:
        >>> heads = Row(Path("hydra"), "heads", "hydra pretrain")
        >>> rte = Row(Path("hydra"), "rte", "train", options={"options.adapter": "{run:heads}/best"})
        >>> [row.name for row in selected([heads, rte], "rte*")]
        ['heads', 'rte']
    """
    by_name = {row.name: row for row in rows}
    found: dict[str, Row] = {}

    def add(row: Row) -> None:
        for name in (*row.needs, *([] if row.waits_for is None else [row.waits_for])):
            add(by_name[name])
        found[row.name] = row

    for pattern in patterns.split(","):
        matching = [row for name, row in by_name.items() if fnmatchcase(name, pattern.strip())]
        if not matching:
            raise ConfigError(f"--rows: no row {pattern.strip()!r}; known: {', '.join(by_name)}")
        for row in matching:
            add(row)
    return list(found.values())


def parse_places(text: str) -> dict[str, str]:
    """``"data=DIR,minilm=DIR"`` as names and folders.

    Raises:
        ConfigError: for anything else, or a folder that does not exist.

    Example:
        >>> parse_places("")
        {}
    """
    places = {}
    for part in filter(None, text.split(",")):
        name, equals, path = part.partition("=")
        if not equals or not name.strip() or not path:
            raise ConfigError(f"--places: expected NAME=FOLDER,NAME=FOLDER, got {text!r}")
        if not Path(path).exists():
            raise ConfigError(f"--places: {name.strip()}: there is no {path}")
        places[name.strip()] = path
    return places


def _inherited(file: Path, entries: Mapping[str, Any], name: str, seen: Sequence[str] = ()) -> dict[str, Any]:
    """An entry with what it takes from the entry that it is ``like``; its own options take precedence."""
    entry = dict(entries[name])
    for key, value in entry.items():
        if key not in _KEYS:
            raise ConfigError(f"{file}: {name}: unknown key {key!r}{suggest(str(key), _KEYS)}")
        expected, kind = _KEYS[key]
        inner = value if isinstance(value, list) else [*value] if isinstance(value, dict) else []
        if not isinstance(value, kind) or isinstance(value, bool) or not all(isinstance(each, str) for each in inner):
            raise ConfigError(f"{file}: {name}: {key}: expected {expected}, got {shown(value)}")
        if key in ("encoders", "variants"):
            for variant, options in value.items():
                if options is not None and not (isinstance(options, dict) and all(isinstance(k, str) for k in options)):
                    where = f"{file}: {name}: {key}: {variant}"
                    raise ConfigError(f"{where}: expected names and values of options, got {shown(options)}")
    if "like" not in entry:
        return entry
    other = entry.pop("like")
    if not isinstance(entries.get(other), Mapping) or other in (name, *seen):
        raise ConfigError(f"{file}: {name}: like {other!r}: expected the name of another row")
    first = _inherited(file, entries, other, (*seen, name))
    return {**first, **entry, "options": {**first.get("options", {}), **entry.get("options", {})}}


def _rows(file: Path, name: str, entry: Mapping[str, Any]) -> list[Row]:
    command = str(entry.get("command"))
    if command not in COMMANDS:
        raise ConfigError(f"{file}: {name}: command: expected one of {', '.join(COMMANDS)}, got {command!r}")
    for key, owner in (("writes", "parse"), ("space", "sweep")):
        if (command == owner) != (key in entry):
            raise ConfigError(f"{file}: {name}: expected `{key}`, the name of a file, for the command {owner} alone")
    seeds = () if command == "parse" else parse_seeds(str(entry.get("seeds", 1)), f"{file}: {name}: seeds")
    row = Row(
        file.parent,
        name,
        command,
        entry.get("preset"),
        tuple(entry.get("arguments", ())),
        entry.get("options", {}),
        tuple(seeds),
        entry.get("writes"),
        entry.get("space"),
        entry.get("tuned"),
    )
    variants: dict[str, Any] = {name: options or {} for name, options in entry.get("variants", {}).items()}
    for name, options in entry.get("encoders", {}).items():
        variants[name] = {"encoder": name, **(options or {})}
    return [
        dataclasses.replace(
            row,
            name=f"{row.name}-{variant}",
            options={**row.options, **options},
            waits_for=None if row.waits_for is None else f"{row.waits_for}-{variant}",
        )
        for variant, options in variants.items()
    ] or [row]


def _chosen(row: Row, rows: Mapping[str, Row], file: Path) -> Row:
    """A row with the options chosen by the study that it waits for; unchanged until the study has a record."""
    if row.waits_for is None:
        return row
    study = rows.get(row.waits_for)
    if study is None or study.space is None:
        raise ConfigError(f"{file}: {row.name}: tuned: expected a study, a row with a space, got {row.waits_for!r}")
    if not study.records.is_file():
        return row
    records = [one for one in read_json_lines(study.records, keys=("config",)) if one["config"] == study.digest]
    if not records or not isinstance(records[-1].get("values"), Mapping):
        return row
    return dataclasses.replace(row, options={**row.options, **records[-1]["values"]}, waits_for=None)
