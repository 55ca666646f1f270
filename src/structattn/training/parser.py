"""Training our own parser: its configuration, its run, and what the best parser comes to.

Reference: Dozat and Manning (2017), section 4.2 (optimisation).
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from structattn.data.storage import Storage
from structattn.layers.devices import Device, MixedPrecision, OnHardware
from structattn.parsing.evaluation import attachment
from structattn.parsing.saved import build_parser
from structattn.parsing.treecrf import GoldBatch, Loss, TreeCRF, Trees
from structattn.syntax import Sentence, read_conllu
from structattn.syntax.errors import ParseError
from structattn.syntax.options import Option, check, check_choices
from structattn.tasks import metric
from structattn.training.execution import carry_out
from structattn.training.folder import RunFolder
from structattn.training.loop import Measured, fit
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.sampler import batch_sampler

_METRICS = ("uas", "las", "las_universal", "tags")


def parser_optimization(backbone: str | None = None) -> OptimizationConfig:
    """How parsers are usually fitted: AdamW, a twentieth of all steps to warm up, then down to zero.

    Args:
        backbone: whether there is one, which learns at a tenth of the rate.

    Example:
        >>> parser_optimization().learning_rate, parser_optimization("minilm").learning_rate
        (0.002, 0.001)
    """
    common = OptimizationConfig(optimizer="adamw", patience=5, clip=5.0, schedule="linear", warmup=0.05)
    if backbone is None:
        return dataclasses.replace(common, learning_rate=2e-3, weight_decay=0.0, batch_size=48, epochs=25)
    return dataclasses.replace(
        common, learning_rate=1e-3, backbone_lr_scale=0.1, weight_decay=0.01, batch_size=16, epochs=5
    )


@dataclass(frozen=True)
class ParserConfig(OnHardware):
    """Everything that decides the training of a parser.

    Attributes:
        treebank: CoNLL-U file to learn from.
        dev: CoNLL-U file that chooses the best parser by its LAS, punctuation included.
        out: the run folder; the parser is in its ``best``.
        backbone: folder of a Hugging Face encoder, which is fine-tuned; words and characters alone without one.
        trees: ``all`` trees, or ``projective`` ones only; trees of the treebank that are not are then made so.
        loss: likelihood of whole ``trees``, or of each of the ``words``' heads, which is faster.
        encoder: options of ``parsing.words.WordEncoder``, or with a backbone of ``parsing.subwords.SubwordEncoder``.
        scorer: options of ``parsing.biaffine.BiaffineScorer``, such as ``arc_dim``.
        min_count: rarer words are represented by their characters only.
        storage: numbers of the saved parser: ``float32``, ``float16``, or ``int8``, a quarter of the size.
        optimization: optimiser and schedule; ``parser_optimization(backbone)`` if ``None``.
        seed: of parameters, dropout and the order of the sentences.
        device: ``cpu`` or ``cuda``; ``auto`` is CUDA where there is one.
        mixed_precision: ``bf16`` or ``fp16`` for products in 16 bits; ``fp16`` needs a GPU.

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
    storage: Storage = "float32"
    optimization: OptimizationConfig | None = None
    seed: int = 1
    device: Device = "auto"
    mixed_precision: MixedPrecision = "no"

    def __post_init__(self) -> None:
        check_choices(self, "")
        check(0 <= self.seed < 2**32, "seed", "at least 0 and below 2**32", self.seed)
        if self.optimization is None:
            object.__setattr__(self, "optimization", parser_optimization(self.backbone))
        _ = self.hardware

    @staticmethod
    def usual(backbone: str | None = None) -> dict[str, OptimizationConfig]:
        """The defaults of sections, as they follow from the other fields."""
        return {"optimization": parser_optimization(backbone)}


@dataclass(frozen=True)
class ParserResult:
    """The result of training a parser.

    Attributes:
        folder: the run folder; ``--parser structattn:FOLDER`` takes it.
        metrics: ``uas``, ``las``, ``las_universal`` and ``tags`` of the best parser on dev, punctuation included.
        epoch: the epoch of the best parser.
        seconds: training time.
        sentences_per_second: how fast the best parser read dev when it was measured.
    """

    folder: Path
    metrics: dict[str, float]
    epoch: int
    seconds: float
    sentences_per_second: float


