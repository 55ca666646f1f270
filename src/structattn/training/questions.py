"""A run on extractive question answering: a backbone, with or without HYDRA heads, learns to mark answers.

Training is on windows of long texts, evaluation on the answers to whole questions. HYDRA (arXiv 2109.05349), SQuAD;
BERT's recipe (Devlin et al. 2019, section 4.2: learning rate 5e-5, 3 epochs, batches of 32 for SQuAD 1.1).
"""

import dataclasses
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from structattn.layers import load_backbone
from structattn.pretrained import (
    HydraModel,
    HydraModelForQuestionAnswering,
    Question,
    add_heads,
    answer_questions,
    make_windows,
    squad_scores,
)
from structattn.pretrained.adapter import config_of, read_config
from structattn.pretrained.squad import read_squad
from structattn.syntax.errors import ConfigError
from structattn.syntax.folders import described_by, read_json, remove, replaced_folder, write_json, write_json_lines
from structattn.training.config_parts import OptimizationConfig, check, check_choices
from structattn.training.epochs import EpochLoop
from structattn.training.folder import RunFolder
from structattn.training.optimization import build_optimizer
from structattn.training.sampler import LengthBatchSampler
from structattn.training.state import preserved_randomness

LOGGER = logging.getLogger("structattn.training")
PREDICTIONS, MODEL = "predictions.json", "model"


@dataclass(frozen=True)
class QuestionRun:
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
        learning_rate: peak learning rate of AdamW; it rises from zero, and falls to zero at the end.
        weight_decay: of matrices only.
        batch_size: windows a step.
        epochs: passes over the windows.
        warmup: share of all steps in which the learning rate rises.
        clip: maximum norm of the gradient.
        mixed_precision: ``bf16`` computes the backbone's products in 16 bits.
        seed: of the new parameters, dropout and order.
        device: ``cpu`` or ``cuda``; CUDA where available if ``None``.

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
    learning_rate: float = 3e-5
    weight_decay: float = 0.01
    batch_size: int = 32
    epochs: int = 2
    warmup: float = 0.1
    clip: float = 1.0
    mixed_precision: Literal["no", "bf16"] = "no"
    seed: int = 1
    device: Literal["cpu", "cuda"] | None = None

    def __post_init__(self) -> None:
        check_choices(self, "")
        for name in ("limit", "dev_limit", "max_length", "max_answer_length", "batch_size", "epochs"):
            value = getattr(self, name)
            check(value is None or value >= 1, name, "at least 1", value)
        check(self.stride >= 0, "stride", "at least 0", self.stride)
        check(0 < self.learning_rate < math.inf, "learning_rate", "a number above 0", self.learning_rate)
        check(self.weight_decay >= 0, "weight_decay", "at least 0", self.weight_decay)
        check(0 <= self.warmup < 1, "warmup", "a share below 1", self.warmup)
        check(self.clip > 0, "clip", "a number above 0", self.clip)
        if self.adapter is None and (self.heads == "random" or self.frozen == "heads"):
            raise ConfigError("heads: these options are about HYDRA heads; give an adapter")

    def optimization(self) -> OptimizationConfig:
        """The optimisation options, common to every kind of training."""
        return OptimizationConfig(
            optimizer="adamw",
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            epochs=self.epochs,
            patience=None,
            clip=self.clip,
            schedule="linear",
            warmup=self.warmup,
            mixed_precision=self.mixed_precision,
        )


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
    """Train, predict, evaluate, and leave a run folder, with ``predictions.json`` (id and answer) and ``model/``.

    Args:
        run: the configuration.
        resume: continue the interrupted run in ``run.out``, from its last epoch; a finished one is only read.
        overwrite: replace the run in ``run.out``.

    Raises:
        ParseError: for malformed data.
        ConfigError: if the folder is in use, holds a run and neither ``resume`` nor ``overwrite`` is given, or holds
            another run; if the heads do not fit the backbone, or there is no such device.
        StructAttnError: if the loss is not finite any more.
    """
    if run.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda is not available on this machine; take cpu")
    folder = RunFolder(run.out)
    described = {name: value for name, value in dataclasses.asdict(run).items() if name != "out"}
    with folder.claimed(), preserved_randomness():
        folder.open_for_run(resume=resume, overwrite=overwrite)
        folder.require_same(described)
        if folder.is_finished:
            with described_by(folder.result, "a result"):
                return QuestionResult(**{**read_json(folder.result), "folder": run.out})
        questions, asked = _spread(read_squad(run.train), run.limit), _spread(read_squad(run.dev), run.dev_limit)
        torch.manual_seed(run.seed)
        model, tokenizer = _build(run)
        folder.describe(described)
        rows, windows = _fit(model, tokenizer, questions, run=run, folder=folder)
        answers = _answers(model, tokenizer, asked, run)
        with replaced_folder(folder.path / MODEL) as temporary:
            saved: Any = model
            saved.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
        named = zip(asked, answers, strict=True)
        write_json(folder.path / PREDICTIONS, {one.id or str(n): answer for n, (one, answer) in enumerate(named)})
        result = QuestionResult(
            run.out,
            squad_scores(answers, asked),
            [row["loss"] for row in rows],
            {"train": len(questions), "dev": len(asked)},
            windows,
            sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
            rows[-1]["seconds"],
        )
        write_json(
            folder.result, {name: value for name, value in dataclasses.asdict(result).items() if name != "folder"}
        )
        # Only now: until the result stands, an interrupted run must find its state.
        remove(folder.checkpoints)
        return result


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
    device = run.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return model.to(device), tokenizer


