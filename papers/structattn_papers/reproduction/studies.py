"""Records of studies: the values that the trials of a search space have chosen."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from structattn.files.json_yaml import read_json
from structattn.tasks import get_task
from structattn.training import RunFolder
from structattn_papers.reproduction.records import Record, check_digest, common_record
from structattn_papers.reproduction.rows import Row

STUDY = "study.json"


def record_of_study(row: Row, seed: int, path: Path, *, places: Mapping[str, str]) -> Record:
    """The record of a finished study: the metric of its best trial on the development data, and its values.

    Args:
        row: the row.
        seed: random seed of the sampler and the trials.
        path: the folder of the study.
        places: the path of each place.

    Raises:
        ConfigError: if the folder contains another study than the row's.
        ParseError: if a file of it is damaged.
    """
    study = read_json(path / STUDY, keys=("sampler", "space", "config", "trials"))
    trials, config = study["trials"], study["config"]
    search = {"space": study["space"], "sampler": study["sampler"], "trials": len(trials)}
    check_digest(row, row.digest_of({**config, **search}, places), path)
    main = get_task(config["task"]).main_metric
    best = (max if main.greater_is_better else min)(trials, key=lambda trial: trial["metric"])
    environment = read_json(RunFolder(path / "trial000").environment)
    return dataclasses.replace(
        common_record(row, seed, config, environment, places),
        metrics={main.name: best["metric"], "trials": len(trials)},
        seconds=round(sum(trial["seconds"] for trial in trials), 1),
        values=best["values"],
    )
