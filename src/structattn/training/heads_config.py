"""The configuration of pretraining HYDRA heads, as one frozen value."""

from dataclasses import dataclass, field
from typing import Literal

from structattn.backbones.hydra_config import HydraConfig
from structattn.options.checking import check
from structattn.training.optimization_config import OptimizationConfig, RunSettings, refuse_metric

Control = Literal["none", "shuffled"]


def heads_optimization() -> OptimizationConfig:
    """The default for heads: AdamW without weight decay, 100 warm-up steps, then linear decay to zero."""
    # The paper gives neither optimiser nor learning rate. Scores are products, so one outlier sentence can throw the
    # heads far off; the gradient is therefore clipped.
    return OptimizationConfig(
        optimizer="adamw",
        learning_rate=1e-3,
        weight_decay=0.0,
        batch_size=32,
        epochs=2,
        patience=2,
        clip=1.0,
        schedule="triangular",
        warmup=100,
    )


@dataclass(frozen=True)
class PretrainingConfig(RunSettings):
    """Everything that determines the pretraining of heads.

    Attributes:
        treebank: CoNLL-U file to train on.
        backbone: folder of a Hugging Face encoder with a fast tokenizer.
        out: the run folder; the adapter is in its ``best``.
        dev: CoNLL-U file to choose the best epoch by and to report on; a tenth of the treebank is held out if ``None``.
        test: CoNLL-U file that the best heads are evaluated on at the end.
        limit: use only this many sentences of the treebank, from its start.
        heads: the heads and their relations.
        optimization: optimiser and schedule.
        max_length: maximum number of subwords; longer sentences are left out. The backbone's own maximum if ``None``.
        keep_states: keep the backbone's states of all sentences in memory after the first epoch (4 bytes per number).
        control: ``shuffled`` gives every sentence the tree of another sentence of the same length, so that what the
            heads learn is not syntax.
        seed: random seed of the heads, the order of the sentences and the control.
        device: ``cpu`` or ``cuda``; ``auto`` uses CUDA if available.
        mixed_precision: ``bf16`` or ``fp16`` computes products in 16 bits; ``fp16`` needs a GPU.
        report_to: tracker of losses, scores and configuration: ``tensorboard`` or ``wandb``.

    Raises:
        ConfigError: for a value out of range.
    """

    treebank: str
    backbone: str
    out: str
    dev: str | None = None
    test: str | None = None
    limit: int | None = None
    heads: HydraConfig = field(default_factory=lambda: HydraConfig(num_heads=None))
    optimization: OptimizationConfig = field(default_factory=heads_optimization)
    max_length: int | None = None
    keep_states: bool = False
    control: Control = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_metric(self.optimization)
        for name in ("limit", "max_length"):
            value = getattr(self, name)
            check(value is None or value >= 1, name, "at least 1", value)
