"""One run, from a configuration to a run folder; cross-validation; and resuming an interrupted run."""

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor, nn

from structattn.data import Example
from structattn.data.model_config import check_trusted
from structattn.errors import ConfigError
from structattn.files.json_yaml import read_json_lines, write_json_lines
from structattn.layers.evaluation_mode import evaluating
from structattn.tables import addresses, restricted
from structattn.tasks import Task, TaskModel
from structattn.tasks.memory import check_memory
from structattn.training import distributed
from structattn.training.batches import BatchesAhead, prepare_batches
from structattn.training.checkpoint import preserved_randomness, set_seed
from structattn.training.continuing import extend_classes, take_over
from structattn.training.examples import Split, fit_range, read_split, summarise_split
from structattn.training.execution import carry_out, peak_memory
from structattn.training.loop import BATCH_OPTIONS, Measured, fit
from structattn.training.models import load, load_task_model
from structattn.training.plan import RunPlan, plan_run
from structattn.training.preparation import count_parameters, find_missing_trees, prepare_model, start_from
from structattn.training.run_config import RunConfig, load_config
from structattn.training.run_folder import RunFolder, RunResult, make_result
from structattn.training.sampler import BatchSampler

LOGGER = logging.getLogger("structattn.training")

_MOST_WORDS = 30  # of the example in a card
# The entropy of latent trees is a mean over this many development examples.
_LATENT_EXAMPLES = 500


def run(
    config: RunConfig,
    *,
    task: Task | None = None,
    examples: Mapping[str, Sequence[Example]] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    trust_code: bool = False,
) -> RunResult:
    """Train as configured and write a run folder.

    With ``folds`` but no ``fold``, every fold is trained. The folder then contains ``fold01``, ``fold02``, ..., the
    predictions on all test parts together, which ``compare`` reads as those of one run, and the means over the folds.
    The folds are the same for every seed and encoder. Each fold holds out a part of its training data to choose its
    best model, which is evaluated once on the test part.

    Args:
        config: everything that determines the run.
        task: the task; the one that the configuration names if ``None``.
        examples: ``train``, ``dev`` and ``test``, in place of the files of ``config.data``; see ``structattn.train``.
        resume: continue the interrupted run in ``config.out``; a finished one is only read.
        overwrite: replace the run in ``config.out``.
        trust_code: whether code that the folder ``config.init`` names may be imported and run; the encoder of
            ``config`` itself is trusted.

    Raises:
        ConfigError: for options that are unknown or do not fit the data; if the folder is in use, or contains a run and
            neither ``resume`` nor ``overwrite`` is given; if the run to resume has another configuration; if the device
            is not available.
        ParseError: with file and line, for malformed data.
        MissingExtra: if the extra ``train`` is not installed.
    """
    if resume and config.out is None:
        raise ConfigError("resume needs out: the run folder to resume")
    plan = plan_run(config, task=task, examples=examples)
    return run_plan(plan, resume=resume, overwrite=overwrite, trust_code=trust_code)


def run_plan(plan: RunPlan, *, resume: bool = False, overwrite: bool = False, trust_code: bool = False) -> RunResult:
    """As ``run``, for a configuration that has been checked and resolved."""
    config = plan.config
    if config.folds is not None and config.fold is None:
        work = functools.partial(_cross_validate, plan, resume=resume, trust_code=trust_code)
    else:
        work = functools.partial(_train, plan, trust_code=trust_code)
    return carry_out(
        config,
        work,
        make_result,
        name="train",
        files=plan.files,
        resume=resume,
        overwrite=overwrite,
    )


def resume(folder: str | os.PathLike[str], *, trust_code: bool = False) -> RunResult:
    """Resume the interrupted run in a folder; a finished one is only read.

    Args:
        folder: the run folder.
        trust_code: whether code that the folder names as ``module:name``, such as an encoder, may be imported and run.

    Raises:
        ConfigError: if the folder is in use, is not a run folder, or names code that is not trusted.
    """
    file = RunFolder(folder).config
    config = load_config(file)
    check_trusted(config.encoder, source=file, trust_code=trust_code)
    with restricted(file, trust_code):
        return run(dataclasses.replace(config, out=os.fspath(folder)), resume=True, trust_code=trust_code)


