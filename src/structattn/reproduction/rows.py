"""Rows of results as runs: the command behind each, on data that a place names, with its seeds.

``papers/<system>/rows.yaml`` lists them::

    trec:
      command: train
      encoders: {disan: {}, ms_san: {options.missing_trees: word}}   # rows trec-disan and trec-ms_san
      options:
        task: trec
        data.train: "{data}/trec/TREC.train.all.gz"
        optimization.epochs: 12
      seeds: 1..5

The rows of ``variants`` differ in the options given there; those of ``encoders`` in the encoder too, whose name they
have. A place, ``{data}``, stands for a folder of this machine; ``{run:NAME}`` for the folder that another row's first
seed leaves. ``preset`` is a configuration beside the file, and ``like`` another row, whose options come first.
"""

import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from structattn.syntax.errors import ConfigError
from structattn.syntax.folders import read_yaml
from structattn.syntax.lazy import imported
from structattn.syntax.options import nearest, parse_seeds

COMMANDS: Mapping[str, str | None] = {
    "train": "structattn.training.config:RunConfig",
    "parser train": "structattn.training.parser_config:ParserConfig",
    "hydra pretrain": "structattn.training.heads_config:PretrainingConfig",
    "squad": "structattn.training.questions_config:QuestionRun",
    "parse": None,
}
"""The commands that rows are made by, and their configurations; ``parse`` writes a file, and has neither seeds nor
figures."""

ROWS = "rows.yaml"
MAX_VALUES = 20_000
"""Values of a file of rows or of published figures."""

# What tells one run of a row from another, or says where it runs, is no part of the row.
_APART = {"seed", "out", "device", "mixed_precision"}
_KEYS = {"command", "preset", "like", "encoders", "variants", "arguments", "options", "seeds", "writes"}


