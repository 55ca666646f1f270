"""``structattn parser train``: a dependency parser from a treebank."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator
from typing import Any

from structattn.cli.lines import figures
from structattn.parsing.treecrf import Loss, Trees
from structattn.training.parser import train_parser
from structattn.training.parser_config import ParserConfig


def command(
    treebank: str,
    *,
    dev: str,
    out: str,
    backbone: str | None = None,
    trees: Trees = "all",
    loss: Loss = "trees",
    encoder: dict[str, Any] | None = None,
    scorer: dict[str, Any] | None = None,
    min_count: int = 2,
    learning_rate: float | None = None,
    backbone_learning_rate: float = 1e-4,
    batch_size: int | None = None,
    epochs: int | None = None,
    patience: int = 5,
    seed: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Train a dependency parser on a treebank and leave a run folder; its best parser is structattn:FOLDER.

    Args:
        treebank: a CoNLL-U file to learn from.
        dev: a CoNLL-U file that chooses the best epoch by its LAS, punctuation included.
        out: the run folder.
        backbone: the folder of a Hugging Face encoder, which is fine-tuned; words and characters alone without one.
        trees: all trees, or projective ones only.
        loss: likelihood of whole trees, or of the head of each of the words, which is faster.
        encoder: options of the encoder, such as --encoder.hidden 300.
        scorer: options of the biaffine scorer, such as --scorer.arc_dim 300.
        min_count: rarer words are known by their characters only.
        learning_rate: peak learning rate; 2e-3, with a backbone 1e-3 by default.
        backbone_learning_rate: the same for the backbone.
        batch_size: sentences a step; 48, with a backbone 16 by default.
        epochs: maximum number of epochs; 25 by default, with a backbone 5.
        patience: stop after this number of epochs without a better LAS.
        seed: of parameters, dropout and order.
        resume: continue the interrupted run in --out.
        overwrite: replace the run in --out.
        json: print one JSON object.
    """
    config = ParserConfig(
        treebank,
        dev,
        out,
        backbone=backbone,
        trees=trees,
        loss=loss,
        encoder=encoder or {},
        scorer=scorer or {},
        min_count=min_count,
        learning_rate=learning_rate,
        backbone_learning_rate=backbone_learning_rate,
        batch_size=batch_size,
        epochs=epochs,
        patience=patience,
        seed=seed,
    )
    result = train_parser(config, resume=resume, overwrite=overwrite)
    if json:
        yield jsonlib.dumps(dataclasses.asdict(result), default=str)
    else:
        yield f"{result.folder}  {figures(result.metrics)}  epoch {result.epoch}  {result.seconds:.0f} s"
