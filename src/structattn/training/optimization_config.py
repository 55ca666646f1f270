"""What all configurations of training share: seed, device and tracker; optimiser, schedule and batches."""

import dataclasses
import inspect
import math
from dataclasses import dataclass
from typing import Any, Literal

from structattn.errors import ConfigError
from structattn.options.checking import check, check_fields
from structattn.options.hardware import Device, MixedPrecision, OnHardware

Optimizer = Literal["adam", "adamw", "adadelta", "adagrad", "sgd"]
Schedule = Literal["constant", "linear", "triangular", "inverse_sqrt", "halving"]
Tracker = Literal["tensorboard", "wandb"]


@dataclass(frozen=True, kw_only=True)
class RunSettings(OnHardware):
    """What the configurations of all kinds of training share: seed, device, precision, tracker."""

    seed: int = 1
    device: Device = "auto"
    mixed_precision: MixedPrecision = "no"
    report_to: Tracker | None = None

    def __post_init__(self) -> None:
        check_fields(self, "")
        check(0 <= self.seed < 2**32, "seed", "at least 0 and below 2**32", self.seed)
        _ = self.hardware

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, for YAML; what a subclass adds comes first."""
        values = dataclasses.asdict(self)
        return {name: values[name] for name in inspect.signature(type(self)).parameters}


@dataclass(frozen=True)
class OptimizationConfig:
    """Optimiser, schedule and batches.

    Attributes:
        initial_range: draw initial weights and biases uniformly between minus and plus this value, except in
            normalisations and pretrained word vectors.
        optimizer: ``adadelta`` has rho .95 and epsilon 1e-8, as for DiSAN.
        learning_rate: peak learning rate.
        weight_decay: weight decay of matrices, not of biases, normalisation or word vectors; an L2 penalty in the
            gradient, except for ``adamw`` (decoupled).
        embedding_lr_scale: learning rate of word vectors as a share of ``learning_rate``; small is better for
            pretrained vectors with little data, and 0 freezes them.
        backbone_lr_scale: learning rate of a pretrained backbone as a share of ``learning_rate``; new layers
            often need a higher one.
        momentum: momentum of ``sgd``.
        batch_size: examples per batch and process.
        batch_tokens: instead of ``batch_size``: maximum number of words (or tokens) per batch and process, padding
            included, on the longer side of sentence and target.
        gradient_accumulation: batches per step; the gradient is the mean of theirs.
        epochs: maximum number of epochs.
        patience: evaluations without improvement before the end; ``None``: never.
        clip: maximum norm of the gradient; ``None``: no clipping.
        schedule: ``linear`` falls to zero at the end; ``triangular`` does so from the first step on, capped by the
            warm-up; ``inverse_sqrt`` falls with the square root of the step (Vaswani et al. 2017, section 5.3);
            ``halving`` halves at the start of epoch ``halve_from`` and then after every ``halve_every`` epochs.
        halve_from: epoch of the first halving, counted from 1.
        halve_every: number of epochs between halvings.
        warmup: share of all steps over which the learning rate rises from zero; a value of at least 1 is a number of
            steps.
        evaluations_per_epoch: evenly spaced ones; ``0.1`` is every tenth epoch and the end.
        average: number of latest evaluations whose parameters are averaged.
        metric: the metric that chooses the best epoch; the task's main one if ``None``.
    """

    initial_range: float | None = None
    optimizer: Optimizer = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    embedding_lr_scale: float = 1.0
    backbone_lr_scale: float = 1.0
    momentum: float = 0.9
    batch_size: int = 32
    batch_tokens: int | None = None
    gradient_accumulation: int = 1
    epochs: int = 30
    patience: int | None = 5
    clip: float | None = 5.0
    schedule: Schedule = "constant"
    halve_from: int = 9
    halve_every: int = 1
    warmup: float | int = 0.0
    evaluations_per_epoch: float | int = 1
    average: int = 1
    metric: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "optimization")
        for name in (
            "batch_size",
            "gradient_accumulation",
            "epochs",
            "average",
            "halve_from",
            "halve_every",
        ):
            value = getattr(self, name)
            check(value >= 1, f"optimization.{name}", "at least 1", value)
        every = self.evaluations_per_epoch
        is_whole = 1e-9 < every < 1e9 and math.isclose(max(every, 1 / every), round(max(every, 1 / every)))
        check(is_whole, "optimization.evaluations_per_epoch", "a whole number, or 1 divided by one such as 0.1", every)
        bound = self.initial_range
        check(bound is None or 0 < bound < math.inf, "optimization.initial_range", "a number above 0", bound)
        rate = self.learning_rate
        check(math.isfinite(rate) and rate > 0, "optimization.learning_rate", "a number above 0", rate)
        check(0 <= self.weight_decay < math.inf, "optimization.weight_decay", "at least 0", self.weight_decay)
        check(
            0 <= self.embedding_lr_scale < math.inf,
            "optimization.embedding_lr_scale",
            "at least 0",
            self.embedding_lr_scale,
        )
        check(
            0 < self.backbone_lr_scale < math.inf,
            "optimization.backbone_lr_scale",
            "a number above 0",
            self.backbone_lr_scale,
        )
        check(self.patience is None or self.patience >= 1, "optimization.patience", "at least 1", self.patience)
        check(self.clip is None or self.clip > 0, "optimization.clip", "a number above 0", self.clip)
        is_warmup = 0 <= self.warmup < 1 or (1 <= self.warmup < math.inf and self.warmup == int(self.warmup))
        check(is_warmup, "optimization.warmup", "a share below 1, or a whole number of steps", self.warmup)
        check(0 <= self.momentum < 1, "optimization.momentum", "a share below 1", self.momentum)
        tokens = self.batch_tokens
        check(tokens is None or tokens >= 1, "optimization.batch_tokens", "at least 1", tokens)
        if self.schedule == "inverse_sqrt" and self.warmup == 0:
            raise ConfigError("optimization.schedule: inverse_sqrt needs a warm-up, as it falls only afterwards")


def refuse_metric(optimization: OptimizationConfig | None) -> None:
    """Refuse a choice of the metric where there is none."""
    name = None if optimization is None else optimization.metric
    check(name is None, "optimization.metric", "none, as this training has no choice of metrics", name)
