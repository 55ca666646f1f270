"""The configuration of a run on extractive question answering, as one frozen value.

Devlin et al. (2019), section 4.2, fine-tune BERT on SQuAD 1.1 with learning rate 5e-5 for 3 epochs in batches of 32.
The defaults here differ from theirs in the first two: learning rate 3e-5, 2 epochs.
"""

from dataclasses import dataclass, field
from typing import Literal

from structattn.errors import ConfigError
from structattn.options.checking import check
from structattn.training.optimization_config import OptimizationConfig, RunSettings


def question_optimization() -> OptimizationConfig:
    """The default for questions: AdamW, warm-up over a tenth of all steps, then linear decay to zero."""
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
class QuestionRun(RunSettings):
    """The configuration of a run on questions.

    Attributes:
        train: SQuAD file to train on.
        dev: SQuAD file to evaluate on.
        backbone: folder of a Hugging Face encoder with a fast tokenizer.
        out: the run folder.
        adapter: folder of HYDRA heads; without one, the backbone is used alone.
        heads: ``random`` uses the adapter's layer with fresh heads.
        frozen: which parameters are frozen: ``nothing``, the ``backbone``, or the ``heads`` (queries and keys).
        limit: maximum number of training questions, spread evenly over the file.
        dev_limit: maximum number of evaluation questions, spread evenly over the file.
        max_length: maximum length of a window, in tokens.
        stride: number of tokens that neighbouring windows share.
        max_answer_length: maximum length of an answer, in tokens.
        may_be_none: whether texts may have no answer, as in SQuAD 2.
        optimization: optimiser and schedule; ``batch_size`` counts windows.
        seed: random seed of the new parameters, dropout and order.
        device: ``cpu`` or ``cuda``; ``auto`` uses CUDA if available.
        mixed_precision: ``bf16`` or ``fp16`` computes products in 16 bits; ``fp16`` needs a GPU.
        report_to: tracker of losses, scores and configuration: ``tensorboard`` or ``wandb``.

    Raises:
        ConfigError: for a value out of range, or options of heads without an adapter.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("limit", "dev_limit", "max_length", "max_answer_length"):
            value = getattr(self, name)
            check(value is None or value >= 1, name, "at least 1", value)
        check(self.stride >= 0, "stride", "at least 0", self.stride)
        if self.adapter is None and (self.heads == "random" or self.frozen == "heads"):
            raise ConfigError("heads: these options are about HYDRA heads; give an adapter")
