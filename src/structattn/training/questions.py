"""A run on questions about texts: a body, with or without HYDRA heads, learns to mark answers, and is measured.

Separate from ``run.py``, whose models answer examples: what is learnt from here are windows of long texts, and what is
measured are answers of whole questions. HYDRA (arXiv 2109.05349), SQuAD; BERT's recipe (Devlin et al. 2019, section
4.2: learning rate 5e-5, 3 epochs, batches of 32 for SQuAD 1.1).
"""

import dataclasses
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from structattn.layers import load_body
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
from structattn.syntax.errors import ConfigError, StructAttnError, require
from structattn.syntax.folders import read_json, replaced_folder, write_json
from structattn.training.config_parts import OptimizationConfig, check, check_choices
from structattn.training.optimization import build_optimizer, build_schedule
from structattn.training.sampler import LengthBatchSampler
from structattn.training.state import preserved_randomness

LOGGER = logging.getLogger("structattn.training")
PREDICTIONS, RESULT, MODEL = "predictions.json", "result.json", "model"


@dataclass(frozen=True)
class QuestionRun:
    """Everything that decides a run on questions.

    Attributes:
        train: a file of SQuAD to learn from.
        dev: a file of SQuAD to be measured on.
        body: folder of a Hugging Face encoder with a fast tokenizer.
        out: the folder of the run.
        adapter: folder of HYDRA heads; the body alone without one.
        heads: ``random`` takes the adapter's layer with fresh heads.
        frozen: what stays as it is: ``nothing``, the ``body``, or the ``heads`` (queries and keys).
        limit: learn from so many questions only, spread evenly over the file.
        dev_limit: measure on so many questions only, spread evenly over the file.
        max_length: pieces of a window.
        stride: pieces that neighbouring windows share.
        longest_answer: in pieces.
        may_be_none: whether texts may have no answer, as in SQuAD 2.
        learning_rate: of AdamW, its highest value; it rises from zero, and falls to zero at the end.
        weight_decay: of matrices only.
        batch_size: windows a step.
        epochs: passes over the windows.
        warmup: share of all steps in which the learning rate rises.
        clip: largest norm of the gradient.
        seed: of the new parameters, dropout and order.
        device: ``cpu``, ``cuda``, or whichever there is if ``None``.

    Raises:
        ConfigError: for a value out of its range, or options of heads without an adapter.
    """

    train: str
    dev: str
    body: str
    out: str
    adapter: str | None = None
    heads: Literal["trained", "random"] = "trained"
    frozen: Literal["nothing", "body", "heads"] = "nothing"
    limit: int | None = None
    dev_limit: int | None = None
    max_length: int = 384
    stride: int = 128
    longest_answer: int = 30
    may_be_none: bool = False
    learning_rate: float = 3e-5
    weight_decay: float = 0.01
    batch_size: int = 32
    epochs: int = 2
    warmup: float = 0.1
    clip: float = 1.0
    seed: int = 1
    device: Literal["cpu", "cuda"] | None = None

    def __post_init__(self) -> None:
        check_choices(self, "")
        for name in ("limit", "dev_limit", "max_length", "longest_answer", "batch_size", "epochs"):
            value = getattr(self, name)
            check(value is None or value >= 1, name, "at least 1", value)
        check(self.stride >= 0, "stride", "at least 0", self.stride)
        check(0 < self.learning_rate < math.inf, "learning_rate", "a number above 0", self.learning_rate)
        check(self.weight_decay >= 0, "weight_decay", "at least 0", self.weight_decay)
        check(0 <= self.warmup < 1, "warmup", "a share below 1", self.warmup)
        check(self.clip > 0, "clip", "a number above 0", self.clip)
        if self.adapter is None and (self.heads == "random" or self.frozen == "heads"):
            raise ConfigError("heads: these options are about HYDRA heads; give an adapter")