class _TaskLearner:
    """A model of a task, its training examples, and the examples for choosing the best epoch."""

    def __init__(self, model: TaskModel, split: Split, folder: RunFolder, batch: Callable[[list[int]], Any]) -> None:
        self.module: nn.Module = model
        self.model = model
        self.split = split
        self.folder = folder
        self.batch = batch
        self.best_rows: list[dict[str, Any]] = []  # the predictions that this process wrote

    def loss(self, module: nn.Module, batch: Any) -> Tensor:
        return self.model.loss_of(module(batch), batch)

    def begin_epoch(self, epoch: int) -> None:
        self.model.set_epoch(epoch)

    def measure(self) -> Measured:
        dev = self.split.dev
        predictions = self.model.predict(dev[distributed.process_index() :: distributed.num_processes()])
        evaluation = self.model.measure(dev, distributed.gather(predictions))
        entropy = tree_entropy(self.model, dev[:_LATENT_EXAMPLES])

        def keep() -> None:
            self.best_rows = list(evaluation.rows())
            write_json_lines(self.folder.predictions("dev"), self.best_rows)
            self.model.save_pretrained(self.folder.best, card=False)

        return Measured(evaluation.metrics, {} if entropy is None else {"tree_entropy": entropy}, keep)


def tree_entropy(model: TaskModel, examples: Sequence[Example], *, batch_size: int = 64) -> float | None:
    """Mean entropy per word, in nats, of the latent trees (Kim et al. 2017, section 3.2); ``None`` if there are none.

    Heads that are chosen independently, as in simple attention, have the sum of their entropies.
    """
    if not model.has_latent_trees:
        return None
    entropy, words = 0.0, 0
    with evaluating(model):
        for start in range(0, len(examples), batch_size):
            batch = model.collate(examples[start : start + batch_size]).to(model.device)
            entropy += sum(float(trees.entropy().sum()) for trees in model.latent_trees(batch))
            words += sum(int(side.lengths.sum()) for side in batch.sides)
    return entropy / max(words, 1)


def _train(plan: RunPlan, folder: RunFolder, accelerator: Any, *, trust_code: bool) -> Mapping[str, Any]:
    config, task = plan.config, plan.task
    split, source = read_split(plan), None
    if config.continued is None:
        plan = fit_range(plan, split)
    else:
        source = load_task_model(config.continued, trust_code=trust_code)
        plan = extend_classes(plan, source, split)
    split, find_trees = find_missing_trees(plan, split)
    if distributed.is_first_process():
        for summary in summarise_split(plan, split):
            summary.log(LOGGER)
    torch.manual_seed(config.seed)
    model = prepare_model(plan, split, None if source is None else source.vocabulary)
    model.find_trees = find_trees
    if source is not None:
        take_over(model, source, str(config.continued))
    if config.init is not None:
        start_from(model, config.init, trust_code=trust_code)
    # Again, so that dropout does not depend on how many random numbers the initialisation drew.
    set_seed(config.seed)
    batches, batch = prepare_batches(config, model, split.train, accelerator.device)
    with preserved_randomness(), accelerator.autocast():
        _check_memory(model.train(), split.train, batches, accelerator.device)
    learner = _TaskLearner(model, split, folder, batch)
    with contextlib.ExitStack() as stack:
        if isinstance(batches, BatchesAhead):
            stack.callback(batches.close)
        history = fit(
            learner,
            batches,
            config.optimization,
            folder=folder,
            accelerator=accelerator,
            metric=task.main_metric,
            clipped=model.parameters(),
            measure_first=source is not None,
        )
    memory = peak_memory(accelerator.device)  # of training, without the test

    def conclude() -> tuple[Mapping[str, float], dict[str, Any], dict[str, Any] | None]:
        """The metrics on test, what lies behind those on dev and test, and an example for the card."""
        rows = {"dev": learner.best_rows or list(read_json_lines(folder.predictions("dev")))}
        metrics: Mapping[str, float] = {}
        if split.test:
            metrics, rows["test"] = _test(config, folder, split.test, accelerator.device)
        return metrics, _report(rows, task), _choose_example(rows)

    test, reports, example = distributed.from_first(conclude)
    result = RunResult(
        folder.path,
        history.best.metrics,
        test=test,
        parameters=count_parameters(model),
        seconds=history.last.seconds,
        peak_memory=memory,
        examples={name: len(part) for name in ("train", "dev", "test") if (part := getattr(split, name))},
        best=dataclasses.asdict(history.best),
        reports=reports,
    )
    return {**_describe_result(result, task), "example": example}


