"""Trees for the data of a run that come without, where its encoder needs them."""

import dataclasses
import logging
from collections.abc import Sequence

import torch

from structattn.data import Example
from structattn.layers.modes import evaluating
from structattn.parsing.missing import MissingTrees, lacks_tree
from structattn.parsing.names import DEFAULT_PARSER
from structattn.syntax.errors import ConfigError, MissingStructure
from structattn.tasks import Task
from structattn.training import machine
from structattn.training.config import RunConfig
from structattn.training.examples import Split
from structattn.training.preparation import prepare_model

LOGGER = logging.getLogger("structattn.training")

_TRIED = 64


def find_missing_trees(config: RunConfig, task: Task, split: Split) -> tuple[Split, MissingTrees | None]:
    """The data of a run with the trees that its encoder needs, and what found them; ``None`` if nothing was missing.

    Whether the encoder needs trees is tried on a sentence that has none.

    Raises:
        ConfigError: for an unknown parser.
        MissingExtra: if the parser's package is not installed.
        MissingStructure: if trees are missing and ``config.data.parser`` is ``none``.
    """
    parser = config.data.parser or DEFAULT_PARSER
    # The answer of a task is nothing to be found beforehand.
    if parser == "none" or task.answer == "tree" or not _needs_trees(config, task, split):
        return split, None
    find_trees = MissingTrees(parser)
    find_trees.keep()
    known: dict[int, Example] = {}

    def completed(examples: Sequence[Example]) -> list[Example]:
        new = [example for example in examples if id(example) not in known]
        known.update(zip(map(id, new), find_trees(new), strict=True))
        return [known[id(example)] for example in examples]

    whole = Split(*(completed(getattr(split, item.name)) for item in dataclasses.fields(Split)))
    if machine.is_first():
        find_trees.log(LOGGER, "--data.parser")
    return whole, find_trees


def _needs_trees(config: RunConfig, task: Task, split: Split) -> bool:
    parts = (split.train, split.dev, split.test)
    bare = next((one for part in parts for one in part if any(map(lacks_tree, one.sentences))), None)
    if bare is None:
        return False
    # Vectors and most of the examples change nothing about it, and take time to read.
    without_vectors = dataclasses.replace(config, data=dataclasses.replace(config.data, vectors=None))
    of_each_label = list({str(example.label): example for example in split.train}.values())[:_TRIED]
    few = [*of_each_label, bare]
    try:
        model = prepare_model(without_vectors, task, Split(few, few, few))
    except ConfigError:
        model = prepare_model(without_vectors, task, split)
    try:
        with evaluating(model), torch.no_grad():
            model(model.collate([bare]))
    except MissingStructure as error:
        return error.structure == "dependency"
    return False
