"""``structattn train``: one run folder for each encoder and seed."""

import dataclasses
import itertools
import json as jsonlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from structattn import training
from structattn.cli.terminal_tables import format_metrics
from structattn.errors import ConfigError
from structattn.options.checking import parse_seeds
from structattn.training.plan import plan_run
from structattn.training.run_config import RunConfig
from structattn.training.run_data import inherit_config
from structattn.training.run_folder import RunFolder

if TYPE_CHECKING:
    from structattn.training import RunResult

_SECTIONS = ("data", "classifier", "decoder", "optimization")


def expand(words: Sequence[str]) -> list[str]:
    """The words with the options of the run that ``--continue`` names before all others, which change them."""
    words = [re.sub("^--continue(?==|$)", "--continued", word) for word in words]
    options = [(*word.partition("=")[::2], after) for word, after in zip(words, [*words[1:], ""], strict=True)]
    run = next((value or after for name, value, after in options if name == "--continued"), "")
    return [*_as_options(inherit_config(run)), *words] if run else words


def _as_options(values: Mapping[str, Any], section: str = "") -> Iterator[str]:
    for name, value in values.items():
        if name in _SECTIONS:
            yield from _as_options(value, f"{section}{name}.")
        elif value is not None and value != {}:
            yield f"--{section}{name}={value if isinstance(value, str) else jsonlib.dumps(value)}"


def command(
    config: RunConfig,
    *,
    seeds: str | None = None,
    backbone: str | None = None,
    adapter: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Train an encoder on a task and write a run folder: the best model, its predictions, all metrics.

    Several encoders separated by commas, such as --encoder ms_san,disan, are trained one after the other with the same
    options, each in its own folder, below --out if that is given.

    Args:
        config: the configuration.
        seeds: several runs, such as 1..5 or 1,3,7; each in its own folder below --out.
        backbone: folder of a Hugging Face encoder, whose states the encoder reads: the same as --embedder.name backbone
            --embedder.folder.
        adapter: folder of HYDRA heads, for the encoder hydra: as --options.adapter.
        resume: continue the interrupted run in --out.
        overwrite: replace the run in --out.
        trust_code: import and run an encoder module:function that the folder of --init names.
        json: print one JSON object per run.
    """
    if backbone is not None:
        config = dataclasses.replace(config, embedder={**config.embedder, "name": "backbone", "folder": backbone})
    if adapter is not None:
        config = dataclasses.replace(config, options={**config.options, "adapter": adapter})
    numbers: Sequence[int | None] = [None] if seeds is None else parse_seeds(seeds, "--seeds")
    groups = [
        [plan_run(part if seed is None else vary(part, f"seed{seed}", seed=seed)) for seed in numbers]
        for part in one_config_per_encoder(config)
    ]
    for plan in itertools.chain(*groups):
        if plan.config.out is not None:
            RunFolder(plan.config.out).check_free(plan.config, resume=resume, overwrite=overwrite)
    from structattn.inspection.report_page import save_report
    from structattn.training.run import run_plan

    for group in groups:
        results = []
        for plan in group:
            results.append(run_plan(plan, resume=resume, overwrite=overwrite, trust_code=trust_code))
            if training.is_first_process():
                save_report(results[-1])
                yield _json(plan.config, results[-1]) if json else _line(results[-1])
        if len(results) > 1 and training.is_first_process() and not json:
            yield from _summary(results)


def one_config_per_encoder(config: RunConfig) -> list[RunConfig]:
    """One configuration for each encoder that is named; each of several has a folder below that of the run."""
    names = [name.strip() for name in config.encoder.split(",")]
    if len(names) == 1:
        return [config]
    if len(set(names)) < len(names):
        raise ConfigError(f"--encoder: expected different encoders, got {config.encoder}")
    return [vary(config, name, encoder=name) for name in names]


def vary(config: RunConfig, folder: str, **changes: Any) -> RunConfig:
    """The configuration with changes, in a folder below that of the run, if one is given."""
    out = None if config.out is None else os.path.join(config.out, folder)
    return dataclasses.replace(config, out=out, **changes)


def _line(result: "RunResult") -> str:
    test = f"  test: {format_metrics(result.test)}" if result.test else ""
    epoch = f"  best epoch {result.best['epoch']:g}" if result.best else ""
    return f"{result.folder}  {format_metrics(result.metrics)}{test}{epoch}  {result.seconds:.1f} s"


def _json(config: RunConfig, result: "RunResult") -> str:
    values = {name: value for name, value in dataclasses.asdict(result).items() if name != "reports"}
    return jsonlib.dumps({"seed": config.seed, **values}, default=str)


def _summary(results: "list[RunResult]") -> Iterator[str]:
    for name in results[0].metrics:
        values = [result.metrics[name] for result in results]
        yield f"{name}: {mean(values):.4f} ± {stdev(values):.4f} over {len(values)} seeds"
    if results[0].test:
        from structattn.tasks import metric
        from structattn.training.comparison import choose_on_dev

        for runs, metrics in choose_on_dev(results, metric(next(iter(results[0].metrics)))).items():
            yield f"{runs}  test: {format_metrics(metrics)}"
