"""A run on extractive question answering: a backbone, with or without HYDRA heads, learns to mark answers.

Training is on windows of long texts, evaluation on the answers to whole questions. HYDRA (arXiv 2109.05349), SQuAD;
BERT's recipe (Devlin et al. 2019, section 4.2: learning rate 5e-5, 3 epochs, batches of 32 for SQuAD 1.1).
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from structattn.layers import load_backbone
from structattn.layers.devices import Device, MixedPrecision, OnHardware
from structattn.pretrained import (
    HydraModel,
    HydraModelForQuestionAnswering,
    Question,
    Windows,
    add_heads,
    answer_questions,
    make_windows,
    squad_scores,
)
from structattn.pretrained.adapter import config_of, read_config
from structattn.pretrained.squad import read_squad
from structattn.syntax.errors import ConfigError
from structattn.syntax.folders import replaced_folder, write_json
from structattn.syntax.options import check, check_choices
from structattn.training import machine
from structattn.training.execution import carry_out
from structattn.training.folder import RunFolder
from structattn.training.loop import Measured, fit
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.sampler import batch_sampler

PREDICTIONS = "predictions.json"


def question_optimization() -> OptimizationConfig:
    """How models are usually fine-tuned on questions: AdamW, a tenth of all steps to warm up, then down to zero."""
    return OptimizationConfig(
        optimizer="adamw",
        learning_rate=3e-5,
        weight_decay=0.01,
        batch_size=32,
        epochs=2,
        patience=None,
        clip=1.0,
        schedule="linear",
        warmup=0.1,
    )


@dataclass(frozen=True)
class QuestionRun(OnHardware):
    """The configuration of a run on questions.

    Attributes:
        train: a file of SQuAD to learn from.
        dev: a file of SQuAD to be measured on.
        backbone: folder of a Hugging Face encoder with a fast tokenizer.
        out: the folder of the run.
        adapter: folder of HYDRA heads; the backbone alone without one.
        heads: ``random`` takes the adapter's layer with fresh heads.
        frozen: which parameters are frozen: ``nothing``, the ``backbone``, or the ``heads`` (queries and keys).
        limit: maximum number of training questions, spread evenly over the file.
        dev_limit: maximum number of evaluation questions, spread evenly over the file.
        max_length: maximum length of a window, in tokens.
        stride: number of tokens that neighbouring windows share.
        max_answer_length: maximum length of an answer, in tokens.
        may_be_none: whether texts may have no answer, as in SQuAD 2.
        optimization: optimiser and schedule; a batch has so many windows.
        seed: of the new parameters, dropout and order.
        device: ``cpu`` or ``cuda``; ``auto`` is CUDA where there is one.
        mixed_precision: ``bf16`` or ``fp16`` for products in 16 bits; ``fp16`` needs a GPU.

    Raises:
        ConfigError: for a value out of its range, or options of heads without an adapter.
    """

    train: str
    dev: str
    backbone: str
    out: str
    adapter: str | None = None
    heads: Literal["trained", "random"] = "trained"
    frozen: Literal["nothing", "backbone", "heads"] = "nothing"
    limit: int | None = None
    dev_limit: int | None = None
    max_length: int = 384
    stride: int = 128
    max_answer_length: int = 30
    may_be_none: bool = False
    optimization: OptimizationConfig = field(default_factory=question_optimization)
    seed: int = 1
    device: Device = "auto"
    mixed_precision: MixedPrecision = "no"

    def __post_init__(self) -> None:
        check_choices(self, "")
        for name in ("limit", "dev_limit", "max_length", "max_answer_length"):
            value = getattr(self, name)
            check(value is None or value >= 1, name, "at least 1", value)
        check(self.stride >= 0, "stride", "at least 0", self.stride)
        if self.adapter is None and (self.heads == "random" or self.frozen == "heads"):
            raise ConfigError("heads: these options are about HYDRA heads; give an adapter")
        _ = self.hardware


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
        seconds: spent in training.
    """

    folder: str
    metrics: dict[str, float]
    losses: list[float]
    questions: dict[str, int]
    windows: int
    parameters: int
    seconds: float


def run_questions(run: QuestionRun, *, resume: bool = False, overwrite: bool = False) -> QuestionResult:
    """Train, predict, evaluate, and leave a run folder, with ``predictions.json`` (id and answer).

    Args:
        run: the configuration.
        resume: continue the interrupted run in ``run.out``, from its last epoch; a finished one is only read.
        overwrite: replace the run in ``run.out``.

    Raises:
        ParseError: for malformed data.
        ConfigError: if the folder is in use, holds a run and neither ``resume`` nor ``overwrite`` is given, or holds
            another run; if the heads do not fit the backbone, or there is no such device.
        StructAttnError: if the loss is not finite.
        MissingExtra: if the extra ``train`` is not installed.
    """
    return carry_out(
        run,
        lambda: run.out,
        functools.partial(_train, run),
        lambda _, values: QuestionResult(run.out, **values),
        files=(run.train, run.dev),
        resume=resume,
        overwrite=overwrite,
    )


def _train(run: QuestionRun, folder: RunFolder, accelerator: Any) -> Mapping[str, Any]:
    questions, asked = _spread(read_squad(run.train), run.limit), _spread(read_squad(run.dev), run.dev_limit)
    torch.manual_seed(run.seed)
    model, tokenizer = _build(run)
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
    if machine.is_first():
        with replaced_folder(folder.best) as temporary:
            saved: Any = model
            saved.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
        named = zip(asked, answers, strict=True)
        write_json(folder.path / PREDICTIONS, {one.id or str(n): answer for n, (one, answer) in enumerate(named)})
    return {
        "metrics": squad_scores(answers, asked),
        "losses": [row["loss"] for row in history.rows],
        "questions": {"train": len(questions), "dev": len(asked)},
        "windows": len(learner.lengths),
        "parameters": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        "seconds": history.last["seconds"],
    }


def _build(run: QuestionRun) -> tuple[nn.Module, Any]:
    """A backbone with a span classifier, and its tokenizer."""
    model: nn.Module
    if run.adapter is None:
        model, tokenizer = load_backbone(run.backbone, reader="AutoModelForQuestionAnswering")
        below: Any = model
        base = below.base_model
    else:
        base, tokenizer = load_backbone(run.backbone)
        content = read_config(run.adapter)
        is_fresh = run.heads == "random"
        hydra = HydraModel(base, config_of(content, base, run.adapter)) if is_fresh else add_heads(base, run.adapter)
        if run.frozen == "heads":
            hydra.freeze("heads")
        model = HydraModelForQuestionAnswering(hydra)
    if run.frozen == "backbone":
        base.requires_grad_(False)
    return model, tokenizer


class _QuestionLearner:
    """A model that marks answers, and windows of texts; measured once, in the end."""

    def __init__(self, model: nn.Module, windows: Windows) -> None:
        self.module = model.train()
        self.windows = windows
        self.lengths = windows.inputs["attention_mask"].sum(1)
        for part in model.modules():
            # What is frozen as a whole runs without dropout, as anywhere else.
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
    """At most ``limit`` questions, evenly spread, as neighbouring ones are about one text."""
    if limit is None or limit >= len(questions):
        return list(questions)
    return [questions[index * len(questions) // limit] for index in range(limit)]
