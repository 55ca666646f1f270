"""Rows of results as runs: the command behind each, its configuration, and a hash of it."""

import copy
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structattn.errors import ConfigError
from structattn.files.json_yaml import read_yaml
from structattn.lazy import imported
from structattn.options.checking import suggest

COMMANDS: Mapping[str, str | None] = {
    "train": "structattn.training.run_config:RunConfig",
    "parser train": "structattn.training.parser_config:ParserConfig",
    "hydra pretrain": "structattn.training.heads_config:PretrainingConfig",
    "squad": "structattn_papers.questions.questions_config:QuestionRun",
    "pairs": "structattn_papers.minimal_pairs:PairsRun",
    "sweep": "structattn.training.run_config:RunConfig",
    "parse": None,
}
"""The commands that make rows, and their configurations; ``parse`` writes a file, and has neither seeds nor figures."""

# Options that distinguish the runs of a row, or say where a run runs, are not part of the row.
_APART = {"seed", "out", "device", "mixed_precision"}
# How a study searches, by default: options beside the configuration of its runs and the space.
_SEARCH = {"trials": 16, "sampler": "tpe"}


@dataclass(frozen=True)
class Row:
    """One row of a table of results; its runs differ only in their seed.

    Attributes:
        folder: the folder of its paper, ``papers/disan``.
        name: its name there.
        command: the command that makes it, one of ``COMMANDS``.
        preset: the name of a configuration file in the folder, or ``None``.
        arguments: positional arguments of the command.
        options: options by their dotted names.
        seeds: the seeds of its runs; none for a file that is written once.
        writes: the file that ``parse`` leaves in the folder of the row.
        space: the name of a file in the folder, with the search space of a study by ``sweep``.
        waits_for: a study of the same paper that chooses options of this row, and has no record yet.
    """

    folder: Path
    name: str
    command: str
    preset: str | None = None
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    seeds: tuple[int, ...] = (1,)
    writes: str | None = None
    space: str | None = None
    waits_for: str | None = None

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
        """The command line after ``structattn``, without seed and folder; with names of places if none are given.

        Raises:
            ConfigError: for a place that is not given.

        Example:
            >>> row = Row(Path("disan"), "trec", "train", options={"task": "trec", "data.train": "{data}/trec.gz"})
            >>> row.words(), row.words({"data": "/corpora"})[-1]
            (['train', '--task', 'trec', '--data.train', '{data}/trec.gz'], '/corpora/trec.gz')
        """
        folder = Path("papers", self.folder.name) if places is None else self.folder
        words = [*self.command.split(), *([] if self.space is None else [str(folder / self.space)]), *self.arguments]
        if self.preset is not None:
            words += ["--config", str(folder / self.preset)]
        for name, value in self.options.items():
            if isinstance(value, bool) and self.writes is not None:
                # A command without a configuration has flags.
                words += [f"--{name}"] * value
            else:
                words += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
        return words if places is None else [_placed(word, places, str(self)) for word in words]

    def config(self) -> dict[str, Any]:
        """The resolved configuration: defaults, preset and options, with names of places, without the seed.

        Raises:
            ConfigError: if the preset cannot be read, or for an option that the command does not have.
        """
        return copy.deepcopy(self._config)

    @functools.cached_property
    def _config(self) -> dict[str, Any]:
        given: dict[str, Any] = {} if self.preset is None else dict(read_yaml(self.folder / self.preset))
        search: dict[str, Any] = {}
        if self.space is not None:
            search = {"space": read_yaml(self.folder / self.space), **_SEARCH}
        for name, value in self.options.items():
            if name in search:
                search[name] = value
                continue
            *sections, last = name.split(".")
            place = given
            for section in sections:
                inner = place.get(section)
                if not isinstance(inner, Mapping | None):
                    raise ConfigError(f"{self}: {name}: expected {section} with keys and values, got {inner!r}")
                place[section] = dict(inner or {})
                place = place[section]
            place[last] = value
        kind = self._kind
        if kind is None:
            return {"arguments": list(self.arguments), **given}
        positional = {"treebank": self.arguments[0]} if self.arguments else {}
        return {**_without_run(_over(self._usual(given), {**given, **positional}, str(self))), **search}

    def _usual(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults of the command's configuration, where some depend on other values."""
        defaults = _defaults(self._kind)
        if not hasattr(self._kind, "usual"):
            return defaults
        sections = self._kind.usual(values.get("backbone"))
        return _over(defaults, {name: dataclasses.asdict(section) for name, section in sections.items()})

    @functools.cached_property
    def digest(self) -> str:
        """A hash of the resolved configuration: runs of a row are repeated if it has changed."""
        return self.digest_of(self._config)

    def digest_of(self, config: Mapping[str, Any], places: Mapping[str, str] | None = None) -> str:
        """The hash of a configuration of the row's command, such as the ``config.yaml`` of a run folder.

        Numbers are compared by value, so that 1 and 1.0 are the same. A field that is off (``None``, ``False``, 0 or
        empty) counts as absent, so that a new field that is off by default changes no hash.

        Args:
            config: plain values.
            places: the path of each place, which its name replaces.

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
        if self._kind is not None:
            values = _without_what_is_off(values, self._usual(values))
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


def _placed(word: str, places: Mapping[str, str], owner: str) -> str:
    def path(match: re.Match[str]) -> str:
        if match[1] not in places:
            raise ConfigError(f"{owner} needs the place {match[1]!r}: --places {match[1]}=FOLDER")
        return places[match[1]]

    return re.sub(r"\{((?:run:)?[\w.-]+)\}", path, word)


def _defaults(kind: Any) -> dict[str, Any]:
    """The defaults of a configuration and its sections; ``None`` for required values."""
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
    """Values over the defaults of a configuration; an empty default, such as an encoder's options, takes any key."""
    merged = dict(first)
    for name, value in second.items():
        if name not in first:
            raise ConfigError(f"{owner}: unknown option {name!r}{suggest(name, first)}; known: {', '.join(first)}")
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
