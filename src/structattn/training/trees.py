"""Finding the trees that the encoder of a run needs and its data lack."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import torch

from structattn.data import Example
from structattn.errors import ConfigError, MissingStructure
from structattn.layers.evaluation_mode import evaluating
from structattn.parsing.missing_trees import STRUCTURES, MissingTrees, find_missing_structures
from structattn.parsing.parsers import DEFAULT_PARSER
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence
from structattn.tasks.items import num_words
from structattn.training import distributed
from structattn.training.config import DataConfig
from structattn.training.examples import Split
from structattn.training.plan import RunPlan
from structattn.training.preparation import prepare_model

LOGGER = logging.getLogger("structattn.training")

_TRIED = 64


def find_missing_trees(plan: RunPlan, split: Split) -> tuple[Split, MissingTrees | None]:
    """The data of a run with the trees that its encoder needs, and their finder, ``None`` if no tree was missing.

    Which trees the encoder needs is found by running it on sentences that have none. Phrase trees are derived from
    dependency trees.

    Raises:
        ConfigError: for an unknown parser.
        MissingExtra: if the parser's package is not installed.
        MissingStructure: if trees are missing and ``data.parser`` is ``none``.
    """
    parser = plan.config.data.parser or DEFAULT_PARSER
    # A tree that is the answer of a task must not be found beforehand, and streamed data have been parsed.
    if parser == "none" or plan.task.answer == "tree" or plan.config.data.streaming:
        return split, None
    needed = _needed_trees(plan, split)
    if not needed:
        return split, None
    find_trees = MissingTrees(parser, structures=needed)
    find_trees.keep()
    known: dict[int, Example] = {}

    def completed(examples: Sequence[Example]) -> list[Example]:
        new = [example for example in examples if id(example) not in known]
        known.update(zip(map(id, new), find_trees(new), strict=True))
        return [known[id(example)] for example in examples]

    whole = Split(*(completed(getattr(split, item.name)) for item in dataclasses.fields(Split)))
    if distributed.is_first_process():
        find_trees.log(LOGGER, "--data.parser")
    return whole, find_trees


def _needed_trees(plan: RunPlan, split: Split) -> frozenset[str]:
    """The trees that the model asks for when sentences lack them; stand-ins replace those that can be parsed."""
    # The shortest of each kind comes last, so it is the one that is kept and encoded.
    longest_first = sorted((*split.train, *split.dev, *split.test), key=num_words, reverse=True)
    by_missing = {_missing(example): example for example in longest_first}
    bare = [example for missing, example in by_missing.items() if missing]
    if not bare:
        return frozenset()
    # The labels of phrases that a model is trained on are answers too.
    findable = {"dependency"} if (plan.config.data.phrases or plan.task.phrases) != "none" else set(STRUCTURES)
    # Vectors and most of the examples make no difference here, and take time to read.
    wordless = dataclasses.replace(plan.config.data, vectors=None, vectors_size=None, frozen=DataConfig.frozen)
    without_vectors = plan.with_config(data=wordless)
    of_each_label = list({str(example.label): example for example in split.train}.values())[:_TRIED]
    needed: frozenset[str] = frozenset()
    while True:
        few, tried = ([_with_stand_ins(one, needed) for one in some] for some in (of_each_label, bare))
        both = [*few, *tried]
        try:
            _try(tried, without_vectors, Split(both, both, both), split)
        except MissingStructure as error:
            if error.structure in findable - needed:
                needed |= {error.structure}
                continue
        return needed


def _try(examples: Sequence[Example], plan: RunPlan, few: Split, whole: Split) -> None:
    try:
        model = prepare_model(plan, few)
    except ConfigError:
        model = prepare_model(plan, whole)
    with evaluating(model), torch.no_grad():
        model(model.collate(examples))


def _missing(example: Example) -> frozenset[str]:
    return frozenset[str]().union(*map(find_missing_structures, example.sentences))


def _with_stand_ins(example: Example, structures: frozenset[str]) -> Example:
    def completed(sentence: Sentence) -> Sentence:
        chain = DependencyTree(range(len(sentence)), ["dep"] * len(sentence))
        found: dict[str, Any] = {
            "dependency": chain,
            "constituency": ConstituencyTree.from_dependency(sentence.words, chain),
        }
        return dataclasses.replace(
            sentence, **{name: found[name] for name in find_missing_structures(sentence) & structures}
        )

    return dataclasses.replace(example, sentences=tuple(map(completed, example.sentences)))
