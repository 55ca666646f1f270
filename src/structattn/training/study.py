"""Search for the best options of a run: every trial is a run, and the study is one JSON file beside them.

The sampler is Optuna's, random or tree-structured Parzen estimators (Bergstra et al. 2011). A resumed study replays its
trials to the sampler from the first, so that the same seed and trials give the same study however often it was
interrupted.
"""

import dataclasses
import functools
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from structattn import training
from structattn.errors import ConfigError, naming, require
from structattn.files.json_yaml import read_json, read_yaml, write_json
from structattn.files.urls import check_local
from structattn.options.checking import suggest
from structattn.training.history import rank_value
from structattn.training.plan import plan_data, plan_run
from structattn.training.run_config import RunConfig, save_config
from structattn.training.run_folder import RunFolder, plain_values

Sampler = Literal["tpe", "random"]
STUDY, BEST = "study.json", "best.yaml"
# The first trials of ``tpe``, which are drawn at random, as there is nothing to learn from yet.
_AT_RANDOM = 6
# Of fewer trials, importance is chance.
_FEWEST = 10
_LARGEST = 2**53  # bound of the numbers of a range, and of its steps
_RANGE = {"low", "high", "step", "log"}


@dataclass(frozen=True)
class Trial:
    """One trial of a study: the value of each option, and the main metric of the task on the development data.

    ``is_best`` if no earlier trial was as good; ``seconds`` is training time.
    """

    number: int
    values: Mapping[str, Any]
    metric: float
    seconds: float
    is_best: bool


def sweep(
    config: RunConfig, space: Mapping[str, Any], *, trials: int = 16, sampler: Sampler = "tpe"
) -> Iterator[Trial]:
    """Try values of options, one run per trial, until there are enough trials; those already in ``config.out`` count.

    ``config.out`` then contains ``study.json``, the folders of the runs, and ``best.yaml``, the best configuration,
    which ``structattn train --config`` takes. An interrupted study resumes its interrupted run.

    Args:
        config: everything that is not searched; its ``seed`` is used for the runs and for the sampler.
        space: for the dotted name of each option, a list of values or a range ``{low, high}``, the latter optionally
            with ``log: true`` or a ``step``; whole numbers if both ends are.
        trials: total number of trials of the study.
        sampler: ``tpe`` learns from earlier trials, the first six of which are drawn at random; ``random`` draws each
            independently.

    Yields:
        The new trials.

    Raises:
        ConfigError: for a malformed space, or an option that does not exist or does not take a value; if ``config.out``
            is missing, or contains another study.
        MissingExtra: if the extra ``sweep`` is not installed.
    """
    if config.out is None:
        raise ConfigError("out: expected a folder for the study, got none")
    check_local(config.out)
    if config.folds is not None:
        raise ConfigError(f"folds: expected none in a sweep, which has no cross-validation, got {config.folds}")
    if trials < 1:
        raise ConfigError(f"trials: expected at least 1, got {trials}")
    distributions = _make_distributions(space)
    lowest = {name: values[0] if isinstance(values, list) else values["low"] for name, values in space.items()}
    task = plan_run(RunConfig.from_dict(with_values(config, lowest).to_dict())).task
    optuna = require("optuna", "sweep")
    out, metric = Path(config.out), task.main_metric
    samplers = {
        "tpe": functools.partial(optuna.samplers.TPESampler, n_startup_trials=_AT_RANDOM),
        "random": optuna.samplers.RandomSampler,
    }
    with _without_messages(optuna):
        study = optuna.create_study(
            sampler=samplers[sampler](seed=config.seed),
            direction="maximize" if metric.greater_is_better else "minimize",
        )
    described = json.loads(json.dumps({"sampler": sampler, "space": space, "config": plain_values(config)}))
    rows = _read_rows(out / STUDY, described)
    num_earlier, best = len(rows), None
    best_rank = (False, 0.0)
    for number in range(trials):
        proposal = study.ask(distributions)
        trial_config = with_values(config, proposal.params)
        is_new = number == len(rows)
        if is_new:
            folder = out / f"trial{number:03d}"
            result = training.run(
                dataclasses.replace(trial_config, out=str(folder)), resume=RunFolder(folder).config.is_file()
            )
            rows.append(
                {"values": proposal.params, "metric": float(result.metrics[metric.name]), "seconds": result.seconds}
            )
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / STUDY, {**described, "trials": rows})
        elif rows[number]["values"] != proposal.params:
            raise ConfigError(f"{out / STUDY}: made with another version of Optuna; choose another folder")
        value, seconds = rows[number]["metric"], rows[number]["seconds"]
        is_failed = math.isnan(value)  # a user's own metric may be undefined
        state = optuna.trial.TrialState
        study.tell(proposal, None if is_failed else value, state=state.FAIL if is_failed else state.COMPLETE)
        is_best = rank_value(value, metric) > best_rank
        if is_best:
            best_rank = rank_value(value, metric)
            best = dataclasses.replace(trial_config, out=None)
        # Once after the earlier trials, as a study may have been killed between writing its two files.
        if best is not None and (number == num_earlier - 1 or (is_new and is_best)):
            save_config(best, out / BEST)
        if is_new:
            yield Trial(number, proposal.params, value, seconds, is_best)