def _fit(
    model: nn.Module, tokenizer: Any, questions: Sequence[Question], *, run: QuestionRun, folder: RunFolder
) -> tuple[list[dict[str, Any]], int]:
    """Train to the end, from the last checkpoint if there is one: a row for each epoch, and the number of windows."""
    windows = make_windows(questions, tokenizer, max_length=run.max_length, stride=run.stride)
    lengths, device = windows.inputs["attention_mask"].sum(1), next(model.parameters()).device
    optimization = run.optimization()
    sampler = LengthBatchSampler(lengths.tolist(), run.batch_size, seed=run.seed)
    loop = EpochLoop(model, build_optimizer(model, optimization), sampler, optimization, folder=folder)

    def loss_of(rows: list[int]) -> Tensor:
        width = int(lengths[rows].max())
        inputs = {name: tensor[rows, :width].to(device) for name, tensor in windows.inputs.items()}
        places = {"start_positions": windows.starts[rows], "end_positions": windows.ends[rows]}
        with _precision(run, device):
            loss: Tensor = model(**inputs, **{name: tensor.to(device) for name, tensor in places.items()}).loss
        return loss

    model.train()
    for module in model.modules():
        # What is frozen as a whole runs without dropout, as anywhere else.
        flags = [parameter.requires_grad for parameter in module.parameters()]
        if flags and not any(flags):
            module.eval()
    rows = loop.restore()
    started = time.monotonic() - (rows[-1]["seconds"] if rows else 0.0)
    # What was written after the last checkpoint will be written again.
    write_json_lines(folder.metrics, rows)
    for epoch in range(len(rows), run.epochs):
        loss = loop.learn(epoch, loss_of)
        rows.append({"epoch": epoch + 1, "loss": loss, "seconds": round(time.monotonic() - started, 2)})
        LOGGER.info("epoch %d: loss %.4f", epoch + 1, loss)
        write_json_lines(folder.metrics, rows)
        loop.save(rows)
    return rows, len(lengths)


def _answers(model: nn.Module, tokenizer: Any, asked: Sequence[Question], run: QuestionRun) -> list[str]:
    with _precision(run, next(model.parameters()).device):
        return answer_questions(
            model,
            asked,
            tokenizer,
            max_length=run.max_length,
            stride=run.stride,
            max_answer_length=run.max_answer_length,
            may_be_none=run.may_be_none,
            batch_size=run.batch_size,
        )


def _precision(run: QuestionRun, device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=run.mixed_precision == "bf16")


def _spread(questions: Sequence[Question], limit: int | None) -> list[Question]:
    """At most ``limit`` questions, evenly spread, as neighbouring ones are about one text."""
    if limit is None or limit >= len(questions):
        return list(questions)
    return [questions[index * len(questions) // limit] for index in range(limit)]