@dataclass(frozen=True)
class Row:
    """One row of a table of results, whose runs differ in their seed only.

    Attributes:
        folder: the folder of its paper, ``papers/disan``.
        name: its name there.
        command: the command that makes it, one of ``COMMANDS``.
        preset: the name of a configuration file in the folder, or ``None``.
        arguments: positional arguments of the command.
        options: options by their dotted names.
        seeds: the seeds of its runs; none for a file that is written once.
        writes: the file that ``parse`` leaves in the folder of the row.
    """

    folder: Path
    name: str
    command: str
    preset: str | None = None
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    seeds: tuple[int, ...] = (1,)
    writes: str | None = None

    def __str__(self) -> str:
        return f"{self.folder.name}/{self.name}"

    @property
    def records(self) -> Path:
        """The file of its records."""
        return self.folder / "results" / f"{self.name}.jsonl"

    @property
    def _kind(self) -> Any:
        """The class of the command's configuration, if it has one."""
        address = COMMANDS[self.command]
        return None if address is None else imported(address)

    @property
    def needs(self) -> tuple[str, ...]:
        """The rows of the same paper whose folders this one reads.

        Example:
            >>> Row(Path("hydra"), "rte", "train", options={"options.adapter": "{run:heads}/best"}).needs
            ('heads',)
        """
        texts = [*self.arguments, *(value for value in self.options.values() if isinstance(value, str))]
        return tuple(dict.fromkeys(name for text in texts for name in re.findall(r"\{run:([^}]+)\}", text)))

    def words(self, places: Mapping[str, str] | None = None) -> list[str]:
        """The command line after ``structattn``, without seed and folder; symbolic without places.

        Raises:
            ConfigError: for a place that is not given.

        Example:
            >>> row = Row(Path("disan"), "trec", "train", options={"task": "trec", "data.train": "{data}/trec.gz"})
            >>> row.words(), row.words({"data": "/corpora"})[-1]
            (['train', '--task', 'trec', '--data.train', '{data}/trec.gz'], '/corpora/trec.gz')
        """
        words = [*self.command.split(), *self.arguments]
        if self.preset is not None:
            folder = Path("papers", self.folder.name) if places is None else self.folder
            words += ["--config", str(folder / self.preset)]
        for name, value in self.options.items():
            words += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
        return words if places is None else [_placed(word, places, str(self)) for word in words]

    def config(self) -> dict[str, Any]:
        """The resolved configuration: defaults, preset and options, with symbolic places, apart from the seed.

        Raises:
            ConfigError: if the preset cannot be read, or for an option that the command does not have.
        """
        given: dict[str, Any] = {} if self.preset is None else dict(read_yaml(self.folder / self.preset))
        for name, value in self.options.items():
            *sections, last = name.split(".")
            place = given
            for section in sections:
                place[section] = dict(place.get(section) or {})
                place = place[section]
            place[last] = value
        kind = self._kind
        if kind is None:
            return {"arguments": list(self.arguments), **given}
        positional = {"treebank": self.arguments[0]} if self.arguments else {}
        usual = {}
        if hasattr(kind, "usual"):
            usual = {name: dataclasses.asdict(one) for name, one in kind.usual(given.get("backbone")).items()}
        return _without_run(_over(_over(_defaults(kind), usual), {**given, **positional}, str(self)))

    @functools.cached_property
    def digest(self) -> str:
        """A hash of the resolved configuration: runs of a row are repeated where it has changed."""
        return self.digest_of(self.config())

    def digest_of(self, config: Mapping[str, Any], places: Mapping[str, str] | None = None) -> str:
        """The hash of a configuration of the row's command, such as the ``config.yaml`` of a run folder.

        Numbers are compared as such, so that 1 and 1.0 are one. A field that is off (``None``, ``False``, 0 or empty)
        counts as absent: one that is new, and off by default, changes no hash.

        Args:
            config: plain values.
            places: the path of each place, which becomes the place again.

        Example:
            >>> from structattn.training import RunConfig
            >>> options = {"task": "trec", "data.train": "{data}/t.gz", "encoder": "disan"}
            >>> row = Row(Path("disan"), "trec", "train", options=options)
            >>> config = RunConfig.from_dict({"task": "trec", "encoder": "disan", "data": {"train": "/corpora/t.gz"}})
            >>> row.digest_of(config.to_dict(), {"data": "/corpora"}) == row.digest
            True
            >>> row.digest_of({**config.to_dict(), "options": {"dim": 0}}, {"data": "/corpora"}) == row.digest
            False
        """
        values = _without_run(symbolic(dict(config), places or {}))
        kind = self._kind
        if kind is not None:
            values = _without_what_is_off(values, _defaults(kind))
        text = json.dumps(_canonical(values), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def symbolic(value: Any, places: Mapping[str, str]) -> Any:
    """Plain values with the names of places instead of their paths, the longest path first.

    Example:
        >>> symbolic({"train": "/corpora/trec.gz,/corpora/x"}, {"data": "/corpora"})
        {'train': '{data}/trec.gz,{data}/x'}
    """
    if isinstance(value, Mapping):
        return {symbolic(name, places): symbolic(inner, places) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [symbolic(inner, places) for inner in value]
    if isinstance(value, str):
        for name, path in sorted(places.items(), key=lambda item: -len(item[1])):
            value = value.replace(path, f"{{{name}}}")
    return value


def read_rows(paper: str | os.PathLike[str], *, papers: str | os.PathLike[str] = "papers") -> dict[str, Row]:
    """The rows of a paper by their names.

    Args:
        paper: a folder of ``papers``, or a file of rows.
        papers: the folder of all papers.

    Raises:
        ConfigError: with the file, if there is none, for an unknown key, command or row, or a row without a command.
    """
    file = Path(paper) if Path(paper).is_file() else Path(papers) / paper / ROWS
    if not file.is_file():
        known = sorted(path.parent.name for path in Path(papers).glob(f"*/{ROWS}"))
        raise ConfigError(f"{paper}: no paper and no file of rows; known: {', '.join(known) or 'none'}")
    entries = read_yaml(file, max_values=MAX_VALUES)
    found: dict[str, Row] = {}
    for name, entry in entries.items():
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{file}: {name}: expected keys and values, got {entry!r}")
        for row in _rows(file, name, _inherited(file, entries, name)):
            found[row.name] = row
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
    """The rows whose names match one of some patterns, and those that they need, before them.

    Args:
        rows: all rows of a paper.
        patterns: such as ``"trec-*,sick-disan"``.

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
        for name in row.needs:
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
    """An entry with what it takes from the one that it is like: its options over those."""
    entry = dict(entries[name])
    if unknown := [key for key in entry if key not in _KEYS]:
        raise ConfigError(f"{file}: {name}: unknown key {unknown[0]!r}{nearest(unknown[0], _KEYS)}")
    if "like" not in entry:
        return entry
    other = entry.pop("like")
    if other not in entries or other in (name, *seen):
        raise ConfigError(f"{file}: {name}: like {other!r}: expected the name of another row")
    first = _inherited(file, entries, other, (*seen, name))
    return {**first, **entry, "options": {**first.get("options", {}), **entry.get("options", {})}}


def _rows(file: Path, name: str, entry: Mapping[str, Any]) -> list[Row]:
    command = str(entry.get("command"))
    if command not in COMMANDS:
        raise ConfigError(f"{file}: {name}: command: expected one of {', '.join(COMMANDS)}, got {command!r}")
    if (command == "parse") != ("writes" in entry):
        raise ConfigError(f"{file}: {name}: expected `writes`, the name of a file, for the command parse and no other")
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
    )
    variants: dict[str, Any] = {name: options or {} for name, options in entry.get("variants", {}).items()}
    for name, options in entry.get("encoders", {}).items():
        variants[name] = {"encoder": name, **(options or {})}
    return [
        dataclasses.replace(row, name=f"{row.name}-{variant}", options={**row.options, **options})
        for variant, options in variants.items()
    ] or [row]


def _placed(word: str, places: Mapping[str, str], owner: str) -> str:
    def path(match: re.Match[str]) -> str:
        if match[1] not in places:
            raise ConfigError(f"{owner} needs the place {match[1]!r}: --places {match[1]}=FOLDER")
        return places[match[1]]

    return re.sub(r"\{((?:run:)?[\w.-]+)\}", path, word)


def _defaults(kind: Any) -> dict[str, Any]:
    """The defaults of a configuration and its sections; ``None`` for what must be given."""
    found: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        value = None
        if item.default is not dataclasses.MISSING:
            value = item.default
        elif item.default_factory is not dataclasses.MISSING:
            value = item.default_factory()
        found[item.name] = dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value  # type: ignore[arg-type]
    return found


def _over(first: Mapping[str, Any], second: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
    """Values over the defaults of a configuration; what is empty there, such as an encoder's options, takes any key."""
    merged = dict(first)
    for name, value in second.items():
        if name not in first:
            raise ConfigError(f"{owner}: unknown option {name!r}{nearest(name, first)}; known: {', '.join(first)}")
        before = first[name]
        is_section = isinstance(before, Mapping) and bool(before) and isinstance(value, Mapping)
        merged[name] = _over(before, value, f"{owner}: {name}") if is_section else value
    return merged


def _without_run(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _APART}


def _without_what_is_off(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are on; in a mapping of options, whose defaults are not known here, every value counts."""
    found = {}
    for name, value in config.items():
        section = defaults.get(name)
        if isinstance(section, Mapping) and section and isinstance(value, Mapping):
            value = _without_what_is_off(value, section)
        if value:
            found[name] = value
    return found


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _canonical(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return value
