"""``structattn curve``: how good a system gets with more and more training data."""

import dataclasses
import json as jsonlib
import os
from collections.abc import Iterator
from statistics import mean, stdev

from structattn.cli.train_command import one_config_per_encoder, vary
from structattn.errors import ConfigError
from structattn.files.markdown import align_columns
from structattn.options.checking import parse_seeds
from structattn.training.plan import plan_run
from structattn.training.run_config import RunConfig


def command(
    config: RunConfig,
    *,
    sizes: str,
    seeds: str = "1..5",
    resume: bool = False,
    overwrite: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Train on samples of the training data, and print and draw the metric by their size.

    A smaller sample of a seed is a part of a larger one. Runs are in OUT/SIZE/seedN, with each of several encoders in a
    folder of its own, and the curve is OUT/curve.svg.

    Args:
        config: the configuration.
        sizes: numbers of training examples, and all, such as 100,300,1000,all.
        seeds: several runs for each size, such as 1..5 or 1,3,7.
        resume: continue an interrupted curve; what is finished is only read.
        overwrite: replace the runs in --out.
        json: print one JSON object per run.
    """
    if config.out is None:
        raise ConfigError("--out: expected a folder for the runs and the curve")
    plans = [
        plan_run(vary(_with_size(part, size.strip()), f"seed{seed}", seed=seed))
        for part in one_config_per_encoder(config)
        for size in sizes.split(",")
        for seed in parse_seeds(seeds, "--seeds")
    ]
    from structattn.pictures import Series, line_chart, save
    from structattn.training.run import run_plan

    values: dict[str, dict[int, list[float]]] = {}
    for plan in plans:
        again = resume and os.path.exists(str(plan.config.out))
        result = run_plan(plan, resume=again, overwrite=overwrite)
        name, number = plan.config.encoder, result.examples["train"]
        figures = result.test or result.metrics
        values.setdefault(name, {}).setdefault(number, []).append(figures[plan.task.main_metric.name])
        if json:
            yield jsonlib.dumps({"encoder": name, "size": number, "seed": plan.config.seed, **figures})
    title = f"{plans[0].task.main_metric.name} on {'test' if result.test else 'dev'}"
    points = {
        name: [
            (size, mean(each), stdev(each) if len(each) > 1 else 0.0, len(each)) for size, each in sorted(sized.items())
        ]
        for name, sized in values.items()
    }
    curves = [Series(name, *map(list, list(zip(*rows, strict=True))[:3])) for name, rows in points.items()]
    save(os.path.join(config.out, "curve.svg"), line_chart(curves, x_label="training examples", y_label=title))
    if not json:
        cells = [
            [name, f"{size:,}", f"{value:.4f}", f"{deviation:.4f}", str(count)]
            for name, rows in points.items()
            for size, value, deviation, count in rows
        ]
        yield from align_columns(["encoder", "examples", title, "sd", "seeds"], cells)


def _with_size(config: RunConfig, size: str) -> RunConfig:
    if size != "all" and not (size.isdecimal() and int(size)):
        raise ConfigError(f"--sizes: expected numbers of examples or all, such as 100,300,all, got {size!r}")
    return vary(config, size, data=dataclasses.replace(config.data, sample=None if size == "all" else int(size)))