def train_parser(config: ParserConfig, *, resume: bool = False, overwrite: bool = False) -> ParserResult:
    """Train a parser and leave a run folder.

    Args:
        config: everything that decides the run.
        resume: continue the interrupted run in ``config.out``; a finished one is only read.
        overwrite: replace the run in ``config.out``.

    Raises:
        ConfigError: if the folder is in use, holds a run and neither ``resume`` nor ``overwrite`` is given, or holds a
            run with another configuration; for unknown options; if there is no such device.
        ParseError: for a malformed treebank, with file and line; for one without trees, labels or tags, or with several
            roots in a sentence.
        StructAttnError: if the loss is not finite.
        MissingExtra: if the extra ``train`` is not installed.
    """
    return carry_out(
        config,
        lambda: config.out,
        functools.partial(_train, config),
        lambda folder, values: ParserResult(folder.path, **values),
        files=(config.treebank, config.dev),
        resume=resume,
        overwrite=overwrite,
    )


def read_gold(path: str) -> list[Sentence]:
    """The sentences of a treebank that a parser can learn from; those without words are left out.

    Raises:
        ParseError: as ``read_conllu``, or if a sentence has no labelled tree, no tags, or not exactly one root; the
            message names the sentence.
    """
    sentences = []
    for number, sentence in enumerate(read_conllu(path), start=1):
        if not len(sentence):
            continue
        tree = sentence.dependency
        name = f"sentence {number} ({sentence.metadata.get('sent_id', ' '.join(sentence.words[:5]))})"
        if tree is None or tree.labels is None or sentence.tags is None:
            raise ParseError(f"{name}: expected heads, labels and tags to learn from, they are missing", file=path)
        if len(tree.roots) != 1:
            raise ParseError(f"{name}: expected a tree with one root, got {len(tree.roots)} roots", file=path)
        # Without the columns that nothing here reads, which would be most of the memory.
        sentences.append(Sentence(sentence.words, sentence.tags, tree))
    if not sentences:
        raise ParseError("expected at least one sentence with words", file=path)
    return sentences


def _train(config: ParserConfig, folder: RunFolder, accelerator: Any) -> Mapping[str, Any]:
    train, dev = read_gold(config.treebank), read_gold(config.dev)
    torch.manual_seed(config.seed)
    parser = build_parser(
        train,
        backbone=config.backbone,
        encoder=config.encoder,
        scorer=config.scorer,
        parser={"trees": config.trees, "loss": config.loss},
        min_count=config.min_count,
    )
    optimization = config.optimization or parser_optimization(config.backbone)
    history = fit(
        _ParserLearner(
            parser.train(), train, dev, functools.partial(parser.save_pretrained, folder.best, storage=config.storage)
        ),
        batch_sampler([len(one) for one in train], optimization, seed=config.seed),
        optimization,
        folder=folder,
        accelerator=accelerator,
        # LAS is an accuracy, that of head and label of each word taken together.
        metric=dataclasses.replace(metric("accuracy"), name="las"),
    )
    best = history.best
    return {
        "metrics": {name: best[name] for name in _METRICS},
        "epoch": int(best["epoch"]),
        "seconds": history.last["seconds"],
        "sentences_per_second": best["sentences_per_second"],
    }


class _ParserLearner:
    """A parser and its treebanks."""

    def __init__(
        self, parser: TreeCRF, train: Sequence[Sentence], dev: Sequence[Sentence], keep: Callable[[], None]
    ) -> None:
        self.module: nn.Module = parser
        self.parser = parser
        self.train = train
        self.dev = dev
        self.keep = keep

    def batch(self, rows: list[int]) -> GoldBatch:
        return self.parser.collate([self.train[row] for row in rows])

    def loss(self, module: nn.Module, batch: GoldBatch) -> Tensor:
        return self.parser.loss_of(module(batch.given), batch)

    def begin_epoch(self, epoch: int) -> None:
        pass

    def measure(self) -> Measured:
        begun = time.perf_counter()
        found = attachment(self.dev, self.parser.parse(self.dev))
        speed = len(self.dev) / (time.perf_counter() - begun)
        metrics = {name: getattr(found, name) for name in _METRICS}
        notes = {"sentences_per_second": round(speed, 1)}
        return Measured(metrics, notes, self.keep)
