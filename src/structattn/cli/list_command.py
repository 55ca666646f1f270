"""``structattn list``: the names that options take, with a one-line summary each."""

import dataclasses
import inspect
import json as jsonlib
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from structattn.lazy import imported
from structattn.options.checking import list_options

if TYPE_CHECKING:
    from structattn.data import RelationKind
    from structattn.tables import Table
    from structattn.tasks import Metric, Task

Kind = Literal["encoders", "embedders", "decoders", "tasks", "formats", "metrics", "relations", "priors", "structures"]
Entries = dict[str, tuple[str, dict[str, Any]]]

_ANSWERS = {
    "text": "a text",
    "tree": "a tree",
    "tags": "a tag for each word",
    "labels": "any number of labels",
    "words": "its own words",
}


def command(kind: Kind, *, options: bool = False, json: bool = False) -> Iterator[str]:
    """List the names of a kind, one line each: encoders, tasks, data formats, metrics, relations and others.

    Args:
        kind: which of these to list.
        options: show the options of each, with their defaults.
        json: print one JSON object, from a name to its summary and options.
    """
    entries = KINDS[kind]()
    if json:
        yield jsonlib.dumps(
            {name: {"summary": summary, "options": defaults} for name, (summary, defaults) in entries.items()},
            default=str,
        )
        return
    width = max(map(len, entries))
    for name, (summary, defaults) in entries.items():
        yield from _fold(f"{name:<{width}}  {summary}", width + 2)
        yield from (f"{'':<{width}}    {option}: {value}" for option, value in _dotted(defaults) if options)


def _fold(line: str, indent: int) -> list[str]:
    """A line in as many as a terminal needs; a pipe reads one for each name."""
    if sys.__stdout__ is None or not sys.__stdout__.isatty():
        return [line]
    width = max(shutil.get_terminal_size().columns, indent + 20)
    return textwrap.wrap(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _dotted(options: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """Options as they are named on the command line; those of a group have its name before a dot."""
    for name, value in options.items():
        if isinstance(value, dict) and value:
            yield from _dotted(value, f"{group}{name}.")
        else:
            yield f"{group}{name}", value


def _encoders() -> Entries:
    from structattn.encoders.encoder_table import BUILDERS, LANGUAGE_MODELS

    return {**_builders(BUILDERS), **_builders(LANGUAGE_MODELS)}


def _embedders() -> Entries:
    from structattn.encoders.encoder_table import EMBEDDERS

    return _builders(EMBEDDERS)


def _builders(table: "Table[Callable[..., Any]]") -> Entries:
    functions = {name: table.outline(name) for name in sorted(table)}
    return {name: (_summary(function), list_options(function)) for name, function in functions.items()}


def _decoders() -> Entries:
    from structattn.tasks import DECODERS

    return _builders(DECODERS)


def _formats() -> Entries:
    from structattn.data.readers.formats import FORMATS

    return {name: (_summary(FORMATS[name]), {}) for name in sorted(FORMATS)}


def _metrics() -> Entries:
    from structattn.tasks import METRICS

    return {name: (_about(metric), {}) for name, metric in sorted(METRICS.items())}


def _about(metric: "Metric") -> str:
    answers = "scores" if metric.is_numeric else "answers"
    return f"compares {answers}; {'greater' if metric.greater_is_better else 'smaller'} is better"


def _relations() -> Entries:
    from structattn.data import RELATIONS

    return {name: (_relation(RELATIONS[name]), {}) for name in sorted(RELATIONS)}


def _relation(kind: "RelationKind") -> str:
    function = imported(kind.matrix) if isinstance(kind.matrix, str) else kind.matrix
    needs = f"; needs {kind.structure} trees" if kind.structure else ""
    return f"{_summary(function).rstrip('.')}{needs}{'; may name labels of arcs' if kind.takes_labels else ''}"


def _tasks() -> Entries:
    from structattn.tasks import TASKS

    return {name: (_describe(task), dataclasses.asdict(task)) for name, task in sorted(TASKS.items())}


def _describe(task: "Task") -> str:
    scores = task.score_range
    classes = f"{len(task.labels)} labels" if task.labels else "labels as in the training data"
    if task.answer in _ANSWERS:
        classes = _ANSWERS[task.answer]
    answer = f"a score from {scores[0]:g} to {scores[1]:g}" if scores else classes
    answer = "a score as in the training data" if task.fits_range else answer
    sentences = "one sentence" if task.arity == 1 else "two sentences"
    return f"{sentences}; {answer}; format {task.fallback_format or 'as the file says'}; {', '.join(task.metrics)}"


def _priors() -> Entries:
    from structattn import priors

    kinds = [getattr(priors, name) for name in priors.__all__]
    concrete = [k for k in kinds if inspect.isclass(k) and issubclass(k, priors.Prior) and not inspect.isabstract(k)]
    return {kind.__name__: (_summary(kind), _defaults(kind)) for kind in concrete}


def _structures() -> Entries:
    from structattn import syntax

    return {
        "dependency": (_summary(syntax.DependencyTree), _defaults(syntax.DependencyTree)),
        "constituency": (_summary(syntax.ConstituencyTree), {}),
        "relations": ("Any matrix over pairs of words, (query, key), under a name of your own.", {}),
    }


KINDS: dict[Kind, Callable[[], Entries]] = {
    "encoders": _encoders,
    "embedders": _embedders,
    "decoders": _decoders,
    "tasks": _tasks,
    "formats": _formats,
    "metrics": _metrics,
    "relations": _relations,
    "priors": _priors,
    "structures": _structures,
}


def _summary(thing: object) -> str:
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]*)`|``(.*?)``", r"\1\2", text)  # the marks of documentation pages mean nothing here


def _defaults(thing: Callable[..., object]) -> dict[str, Any]:
    parameters = inspect.signature(thing).parameters.values()
    return {p.name: "(required)" if p.default is p.empty else p.default for p in parameters}
