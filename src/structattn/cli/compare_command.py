"""``structattn compare``: whether one system is better than another, by how much, and on which examples."""

import contextlib
import dataclasses
import json as jsonlib
from collections.abc import Iterator, Sequence
from typing import Literal

from structattn.cli.command_inputs import check_at_least, check_ending, refuse_without
from structattn.data.model_card import add_section
from structattn.errors import ConfigError, StructAttnError
from structattn.files.markdown import align_columns
from structattn.files.replacing import replace_text
from structattn.inspection.comparison_tables import (
    comparison_table,
    explore_flip,
    flips_page,
    format_answers,
    format_probability,
)
from structattn.options.hardware import Hardware
from structattn.training import Significance, compare, pool
from structattn.training.comparison import Comparison, Difference, Group
from structattn.training.pooled_comparison import Pooled
from structattn.training.run_folder import RunFolder

# Maximum number of characters of a text in a line.
_WIDTH = 48


def command(
    runs: list[str],
    *,
    metric: str | None = None,
    split: str | None = None,
    data: str | None = None,
    data_format: str | None = None,
    parses: str | None = None,
    by: str | None = None,
    format: Literal["text", "markdown", "latex"] = "text",
    flips: str | None = None,
    examples: int = 10,
    pooled: str | None = None,
    cards: bool = False,
    hardware: Hardware,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Compare runs: mean and deviation over seeds, paired bootstrap against the first system, flipped examples.

    Args:
        runs: run folders, or folders with one run folder per seed; with --pooled, folders of data sets.
        metric: name of a metric; the task's own by default.
        split: dev, test, or a name under which eval --split kept predictions; by default dev, or else test.
        data: a file with labels on which the best model of each run makes predictions, in place of those of the run.
        data_format: the data format of that file; recognised from the file by default.
        parses: a CoNLL-U file with trees for the sentences that have none.
        by: also the metric on each part of the examples: by class, by length, or by the values of a column of the data.
        format: text; or a table for a paper, in markdown or latex (with booktabs).
        flips: an .html file for a page of all examples that one system gets right and the other wrong.
        examples: how many of these examples to print for each pair of systems.
        pooled: name of the system to compare the others with, over several data sets at once: each of RUNS is the
            folder of a data set, with a folder for each system.
        cards: also write the comparison into the model cards of the runs, best/README.md.
        hardware: where the models that predict --data run, and the precision.
        trust_code: import and run an encoder module:function that a run folder names.
        json: print one JSON object, with every flipped example.
    """
    check_ending(".html", flips=flips)
    check_at_least(0, examples=examples)
    if json and format != "text":
        raise ConfigError(f"--format: expected none with --json, got {format}")
    if data is None:
        refuse_without("--data FILE", data_format=data_format, parses=parses)
    if pooled is not None:
        if data is not None or flips is not None or format != "text" or cards:
            raise ConfigError(
                "--pooled: expected no --data, --flips, --format or --cards, which are about a single data set"
            )
        over_data_sets = pool(*runs, against=pooled, metric=metric, split=split)
        yield from [jsonlib.dumps(dataclasses.asdict(over_data_sets))] if json else _pooled_lines(over_data_sets)
        return
    comparison = compare(
        *runs,
        metric=metric,
        split=split,
        data=data,
        data_format=data_format,
        parses=parses,
        by=by,
        hardware=hardware,
        trust_code=trust_code,
    )
    if flips is not None:
        with replace_text(flips) as stream:
            stream.write(flips_page(comparison, data))
    if cards:
        _write_into_cards(comparison)
    if json:
        yield jsonlib.dumps(dataclasses.asdict(comparison), default=str)
    elif format == "text":
        yield from _lines(comparison, examples, data)
        if split is None and comparison.split == "dev":
            yield from _name_test(runs, metric)
    else:
        yield comparison_table(comparison, format)


def _write_into_cards(comparison: Comparison) -> None:
    text = comparison_table(comparison, "markdown")
    for folder in [RunFolder(path) for group in comparison.groups for path in group.folders]:
        if folder.best.is_dir():  # a run over all folds has no best model
            add_section(folder.best, "Comparison", text)


def _lines(comparison: Comparison, examples: int, data: str | None) -> Iterator[str]:
    yield f"{comparison.metric} on {comparison.split}, {comparison.num_examples} examples"
    yield ""
    header = ["system", "seeds", "mean", "sd", "difference", "95 % interval", "p bootstrap", "p random"]
    # The first group, with which all are compared, has no difference of its own.
    first, *compared = comparison.groups
    rows = [_row(group, difference) for group, difference in zip(compared, comparison.differences, strict=True)]
    # A single group has nothing to be compared with.
    shown = len(header) if rows else 4
    yield from align_columns(header[:shown], [_row(first, None)[:shown], *rows])
    if alone := [group.name for group in comparison.groups if rows and len(group.folders) == 1]:
        yield f"one seed of {', '.join(alone)}: no interval here says what another would change (train --seeds 1..5)"
    yield from _selected_runs(comparison)
    if comparison.parts:
        names = [group.name for group in comparison.groups]
        parts = [[part.value, f"{part.num_examples:,}", *map("{:.4f}".format, part.means)] for part in comparison.parts]
        yield ""
        yield from align_columns(["part", "examples", *names], parts)
    for difference in comparison.differences:
        yield from _flips(comparison, difference, examples, data)


def _name_test(runs: Sequence[str], metric: str | None) -> Iterator[str]:
    """The means on the test data, if all runs predicted on them: by default those on dev are compared."""
    with contextlib.suppress(StructAttnError):
        comparison = compare(*runs, metric=metric, split="test", samples=1)
        means = ", ".join(f"{group.name} {group.mean:.4f}" for group in comparison.groups)
        yield ""
        yield f"{comparison.metric} on test: {means} (--split test compares these)"


def _pooled_lines(pooled: Pooled) -> Iterator[str]:
    yield f"difference from {pooled.against}: each data set, and their mean"
    yield ""
    names = [f"{folder} ({metric})" for folder, metric in pooled.metrics.items()]
    header = ["system", *names, "mean", "95 % interval", "p bootstrap", "p Holm", "p random"]
    rows = []
    for system in pooled.differences:
        difference, interval, bootstrap, randomisation = _cells(system.significance)
        each = [f"{value:+.4f}" for value in system.by_data_set.values()]
        rows.append(
            [system.system, *each, difference, interval, bootstrap, format_probability(system.holm_p), randomisation]
        )
    yield from align_columns(header, rows)


def _selected_runs(comparison: Comparison) -> Iterator[str]:
    """Test figures of each system for the runs selected on dev."""
    rows = [(group.name, runs, values) for group in comparison.groups for runs, values in group.chosen.items()]
    if rows:
        names = list(dict.fromkeys(name for _, _, values in rows for name in values))
        shown = [
            [system, runs, *[f"{values[name]:.4f}" if name in values else "" for name in names]]
            for system, runs, values in rows
        ]
        yield ""
        yield from align_columns(["system", "seeds", *names], shown)


def _row(group: Group, difference: Difference | None) -> list[str]:
    deviation = "" if group.deviation is None else f"{group.deviation:.4f}"
    row = [group.name, str(len(group.values)), f"{group.mean:.4f}", deviation]
    if difference is None:
        return [*row, "", "", "", ""]
    return [*row, *_cells(difference.significance)]


def _cells(test: Significance) -> list[str]:
    """Difference, interval and both p-values."""
    randomisation = "" if test.randomisation_p is None else format_probability(test.randomisation_p)
    interval = f"{test.low:+.4f} to {test.high:+.4f}"
    return [f"{test.difference:+.4f}", interval, format_probability(test.bootstrap_p), randomisation]


def _flips(comparison: Comparison, difference: Difference, count: int, data: str | None) -> Iterator[str]:
    won = sum(flip.won for flip in difference.flips)
    lost = len(difference.flips) - won
    yield ""
    yield f"{difference.second} against {difference.first}: better on {won} example{'s' * (won != 1)}, worse on {lost}"
    if count and difference.flips:
        header = ["example", "gold", difference.first, difference.second, "is", "text"]
        rows = [
            [
                flip.id,
                *map(format_answers, ((flip.gold,), flip.first, flip.second)),
                "better" if flip.won else "worse",
                _short(" / ".join(flip.texts)),
            ]
            for flip in difference.flips[:count]
        ]
        yield from align_columns(header, rows, left=(0, len(header) - 1))
        command = explore_flip(comparison, difference, difference.flips[0], data)
        if command is not None:
            yield f"to open one: {command}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
