"""The model of a run that continues another one on further data: how vocabulary and classes grow."""

import dataclasses
import logging
import os
from collections.abc import Mapping

import torch

from structattn.errors import ConfigError
from structattn.tasks import TaskModel
from structattn.training import distributed
from structattn.training.examples import Split
from structattn.training.plan import RunPlan

LOGGER = logging.getLogger("structattn.training")


def extend_classes(plan: RunPlan, source: TaskModel, split: Split) -> RunPlan:
    """The plan with the classes of the run, in their order, and then those that are new in the training data."""
    if plan.task.answer == "text":
        raise ConfigError(f"continued: task {plan.task.name!r} is answered with text; --init takes its encoder alone")
    if plan.task.is_regression:
        return dataclasses.replace(plan, task=dataclasses.replace(plan.task, score_range=source.task.score_range))
    if not source.labels:
        return plan
    present = {label for example in split.train for label in plan.task.classes_in(example.label)}
    absent = [label for label in source.labels if label not in present]
    if absent and distributed.is_first_process():
        LOGGER.warning(
            "the training data have no example of %s: the model keeps these classes, and may forget them",
            ", ".join(absent),
        )
    if plan.task.labels is not None:
        return plan
    grown = (*source.labels, *sorted(present - set(source.labels)))
    return dataclasses.replace(plan, task=dataclasses.replace(plan.task, labels=grown))


@torch.no_grad()
def take_over(model: TaskModel, source: TaskModel, run: str | os.PathLike[str]) -> None:
    """Copy the parameters of the run; words and classes that are new come after the old ones of every table."""
    # New words keep their first vectors. A new class begins as the mean of the others: it is then never the most
    # probable one, so that the answers of the model are at first those of the run.
    fresh: Mapping[str, torch.Tensor] = model.state_dict()
    saved = source.state_dict()
    if fresh.keys() != saved.keys():
        raise ConfigError(f"continued: the parameters of {run} are not those of this model; is its encoder the same?")
    for name, tensor in saved.items():
        target = fresh[name]
        for axis, (old, new) in enumerate(zip(tensor.shape, target.shape, strict=True)):
            if old != new and not name.startswith("encoder."):
                mean = tensor.mean(axis, keepdim=True)
                tensor = torch.cat([tensor, mean.repeat_interleave(new - old, axis)], axis)
        target[tuple(map(slice, tensor.shape))] = tensor
    model.find_trees = model.find_trees or source.find_trees
    if not distributed.is_first_process():
        return
    words = [0 if each.vocabulary is None else len(each.vocabulary) for each in (source, model)]
    added = ", ".join(model.labels[len(source.labels) :]) or "none"
    LOGGER.info("continues %s: %s new words; new classes: %s", run, f"{words[1] - words[0]:,}", added)
