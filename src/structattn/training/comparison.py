"""Compare runs: mean and deviation over seeds, significance of differences, and the examples that flipped."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from structattn.data import Example
from structattn.errors import ConfigError
from structattn.options.hardware import Hardware
from structattn.tasks import get_task
from structattn.tasks.metrics import Metric
from structattn.tasks.metrics import metric as get_metric
from structattn.training.examples import Data, name_source, read_labelled, read_split
from structattn.training.kept_predictions import (
    KeptRun,
    PathLike,
    check_same_examples,
    collect_answers,
    find_run_folders,
    read_run,
)
from structattn.training.plan import plan_data
from structattn.training.prediction_inputs import summarise_labelled
from structattn.training.run_config import load_config
from structattn.training.run_data import inherit_data_config, load_located
from structattn.training.run_folder import RunFolder, RunResult, read_result
from structattn.training.significance import Significance, compare_answers

LOGGER = logging.getLogger("structattn.training")


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed; ``deviation`` is the sample standard deviation, ``None`` for a single run.

    ``chosen`` has, for several runs on test data, the figures that ``choose_on_dev`` returns.
    """

    name: str
    folders: tuple[Path, ...]
    values: tuple[float, ...]
    mean: float
    deviation: float | None
    chosen: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Flip:
    """An example on which one group was right in more of its runs than the other; ``won`` if the second was.

    ``texts`` are those of its sentences, if the predictions have them; ``first`` and ``second`` have an answer per run.
    """

    id: str
    texts: tuple[str, ...]
    gold: str | float
    first: tuple[str | float, ...]
    second: tuple[str | float, ...]
    won: bool


@dataclass(frozen=True)
class Difference:
    """The second group minus the first; flips are ordered by their size, and for scores include every changed error."""

    first: str
    second: str
    significance: Significance
    flips: tuple[Flip, ...]


@dataclass(frozen=True)
class Part:
    """The examples that share a value, by which the comparison was split: how many, and the mean of each group."""

    value: str
    num_examples: int
    means: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """The result of ``compare``.

    Attributes:
        metric: name of the metric.
        split: ``"dev"``, ``"test"``, or the name of the data that were given.
        num_examples: how many examples the runs share.
        groups: the groups, in the order given: each has a ``name``, the run ``folders``, the ``values`` of the metric,
            their ``mean`` and ``deviation``, and as ``chosen`` what papers report of runs chosen on development data.
        differences: every other group against the first: the names ``first`` and ``second``, the ``significance``, and
            as ``flips`` the examples that changed, with ``id``, ``texts``, ``gold`` and the answers of both.
        parts: if ``by`` is given, the metric on each part of the examples: its ``value``, ``num_examples`` and the
            ``means`` of the groups.
    """

    metric: str
    split: str
    num_examples: int
    groups: tuple[Group, ...]
    differences: tuple[Difference, ...]
    parts: tuple[Part, ...] = ()


