"""``structattn squad``: a backbone, with or without HYDRA heads, fine-tuned and evaluated on SQuAD."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator

from structattn import training
from structattn.cli import check_sources, format_metrics
from structattn.training.run_folder import RunFolder
from structattn_papers import questions
from structattn_papers.questions.questions_config import QuestionRun


def command(config: QuestionRun, *, resume: bool = False, overwrite: bool = False, json: bool = False) -> Iterator[str]:
    """Fine-tune a backbone on SQuAD, with HYDRA heads if there is an adapter; report exact match and F1.

    Args:
        config: the configuration.
        resume: continue the interrupted run in --out.
        overwrite: replace the run in --out.
        json: print one JSON object.
    """
    check_sources(config.train, config.dev, backbone=config.backbone, adapter=config.adapter)
    RunFolder(config.out).check_free(config, resume=resume, overwrite=overwrite)
    found = questions.run_questions(config, resume=resume, overwrite=overwrite)
    if not training.is_first_process():
        return
    if json:
        yield jsonlib.dumps({"seed": config.seed, **dataclasses.asdict(found)})
    else:
        counts = f"{found.questions['train']} training questions, {found.questions['dev']} evaluated"
        yield f"{found.folder}  {format_metrics(found.metrics)}  {found.seconds:.1f} s  {counts}"
