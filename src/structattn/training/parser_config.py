"""The configuration of a parser's training, as one frozen value; its run folder's ``config.yaml`` is exactly this."""

from dataclasses import dataclass, field

from structattn.parsing.treecrf import Loss, Trees
from structattn.syntax.errors import ConfigError
from structattn.training.config_parts import OptimizationConfig, Option


@dataclass(frozen=True)
class ParserConfig:
    """The configuration of a parser's training.

    Attributes:
        treebank: CoNLL-U file to learn from.
        dev: CoNLL-U file that chooses the best parser.
        out: the run folder; the parser is in its ``best``.
        backbone: folder of a Hugging Face encoder, which is fine-tuned; words and characters alone without one.
        trees: ``all`` trees, or ``projective`` ones only; non-projective trees of the treebank are then projectivised.
        loss: likelihood of whole ``trees``, or of each of the ``words``' heads, which is faster.
        encoder: options of ``parsing.words.WordEncoder``, or with a backbone of ``parsing.subwords.SubwordEncoder``.
        scorer: options of ``parsing.biaffine.BiaffineScorer``, such as ``arc_dim``.
        min_count: rarer words are known by their characters only.
        learning_rate: peak learning rate; it rises over the first twentieth of all steps and then falls to zero; 2e-3
            if ``None``, with a backbone 1e-3.
        backbone_learning_rate: the same for the backbone.
        batch_size: sentences per step; 48 if ``None``, with a backbone 16.
        epochs: maximum number of epochs; 25 if ``None``, with a backbone 5.
        patience: stop after this number of epochs without a better LAS on dev; ``None`` never stops.
        seed: of parameters, dropout and the order of the sentences.

    Raises:
        ConfigError: if a value is out of its range.
    """

    treebank: str
    dev: str
    out: str
    backbone: str | None = None
    trees: Trees = "all"
    loss: Loss = "trees"
    encoder: dict[str, Option] = field(default_factory=dict)
    scorer: dict[str, Option] = field(default_factory=dict)
    min_count: int = 2
    learning_rate: float | None = None
    backbone_learning_rate: float = 1e-4
    batch_size: int | None = None
    epochs: int | None = None
    patience: int | None = 5
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed: expected at least 0 and below 2**32, got {self.seed!r}")
        self.optimization()

    def optimization(self) -> OptimizationConfig:
        """The optimisation options, common to every kind of training."""
        batch_size, epochs, usual_rate = (48, 25, 2e-3) if self.backbone is None else (16, 5, 1e-3)
        rate = usual_rate if self.learning_rate is None else self.learning_rate
        return OptimizationConfig(
            optimizer="adamw",
            learning_rate=rate,
            backbone_lr_scale=self.backbone_learning_rate / (rate or 1.0),
            weight_decay=0.0 if self.backbone is None else 0.01,
            batch_size=batch_size if self.batch_size is None else self.batch_size,
            epochs=epochs if self.epochs is None else self.epochs,
            patience=self.patience,
            clip=5.0,
            schedule="linear",
            warmup=0.05,
        )