def compare(
    *groups: PathLike | Sequence[PathLike],
    metric: str | None = None,
    split: str | None = None,
    data: Data | None = None,
    data_format: str | None = None,
    parses: str | None = None,
    by: str | None = None,
    hardware: Hardware | None = None,
    trust_code: bool = False,
    samples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare groups of runs on the examples they share: by their own predictions, or on other data.

    Args:
        *groups: each a run folder, a folder of run folders (one for each seed), or a sequence of run folders.
        metric: name of a metric; the task's main metric if ``None``.
        split: ``"dev"``, ``"test"``, or a name under which ``evaluate`` kept predictions; if ``None``, dev where the
            run has it, otherwise test.
        data: other data to evaluate the best model of each run on, instead of comparing its own predictions: a file, or
            examples as for ``structattn.train``. Columns are named as in the training data of the run.
        data_format: the data format of that file; recognised from the file if ``None``.
        parses: a CoNLL-U file with trees for sentences that have none.
        by: also measure each part of the examples: by ``class`` (the gold label), by ``length`` (words), or by the
            values of a column of the data.
        hardware: device and precision of the models; the CPU if ``None``.
        trust_code: whether an encoder that a folder names as ``module:function`` may be imported and run.
        samples: number of resamples of each test.
        seed: random seed of the resampling.

    Raises:
        ConfigError: if a folder contains no finished run, the runs answered different examples, or the metric does not
            fit their answers; if both ``split`` and ``data`` are given, or the device is not available.
        ParseError: with file and line, for malformed data.
    """
    if not groups:
        raise ConfigError("compare expects at least one run folder")
    if split is not None and data is not None:
        raise ConfigError("compare expects a split of the runs' own predictions, or other data, not both")

    source = list(data) if isinstance(data, Iterator) else data
    warned: set[str] = set()  # runs of one system have the same labels

    def read(folder: Path) -> KeptRun:
        if source is None:
            return read_run(folder, split)
        # Comparing predictions that were kept needs no models.
        from structattn.training.models import load

        model = (hardware or Hardware("cpu")).move(load(folder, trust_code=trust_code))
        config = load_config(RunFolder(folder).config)
        settings = inherit_data_config(folder, source, format=data_format, parses=parses)
        examples = read_labelled(model.task, source, settings)
        for warning in summarise_labelled(model, examples, source, format=settings.format).warnings:
            if warning not in warned:
                LOGGER.warning("%s", warning)
                warned.add(warning)
        with (hardware or Hardware("cpu")).autocast():
            rows = list(model.evaluate(examples).rows())
        name = name_source(source)
        return KeptRun(folder, config, model.task.main_metric.name, name, Path(name), rows)

    runs = [[read(folder) for folder in find_run_folders(group)] for group in groups]
    first = runs[0][0]
    for run in (run for group in runs for run in group):
        check_same_examples(first, run)
    compared = get_metric(metric or first.metric)
    gold = collect_answers(first.rows, "gold", compared, first.file)
    answers = [[collect_answers(run.rows, "predicted", compared, run.file) for run in group] for group in runs]
    members = [
        _make_group(name, group, answer, gold, compared)
        for name, group, answer in zip(_name_groups(runs), runs, answers, strict=True)
    ]
    differences = [
        Difference(
            members[0].name,
            group.name,
            compare_answers(compared, gold, first=answers[0], second=answer, samples=samples, seed=seed),
            _find_flips(first.rows, gold, np.stack(answers[0]), second=np.stack(answer)),
        )
        for group, answer in zip(members[1:], answers[1:], strict=True)
    ]
    parts: tuple[Part, ...] = ()
    if by is not None:
        values = _find_values(by, first, source, data_format)
        counts = Counter(values)
        names = [value for value, _ in counts.most_common()]
        if by == "length":
            names.sort(key=lambda name: int(name.partition("–")[0]))
        parts = tuple(_measure_part(compared, gold, answers, np.asarray(values) == name, name) for name in names)
    return Comparison(compared.name, first.split, len(gold), tuple(members), tuple(differences), parts)


def _find_values(by: str, run: KeptRun, source: Data | None, data_format: str | None) -> list[str]:
    """The value of each example by which they are split."""
    if by == "length":
        lengths = [sum(len(text.split()) for text in row.get("texts", ())) for row in run.rows]
        return [f"{length // 10 * 10}–{length // 10 * 10 + 9} words" for length in lengths]
    if by == "class":
        if any(not isinstance(row["gold"], str) for row in run.rows):
            raise ConfigError("by: expected length or a column, as the answers are scores, got class")
        return [row["gold"] for row in run.rows]
    # A column of the file is read as that of ids, which is the one that examples keep as it is.
    if source is not None:
        task = get_task(run.config.task)
        settings = inherit_data_config(run.folder, source, format=data_format, id_column=by)
        examples: Sequence[Example] = read_labelled(task, source, settings)
    elif run.split in ("dev", "test"):
        config = load_located(RunFolder(run.folder))
        plan = plan_data(dataclasses.replace(config, data=dataclasses.replace(config.data, id_column=by)))
        examples = getattr(read_split(plan), run.split)
    else:
        raise ConfigError(f"by: column {by!r} of the file of split {run.split!r} is not known: give the file as data")
    if len(examples) != len(run.rows):
        raise ConfigError(f"by: the data have {len(examples)} examples, and {run.file} has {len(run.rows)}")
    return [example.id for example in examples]


def _measure_part(
    metric: Metric, gold: np.ndarray, answers: Sequence[Sequence[np.ndarray]], rows: np.ndarray, name: str
) -> Part:
    means = tuple(mean(metric.value(gold[rows], answer[rows]) for answer in group) for group in answers)
    return Part(name, int(rows.sum()), means)


def choose_on_dev(results: Sequence[RunResult], main: Metric) -> dict[str, dict[str, float]]:
    """Test figures as papers report them: of the run that is best on development data, and means over the better half.

    Figures that one of the runs lacks are left out.
    """
    sign = -1 if main.greater_is_better else 1
    best = sorted(results, key=lambda result: sign * result.metrics[main.name])
    half = best[: (len(best) + 1) // 2]
    names = [name for name in best[0].test if all(name in result.test for result in best)]
    return {
        f"best of {len(best)} on dev": {name: best[0].test[name] for name in names},
        f"mean of best {len(half)} on dev": {name: mean(result.test[name] for result in half) for name in names},
    }


def _name_groups(groups: Sequence[Sequence[KeptRun]]) -> list[str]:
    """The encoder of each group, with as much of its folder as is needed to distinguish groups of one encoder."""
    encoders = ["+".join(dict.fromkeys(run.config.encoder for run in group)) for group in groups]
    folders = [group[0].folder if len(group) == 1 else group[0].folder.parent for group in groups]
    paths = [folder.absolute().parts for folder in folders]
    names: list[str] = []
    for depth in range(1, max(map(len, paths)) + 1):
        ends = ["/".join(parts[-depth:]) for parts in paths]
        pairs = list(zip(encoders, ends, strict=True))
        names = [encoder if end == encoder else f"{encoder} ({end})" for encoder, end in pairs]
        if len(set(names)) == len(set(zip(encoders, paths, strict=True))):
            break
    return names


def _make_group(
    name: str, runs: Sequence[KeptRun], answers: Sequence[np.ndarray], gold: np.ndarray, metric: Metric
) -> Group:
    values = tuple(metric.value(gold, answer) for answer in answers)
    folders = tuple(run.folder for run in runs)
    deviation = stdev(values) if len(values) > 1 else None
    figures: dict[str, dict[str, float]] = {}
    # Folds have no development data in common.
    if len(runs) > 1 and runs[0].split == "test" and all(run.config.folds is None for run in runs):
        figures = choose_on_dev([read_result(RunFolder(folder)) for folder in folders], get_metric(runs[0].metric))
    return Group(name, folders, values, mean(values), deviation, figures)


def _find_flips(
    rows: Sequence[Mapping[str, Any]], gold: np.ndarray, first: np.ndarray, *, second: np.ndarray
) -> tuple[Flip, ...]:
    """Answers have shape ``(run, example)``; the score of an example is its mean over the runs."""
    if gold.dtype.kind == "f":
        change = np.abs(first - gold).mean(0) - np.abs(second - gold).mean(0)
    else:
        change = (second == gold).mean(0) - (first == gold).mean(0)
    order = [index for index in np.argsort(-np.abs(change), kind="stable") if change[index] != 0]
    return tuple(
        Flip(
            str(rows[index]["id"]),
            tuple(rows[index].get("texts", ())),
            gold[index].item(),
            tuple(first[:, index].tolist()),
            tuple(second[:, index].tolist()),
            bool(change[index] > 0),
        )
        for index in order
    )
