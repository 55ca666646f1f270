"""Compare systems over several data sets at once: one test per system, corrected for the number of systems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from structattn.errors import ConfigError
from structattn.options.checking import suggest
from structattn.tasks.metrics import metric as get_metric
from structattn.training.kept_predictions import (
    KeptRun,
    PathLike,
    check_same_examples,
    collect_answers,
    find_run_folders,
    read_run,
)
from structattn.training.significance import Answers, Significance, compare_pooled


@dataclass(frozen=True)
class PooledDifference:
    """The difference of a system on each data set, second minus first; ``significance`` is that of their mean.

    ``holm_p`` is the bootstrap's p-value, corrected for the number of systems by Holm's procedure.
    """

    system: str
    by_data_set: Mapping[str, float]
    significance: Significance
    holm_p: float


@dataclass(frozen=True)
class Pooled:
    """Systems compared with one of them over several data sets.

    Attributes:
        against: the system that the others are compared with.
        metrics: the metric of each data set.
        differences: for each other system its name ``system``, the difference on each data set ``by_data_set`` (mean
            over seeds), the ``significance`` of their mean, and ``holm_p``, corrected for the number of systems.
    """

    against: str
    metrics: Mapping[str, str]
    differences: tuple[PooledDifference, ...]


def pool(
    *data_sets: PathLike,
    against: str,
    metric: str | None = None,
    split: str | None = None,
    samples: int = 10_000,
    seed: int = 0,
) -> Pooled:
    """Compare the systems that were run on each of several data sets with one of them.

    Args:
        *data_sets: one folder per data set, with one folder per system, named alike in all of them: a run folder, or a
            folder of run folders (one for each seed).
        against: the system that the others are compared with.
        metric: name of a metric; the main metric of each task if ``None``.
        split: ``"dev"``, ``"test"``, or a name under which ``evaluate`` kept predictions; if ``None``, dev where the
            run has it, otherwise test.
        samples: number of resamples of each test.
        seed: random seed of the resampling.

    Raises:
        ConfigError: if there are no two systems that were run on every data set, one of them ``against``; as for
            ``compare``; if greater is better for the metric of one data set and worse for that of another.
    """
    folders = {str(Path(data_set)): Path(data_set) for data_set in data_sets}
    systems = _find_systems(folders, against)
    runs = {
        name: {system: [read_run(run, split) for run in find_run_folders(folder / system)] for system in systems}
        for name, folder in folders.items()
    }
    metrics = {name: metric or by_system[against][0].metric for name, by_system in runs.items()}
    if len({get_metric(name).greater_is_better for name in metrics.values()}) != 1:
        names = ", ".join(dict.fromkeys(metrics.values()))
        expected = "metrics that are all better when greater, or all better when smaller"
        raise ConfigError(f"metric: expected {expected}, got {names}")
    answers = {
        system: {
            name: _pair_answers(by_system[against], by_system[system], metrics[name])
            for name, by_system in runs.items()
        }
        for system in systems
        if system != against
    }
    tests = [compare_pooled(list(by_name.values()), samples=samples, seed=seed) for by_name in answers.values()]
    adjusted = holm([test.bootstrap_p for test in tests])
    return Pooled(
        against,
        metrics,
        tuple(
            PooledDifference(system, {name: each.difference for name, each in by_name.items()}, test, p)
            for (system, by_name), test, p in zip(answers.items(), tests, adjusted, strict=True)
        ),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of a family of tests, adjusted so that the chance of any false discovery stays below the level.

    ``p~_(i) = max_{j <= i} min(1, (m - j + 1) p_(j))`` in increasing order (Holm 1979, "A simple sequentially
    rejective multiple test procedure").

    Args:
        p_values: p-values of the tests, in any order.

    Returns:
        The adjusted p-values, in the same order.

    Example:
        >>> holm([0.02, 0.01, 0.5])
        [0.04, 0.03, 0.5]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _find_systems(folders: Mapping[str, Path], against: str) -> list[str]:
    """The systems that have a folder in every data set, including the one to compare with."""
    if not folders:
        raise ConfigError("expected a folder for each data set, which contains a folder for each system")
    names_by_data_set = [{path.name for path in folder.glob("*") if path.is_dir()} for folder in folders.values()]
    for path, names in zip(folders, names_by_data_set, strict=True):
        if against not in names:
            listed = ", ".join(sorted(names)) or "none"
            raise ConfigError(
                f"{path} contains no folder {against!r}{suggest(against, names)}; systems there: {listed}"
            )
    shared = sorted(set.intersection(*names_by_data_set))
    if len(shared) < 2:
        raise ConfigError(f"{', '.join(folders)}: expected a second system beside {against!r} that all of them contain")
    return shared


def _pair_answers(first: Sequence[KeptRun], second: Sequence[KeptRun], name: str) -> Answers:
    metric = get_metric(name)
    for run in (*first, *second):
        check_same_examples(first[0], run)
    gold = collect_answers(first[0].rows, "gold", metric, first[0].file)
    predicted = [[collect_answers(run.rows, "predicted", metric, run.file) for run in runs] for runs in (first, second)]
    return Answers(metric, gold, first=predicted[0], second=predicted[1])
