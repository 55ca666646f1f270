"""The configuration of training a parser, as one frozen value.

Reference: Dozat and Manning (2017), section 4.2 (optimisation).
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

from structattn.data.model_config import Storage
from structattn.options.checking import Option
from structattn.training.optimization_config import OptimizationConfig, RunSettings, refuse_metric

Trees = Literal["all", "projective"]
Loss = Literal["trees", "words", "labelled"]


def parser_optimization(backbone: str | None = None) -> OptimizationConfig:
    """The default for parsers: AdamW, warm-up over a twentieth of all steps, then linear decay to zero.

    A backbone has a tenth of the learning rate.
    """
    common = OptimizationConfig(optimizer="adamw", patience=5, clip=5.0, schedule="linear", warmup=0.05)
    if backbone is None:
        return dataclasses.replace(common, learning_rate=2e-3, weight_decay=0.0, batch_size=48, epochs=25)
    return dataclasses.replace(
        common, learning_rate=1e-3, backbone_lr_scale=0.1, weight_decay=0.01, batch_size=16, epochs=5
    )


@dataclass(frozen=True)
class ParserConfig(RunSettings):
    """Everything that determines the training of a parser.

    Attributes:
        treebank: CoNLL-U file to train on.
        dev: CoNLL-U file to choose the best parser on, by its LAS, punctuation included.
        test: CoNLL-U file that the best parser, as stored, is evaluated on at the end.
        out: the run folder; the parser is in its ``best``.
        backbone: folder of a Hugging Face encoder to fine-tune; without one, the parser reads only words and
            characters.
        trees: ``all`` trees, or only ``projective`` ones; other trees of the treebank are then made projective.
        loss: likelihood of whole ``trees``, of the heads of single ``words``, which is faster, or of whole trees with
            their labels, ``labelled``.
        encoder: options of ``parsing.WordEncoder``, or with a backbone of ``parsing.SubwordEncoder``.
        scorer: options of ``parsing.BiaffineScorer``, such as ``arc_dim``.
        min_count: rarer words are represented by their characters only.
        storage: number format of the saved parser: ``float32``, ``float16``, or ``int8``, a quarter of the size.
        optimization: optimiser and schedule; ``parser_optimization(backbone)`` if ``None``.
        seed: random seed of parameters, dropout and the order of the sentences.
        device: ``cpu`` or ``cuda``; ``auto`` uses CUDA if available.
        mixed_precision: ``bf16`` or ``fp16`` computes products in 16 bits; ``fp16`` needs a GPU.
        report_to: tracker of losses, scores and configuration: ``tensorboard`` or ``wandb``.

    Raises:
        ConfigError: if a value is out of range.
    """

    treebank: str
    dev: str
    out: str
    test: str | None = None
    backbone: str | None = None
    trees: Trees = "all"
    loss: Loss = "trees"
    encoder: dict[str, Option] = field(default_factory=dict)
    scorer: dict[str, Option] = field(default_factory=dict)
    min_count: int = 2
    storage: Storage = "float32"
    optimization: OptimizationConfig | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimization is None:
            object.__setattr__(self, "optimization", parser_optimization(self.backbone))
        refuse_metric(self.optimization)

    @staticmethod
    def usual(backbone: str | None = None) -> dict[str, OptimizationConfig]:
        """The defaults of sections that depend on other fields."""
        return {"optimization": parser_optimization(backbone)}
