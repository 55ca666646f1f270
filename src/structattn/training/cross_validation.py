"""Cross-validation, for data sets without a standard split (CR, MPQA, SUBJ): one run per fold, and their mean.

The folds are the same for every seed and encoder. Each fold holds a part of its training data out to choose its best
model, and is measured once on its test part.
"""

import dataclasses
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from structattn.syntax.folders import read_json_lines, write_json_lines
from structattn.training import processes
from structattn.training.config import RunConfig
from structattn.training.folder import RunFolder
from structattn.training.preparation import task_of
from structattn.training.run import (
    RunResult,
    choose_folder,
    claimed,
    environment,
    open_folder,
    read_result,
    run,
    write_description,
    write_result,
)


def cross_validate(
    config: RunConfig, *, resume: bool = False, overwrite: bool = False, trust_code: bool = False
) -> RunResult:
    """Train every fold; leave their run folders and a summary.

    The folder holds ``fold01``, ``fold02``, ..., the predictions on all test parts together, which ``compare`` reads
    as those of one run, and a ``result.json`` with mean and standard deviation over the folds.

    Args:
        config: a configuration with ``folds``.
        resume: go on with an interrupted cross-validation.
        overwrite: replace one.
        trust_code: as in ``run``.

    Raises:
        ConfigError: as ``run``.
    """
    folds = config.folds or 0
    folder = RunFolder(processes.from_first(lambda: choose_folder(config)))
    with claimed(folder):
        processes.from_first(lambda: open_folder(folder, config, resume=resume, overwrite=overwrite))
        if folder.is_finished:
            return read_result(folder)
        results = []
        for fold in range(1, folds + 1):
            place = folder.path / f"fold{fold:02d}"
            one = dataclasses.replace(config, fold=fold, out=str(place))
            results.append(run(one, resume=resume and place.exists(), trust_code=trust_code))
            if fold == 1 and processes.is_first():
                write_description(folder, config, environment(config))
        return processes.from_first(lambda: _summarise(folder, config, results))


def _summarise(folder: RunFolder, config: RunConfig, results: list[RunResult]) -> RunResult:
    task = task_of(config)
    metrics: dict[str, float] = {}
    for name in task.metrics:
        values = [result.test[name] for result in results]
        metrics |= {name: mean(values), f"{name}_sd": stdev(values)}
    write_json_lines(folder.predictions("test"), _predictions([result.folder for result in results]))
    summary = RunResult(
        folder.path,
        metrics,
        test={name: metrics[name] for name in task.metrics},
        parameters=results[0].parameters,
        seconds=round(sum(result.seconds for result in results), 2),
    )
    write_result(folder, summary, task)
    return summary


def _predictions(folds: list[Path]) -> list[dict[str, Any]]:
    return [row for fold in folds for row in read_json_lines(RunFolder(fold).predictions("test"))]