@dataclass(frozen=True)
class QuestionResult:
    """What a run on questions came to.

    Attributes:
        folder: the run folder.
        metrics: exact match and F1 on the development questions.
        losses: mean training loss of each epoch.
        questions: how many were learnt from and measured on.
        windows: how many windows were learnt from.
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


def run_questions(run: QuestionRun, *, overwrite: bool = False) -> QuestionResult:
    """Learn, answer, measure, and leave a folder: ``result.json``, ``predictions.json`` (id and answer), ``model/``.

    A finished run is only read, unless it was another one.

    Args:
        run: what to do.
        overwrite: do it again, whatever is in the folder.

    Raises:
        ParseError: for malformed data.
        ConfigError: if the folder holds another run, the heads do not fit the body, or there is no such device.
        StructAttnError: if the loss is not finite any more.
    """
    folder, described = Path(run.out), dataclasses.asdict(run)
    if (folder / RESULT).is_file() and not overwrite:
        found = read_json(folder / RESULT)
        if found.pop("run", None) != described:
            raise ConfigError(f"{folder}: holds a run with other options; take another folder, or --overwrite")
        return QuestionResult(**found)
    if run.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda is not available on this machine; take cpu")
    questions, asked = _spread(read_squad(run.train), run.limit), _spread(read_squad(run.dev), run.dev_limit)
    with preserved_randomness():
        torch.manual_seed(run.seed)
        model, tokenizer = _build(run)
        start = time.monotonic()
        losses, windows = _fit(model, tokenizer, questions, run)
        seconds = time.monotonic() - start
    answers = answer_questions(
        model,
        asked,
        tokenizer,
        max_length=run.max_length,
        stride=run.stride,
        longest_answer=run.longest_answer,
        may_be_none=run.may_be_none,
        batch_size=run.batch_size,
    )
    result = QuestionResult(
        run.out,
        squad_scores(answers, asked),
        losses,
        {"train": len(questions), "dev": len(asked)},
        windows,
        sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        seconds,
    )
    with replaced_folder(folder) as temporary:
        saved: Any = model
        saved.save_pretrained(temporary / MODEL)
        tokenizer.save_pretrained(temporary / MODEL)
        rows = zip(asked, answers, strict=True)
        write_json(temporary / PREDICTIONS, {one.id or str(n): answer for n, (one, answer) in enumerate(rows)})
        write_json(temporary / RESULT, {**dataclasses.asdict(result), "run": described})
    return result


def _build(run: QuestionRun) -> tuple[nn.Module, Any]:
    """A body under the two logits of an answer's ends, and its tokenizer."""
    base, tokenizer = load_body(run.body)
    model: nn.Module
    if run.adapter is None:
        transformers = require("transformers", "train")
        model = transformers.AutoModelForQuestionAnswering.from_pretrained(run.body, local_files_only=True)
        below: Any = model
        base = below.base_model
    else:
        content = read_config(run.adapter)
        is_fresh = run.heads == "random"
        hydra = HydraModel(base, config_of(content, base, run.adapter)) if is_fresh else add_heads(base, run.adapter)
        if run.frozen == "heads":
            hydra.freeze("heads")
        model = HydraModelForQuestionAnswering(hydra)
    if run.frozen == "body":
        base.requires_grad_(False)
    device = run.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return model.to(device), tokenizer


def _fit(model: nn.Module, tokenizer: Any, questions: Sequence[Question], run: QuestionRun) -> tuple[list[float], int]:
    """Train; the mean loss of each epoch, and the number of windows."""
    windows = make_windows(questions, tokenizer, max_length=run.max_length, stride=run.stride)
    lengths, device = windows.inputs["attention_mask"].sum(1), next(model.parameters()).device
    sampler = LengthBatchSampler(lengths.tolist(), run.batch_size, seed=run.seed)
    settings = OptimizationConfig(
        optimizer="adamw",
        learning_rate=run.learning_rate,
        weight_decay=run.weight_decay,
        schedule="linear",
        warmup=run.warmup,
    )
    optimizer = build_optimizer(model, settings)
    schedule = build_schedule(optimizer, settings, num_steps=len(sampler) * run.epochs)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train()
    for module in model.modules():
        # What is frozen as a whole runs without dropout, as anywhere else.
        flags = [parameter.requires_grad for parameter in module.parameters()]
        if flags and not any(flags):
            module.eval()
    losses = []
    for epoch in range(run.epochs):
        total = 0.0
        sampler.set_epoch(epoch)
        for rows in sampler:
            width = int(lengths[rows].max())
            inputs = {name: tensor[rows, :width].to(device) for name, tensor in windows.inputs.items()}
            places = {"start_positions": windows.starts[rows], "end_positions": windows.ends[rows]}
            loss = model(**inputs, **{name: tensor.to(device) for name, tensor in places.items()}).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, run.clip)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        losses.append(total / len(lengths))
        LOGGER.info("epoch %d: loss %.4f", epoch + 1, losses[-1])
        if not math.isfinite(losses[-1]):
            raise StructAttnError(f"the loss is {losses[-1]} in epoch {epoch + 1}; try a lower learning_rate")
    return losses, len(lengths)


def _spread(questions: Sequence[Question], limit: int | None) -> list[Question]:
    """So many questions, evenly spread, as neighbours ask about one text."""
    if limit is None or limit >= len(questions):
        return list(questions)
    return [questions[index * len(questions) // limit] for index in range(limit)]
