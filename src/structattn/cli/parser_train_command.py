"""``structattn parser train``: a dependency parser from a treebank."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator

from structattn import training
from structattn.cli.command_inputs import check_sources
from structattn.cli.terminal_tables import format_metrics
from structattn.training.parser_config import ParserConfig
from structattn.training.run_folder import RunFolder


def command(
    treebank: str, config: ParserConfig, *, resume: bool = False, overwrite: bool = False, json: bool = False
) -> Iterator[str]:
    """Train a dependency parser on a treebank and write a run folder; its best parser is structattn:FOLDER.

    Args:
        treebank: a CoNLL-U file to train on.
        config: the configuration.
        resume: continue the interrupted run in --out.
        overwrite: replace the run in --out.
        json: print one JSON object.
    """
    check_sources(config.treebank, config.dev, config.test, backbone=config.backbone)
    RunFolder(config.out).check_free(config, resume=resume, overwrite=overwrite)
    result = training.train_parser(config, resume=resume, overwrite=overwrite)
    if not training.is_first_process():
        return
    if json:
        yield jsonlib.dumps(dataclasses.asdict(result), default=str)
    else:
        yield f"{result.folder}  {format_metrics(result.metrics)}  epoch {result.epoch}  {result.seconds:.0f} s"
        if result.test:
            yield f"{config.test}  {format_metrics(result.test)}"