def rank_options(out: str | os.PathLike[str]) -> list[tuple[str, float, Any]]:
    """What mattered in a study: options by their importance, a share of 1, and the value of each in the best trial.

    PED-ANOVA (Watanabe, Bansal and Hutter 2023) tells how far the values of an option in the best tenth of the trials
    differ from those in all. Empty for fewer than ten trials with a metric, or if all are equally good.

    Args:
        out: the folder of the study.
    """
    described = read_json(Path(out) / STUDY, keys=("space", "config", "trials"))
    optuna, distributions = require("optuna", "sweep"), _make_distributions(described["space"])
    metric = plan_data(RunConfig.from_dict(described["config"]), splits=()).task.main_metric
    rows = [row for row in described["trials"] if not math.isnan(row["metric"])]
    if len(rows) < _FEWEST or len({row["metric"] for row in rows}) == 1:
        return []
    with _without_messages(optuna):
        study = optuna.create_study(direction="maximize" if metric.greater_is_better else "minimize")
        for row in rows:
            study.add_trial(
                optuna.trial.create_trial(params=row["values"], distributions=distributions, value=row["metric"])
            )
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    best = study.best_params
    return [(name, float(share), best[name]) for name, share in shares.items()]


def read_space(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The space of a YAML file: options by their dotted names, each a list or a range; an error names the file."""
    space = read_yaml(path)
    with naming(path):
        for name, dimension in space.items():
            _check_dimension(name, dimension)
    return space


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """A configuration with other values for options, named as on the command line, such as ``optimization.epochs``."""
    for name, value in values.items():
        config = _with_value(config, name.split("."), value, name)
    return config


@contextmanager
def _without_messages(optuna: Any) -> Iterator[None]:
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():  # of parts that may change
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _with_value(section: Any, path: Sequence[str], value: object, name: str) -> Any:
    if not path:
        return value
    first, *deeper = path
    if isinstance(section, Mapping):  # options of an encoder, which check themselves
        return {**section, first: _with_value(section.get(first, {}), deeper, value, name)}
    names = [item.name for item in dataclasses.fields(section)] if dataclasses.is_dataclass(section) else []
    if first not in names:
        raise ConfigError(f"unknown option {name!r}{suggest(first, names)}")
    return dataclasses.replace(section, **{first: _with_value(getattr(section, first), deeper, value, name)})


def _check_dimension(name: str, dimension: object) -> None:
    is_list = (
        isinstance(dimension, list)
        and bool(dimension)
        and all(isinstance(value, str | int | float | None) for value in dimension)
    )
    is_range = isinstance(dimension, dict) and {"low", "high"} <= set(dimension) <= _RANGE and _is_ordered(dimension)
    if not isinstance(name, str):
        raise ConfigError(f"{name!r}: expected the dotted name of an option, got {name!r}")
    if not is_list and not is_range:
        raise ConfigError(
            f"{name}: expected a list of values, or a range {{low: A, high: B}} with A below B, and log: true or a "
            f"step, got {dimension!r}"
        )


def _is_ordered(bounds: Mapping[str, Any]) -> bool:
    low, high, step, log = bounds["low"], bounds["high"], bounds.get("step"), bounds.get("log", False)
    numbers = [low, high, *([] if step is None else [step])]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
        return False
    # Optuna counts the steps of a range in 64 bits.
    if not isinstance(log, bool) or not all(abs(value) < _LARGEST for value in numbers) or not low < high:
        return False
    return not (log and (low <= 0 or step is not None)) and (step is None or high - low < _LARGEST * step)


def _make_distributions(space: Mapping[str, Any]) -> dict[str, Any]:
    if not space:
        raise ConfigError("sweep: expected at least one option to search")
    for name, dimension in space.items():
        _check_dimension(name, dimension)
    kinds = require("optuna", "sweep").distributions
    distributions: dict[str, Any] = {}
    for name, dimension in space.items():
        if isinstance(dimension, list):
            distributions[name] = kinds.CategoricalDistribution(dimension)
        elif all(isinstance(value, int) for value in dimension.values()):
            distributions[name] = kinds.IntDistribution(**dimension)
        else:
            distributions[name] = kinds.FloatDistribution(**dimension)
    return distributions


def _read_rows(file: Path, described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trials of a study so far."""
    if not file.is_file():
        return []
    previous = read_json(file, keys=("trials", *described))
    changed = [name for name in described if previous[name] != described[name]]
    if changed:
        raise ConfigError(f"{file}: a study with another {', '.join(changed)}; choose another folder")
    rows: Sequence[dict[str, Any]] = previous["trials"]
    return list(rows)
