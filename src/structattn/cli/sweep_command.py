"""``structattn sweep``: search for the best options of a run, in a given number of trials."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from structattn import training
from structattn.files.markdown import align_columns
from structattn.training.run_config import RunConfig


def command(
    space: str,
    config: RunConfig,
    *,
    trials: int = 16,
    sampler: Literal["tpe", "random"] = "tpe",
    json: bool = False,
) -> Iterator[str]:
    """Search the options that a file names for the best run on the development data, and write its configuration.

    OUT/best.yaml is that configuration. The study is kept in OUT: repeating the command resumes it, or
    adds trials.

    Args:
        space: a YAML file with a list of values or a range for each option, such as optimization.learning_rate: {low:
            0.0003, high: 0.003, log: true}.
        config: the rest of the configuration.
        trials: total number of trials of the study.
        sampler: tpe learns from earlier trials, random does not.
        json: print one JSON object per trial.
    """
    try:
        from structattn.training.study import rank_options, read_space

        for trial in training.sweep(config, read_space(space), trials=trials, sampler=sampler):
            if json:
                yield jsonlib.dumps(dataclasses.asdict(trial))
            else:
                values = "  ".join(f"{name} {_short(value)}" for name, value in trial.values.items())
                mark = " *" if trial.is_best else ""
                yield f"trial {trial.number}: {trial.metric:.4f}{mark}  {values}  {trial.seconds:.1f} s"
    except KeyboardInterrupt as interrupt:
        # Replaces the note of the trial's own run, which says how to resume that run only.
        interrupt.__notes__ = [f"{config.out} keeps the study so far; the same command resumes it"]
        raise
    if json:
        return
    if ranked := rank_options(config.out or ""):
        yield ""
        rows = [[name, f"{share:.3f}", _short(best)] for name, share, best in ranked]
        yield from align_columns(["option", "importance", "best value"], rows)
    yield f"best: {Path(config.out or '') / 'best.yaml'}; structattn train --config takes it, with other seeds"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