def _check_memory(model: TaskModel, examples: Sequence[Example], batches: BatchSampler, device: torch.device) -> None:
    """Refuse to train if the largest batch of the first epoch needs more memory than is free; the error names it."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def work(batch: list[Example]) -> None:
        torch.autograd.grad(model.loss(batch), trained, allow_unused=True)

    count, longest = max(
        ((len(rows), max(rows, key=lambda row: batches.lengths[row])) for rows in batches),
        key=lambda size: size[0] * int(batches.lengths[size[1]]) ** 2,
    )
    check_memory(
        work,
        examples[longest],
        count=count,
        longest=int(batches.lengths[longest]),
        device=device,
        options=BATCH_OPTIONS,
        # Most optimisers keep two numbers for each parameter.
        more=2 * sum(parameter.nbytes for parameter in trained),
    )


def _test(
    config: RunConfig, folder: RunFolder, examples: Sequence[Example], device: torch.device
) -> tuple[Mapping[str, float], list[dict[str, Any]]]:
    # The folder of a run to resume may come from anyone, so it may name the code of this run and no other.
    evaluation = load(folder.best, trust_code=addresses(config.to_dict())).to(device).evaluate(examples)
    rows = list(evaluation.rows())
    write_json_lines(folder.predictions("test"), rows)
    return evaluation.metrics, rows


def _cross_validate(plan: RunPlan, folder: RunFolder, _: Any, *, resume: bool, trust_code: bool) -> Mapping[str, Any]:
    results = []
    for fold in range(1, (plan.config.folds or 0) + 1):
        path = folder.path / f"fold{fold:02d}"
        fold_plan = plan.with_config(fold=fold, out=str(path))
        results.append(run_plan(fold_plan, resume=resume and path.exists(), trust_code=trust_code))
    metrics: dict[str, float] = {}
    for name in plan.task.metrics:
        values = [result.test[name] for result in results]
        metrics |= {name: mean(values), f"{name}_sd": stdev(values)}

    def join() -> dict[str, Any]:
        files = [RunFolder(result.folder).predictions("test") for result in results]
        rows = [row for file in files for row in read_json_lines(file)]
        write_json_lines(folder.predictions("test"), rows)
        return _report({"test": rows}, plan.task)

    return _describe_result(
        RunResult(
            folder.path,
            metrics,
            test={name: metrics[name] for name in plan.task.metrics},
            parameters=results[0].parameters,
            seconds=round(sum(result.seconds for result in results), 2),
            reports=distributed.from_first(join),
        ),
        plan.task,
    )


def _describe_result(result: RunResult, task: Task) -> dict[str, Any]:
    """The content of ``result.json``."""
    values = {name: value for name, value in dataclasses.asdict(result).items() if name != "folder"}
    return {"main_metric": task.main_metric.name, **values}


def _choose_example(predictions: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any] | None:
    """The first prediction of a label or score for a text of moderate length, of test data or else of dev."""
    rows = (row for split in ("test", "dev") for row in predictions.get(split, ()))
    return next((row for row in rows if _is_short(row)), None)


def _is_short(row: Mapping[str, Any]) -> bool:
    answers = (row.get("gold"), row.get("predicted"))
    is_answered = all(isinstance(answer, str | float) for answer in answers)
    return is_answered and 0 < sum(len(text.split()) for text in row.get("texts", ())) <= _MOST_WORDS


def _report(predictions: Mapping[str, Sequence[Mapping[str, Any]]], task: Task) -> dict[str, Any]:
    """Reports on the predictions of the best model; what is striking in them is logged."""
    reports = {split: task.report(rows) for split, rows in predictions.items()}
    for split, report in reports.items():
        for note in report.notes:
            LOGGER.warning("%s: %s", split, note)
    return {split: report.to_dict() for split, report in reports.items()}
