"""A run on extractive question answering: a backbone, with or without HYDRA heads, learns to mark answers.

The model is trained on windows of long texts, and evaluated on its answers to whole questions. HYDRA (arXiv
2109.05349), SQuAD.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from structattn.backbones import (
    HydraModel,
    HydraModelForQuestionAnswering,
    add_heads,
    load_backbone,
)
from structattn.backbones.adapter import layer_config, read_adapter_config
from structattn.backbones.backbone import max_input_length
from structattn.errors import ConfigError
from structattn.files.json_yaml import write_json, write_json_lines
from structattn.files.replacing import replace_folder
from structattn.training import distributed
from structattn.training.execution import carry_out
from structattn.training.loop import Measured, fit
from structattn.training.run_folder import RunFolder
from structattn.training.sampler import batch_sampler
from structattn_papers.questions.question_answering import (
    Question,
    Windows,
    answer_questions,
    answer_scores,
    make_windows,
    squad_scores,
)
from structattn_papers.questions.questions_config import QuestionRun
from structattn_papers.questions.squad_file import read_squad

PREDICTIONS = "predictions.json"


@dataclass(frozen=True)
class QuestionResult:
    """The result of a run on questions.

    Attributes:
        folder: the run folder.
        metrics: exact match and F1 on the development questions.
        losses: mean training loss of each epoch.
        questions: numbers of training and evaluation questions.
        windows: number of training windows.
        parameters: trained parameters.
        seconds: training time.
    """

    folder: str
    metrics: dict[str, float]
    losses: list[float]
    questions: dict[str, int]
    windows: int
    parameters: int
    seconds: float


def run_questions(run: QuestionRun, *, resume: bool = False, overwrite: bool = False) -> QuestionResult:
    """Train, predict, evaluate, and write a run folder, with ``predictions.json`` (ids and answers) and the scores.

    Args:
        run: the configuration.
        resume: continue the interrupted run in ``run.out``, from its last epoch; a finished one is only read.
        overwrite: replace the run in ``run.out``.

    Raises:
        ParseError: for malformed data.
        ConfigError: if the folder is in use, contains a run and neither ``resume`` nor ``overwrite`` is given, or
            contains another run; if the heads do not fit the backbone, windows are longer than it reads, or the device
            is not available.
        StructAttnError: if the loss is not finite.
        MissingExtra: if the extra ``train`` is not installed.
    """
    return carry_out(
        run,
        functools.partial(_train, run),
        lambda _, values: QuestionResult(run.out, **values),
        name="squad",
        files=(run.train, run.dev),
        resume=resume,
        overwrite=overwrite,
    )


def _train(run: QuestionRun, folder: RunFolder, accelerator: Any) -> Mapping[str, Any]:
    questions, asked = _spread(read_squad(run.train), run.limit), _spread(read_squad(run.dev), run.dev_limit)
    torch.manual_seed(run.seed)
    model, tokenizer = build_model(run)
    longest = max_input_length(model, None)  # what its tokenizer recommends may be less
    if longest is not None and run.max_length > longest:
        raise ConfigError(f"max_length: expected at most the {longest} tokens of this backbone, got {run.max_length}")
    windows = make_windows(questions, tokenizer, max_length=run.max_length, stride=run.stride)
    learner = _QuestionLearner(model, windows)
    sampler = batch_sampler(learner.lengths.tolist(), run.optimization, seed=run.seed)
    history = fit(learner, sampler, run.optimization, folder=folder, accelerator=accelerator)
    with accelerator.autocast():
        answers = answer_questions(
            model,
            asked,
            tokenizer,
            max_length=run.max_length,
            stride=run.stride,
            max_answer_length=run.max_answer_length,
            may_be_none=run.may_be_none,
            batch_size=run.optimization.batch_size,
        )
    if distributed.is_first_process():
        with replace_folder(folder.best) as temporary:
            saved: Any = model
            saved.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
        names = [one.id or str(number) for number, one in enumerate(asked)]
        write_json(folder.path / PREDICTIONS, dict(zip(names, answers, strict=True)))
        write_json_lines(folder.predictions("dev"), _scored(names, asked, answers))
    return {
        "metrics": squad_scores(answers, asked),
        "losses": [row.training["loss"] for row in history.rows],
        "questions": {"train": len(questions), "dev": len(asked)},
        "windows": len(learner.lengths),
        "parameters": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        "seconds": history.last.seconds,
    }


def _scored(names: Sequence[str], asked: Sequence[Question], answers: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name, one, answer in zip(names, asked, answers, strict=True):
        yield {"id": name, "gold": list(one.answers), "predicted": answer, **answer_scores(answer, one)}


def build_model(run: QuestionRun) -> tuple[nn.Module, Any]:
    """A backbone with a fresh span classifier, and its tokenizer.

    Raises:
        ConfigError: if the heads do not fit the backbone.
    """
    model: nn.Module
    if run.adapter is None:
        model, tokenizer = load_backbone(run.backbone, reader="AutoModelForQuestionAnswering")
        below: Any = model
        base = below.base_model
    else:
        base, tokenizer = load_backbone(run.backbone)
        content = read_adapter_config(run.adapter)
        is_fresh = run.heads == "random"
        hydra = HydraModel(base, layer_config(content, base, run.adapter)) if is_fresh else add_heads(base, run.adapter)
        if run.frozen == "heads":
            hydra.freeze("heads")
        model = HydraModelForQuestionAnswering(hydra)
    if run.frozen == "backbone":
        base.requires_grad_(False)
    return model, tokenizer


class _QuestionLearner:
    """A model that marks answers, and windows of texts; evaluated only once, after training."""

    def __init__(self, model: nn.Module, windows: Windows) -> None:
        self.module = model.train()
        self.windows = windows
        self.lengths = windows.inputs["attention_mask"].sum(1)
        for part in model.modules():
            # Modules that are frozen as a whole run without dropout, as elsewhere.
            flags = [parameter.requires_grad for parameter in part.parameters()]
            if flags and not any(flags):
                part.eval()

    def batch(self, rows: list[int]) -> dict[str, Tensor]:
        width = int(self.lengths[rows].max())
        inputs = {name: tensor[rows, :width] for name, tensor in self.windows.inputs.items()}
        return {**inputs, "start_positions": self.windows.starts[rows], "end_positions": self.windows.ends[rows]}

    def loss(self, module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        loss: Tensor = module(**batch).loss
        return loss

    def begin_epoch(self, epoch: int) -> None:
        pass

    def measure(self) -> Measured:
        return Measured()


def _spread(questions: Sequence[Question], limit: int | None) -> list[Question]:
    """At most ``limit`` questions, evenly spread, as neighbouring ones are about the same text."""
    if limit is None or limit >= len(questions):
        return list(questions)
    return [questions[index * len(questions) // limit] for index in range(limit)]
