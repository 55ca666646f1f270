"""Training our own parser: the run and its result."""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from structattn.parsing.gold_trees import read_gold, score_attachment
from structattn.parsing.tree_parser import build_parser, read_parser
from structattn.parsing.treecrf import GoldBatch, TreeCRF
from structattn.syntax import Sentence
from structattn.tasks import metric
from structattn.training import distributed
from structattn.training.execution import carry_out
from structattn.training.loop import Learner, Measured, fit
from structattn.training.parser_config import ParserConfig, parser_optimization
from structattn.training.run_folder import RunFolder
from structattn.training.sampler import batch_sampler

_METRICS = ("uas", "las", "las_universal", "tags")


@dataclass(frozen=True)
class ParserResult:
    """The result of training a parser: ``metrics`` of the best one on dev and its ``epoch``; ``test`` of the saved one.

    ``folder`` is the run folder, ``sentences`` has their numbers, ``sentences_per_second`` is the speed on dev.
    """

    folder: Path
    metrics: dict[str, float]
    epoch: int
    seconds: float
    sentences_per_second: float
    sentences: Mapping[str, int] = field(default_factory=dict)
    test: Mapping[str, float] = field(default_factory=dict)


def train_parser(config: ParserConfig, *, resume: bool = False, overwrite: bool = False) -> ParserResult:
    """Train a parser and write a run folder.

    Args:
        config: everything that determines the run.
        resume: continue the interrupted run in ``config.out``; a finished one is only read.
        overwrite: replace the run in ``config.out``.

    Raises:
        ConfigError: if the folder is in use, contains a run and neither ``resume`` nor ``overwrite`` is given, or
            contains a run with another configuration; for unknown options; if the device is not available.
        ParseError: for a malformed treebank, with file and line; for one without trees, labels or tags, or with several
            roots in a sentence.
        StructAttnError: if the loss is not finite.
        MissingExtra: if the extra ``train`` is not installed.
    """
    return carry_out(
        config,
        functools.partial(_train, config),
        lambda folder, values: ParserResult(folder.path, **values),
        name="parser train",
        files=(config.treebank, config.dev, config.test),
        resume=resume,
        overwrite=overwrite,
    )


def _train(config: ParserConfig, folder: RunFolder, accelerator: Any) -> Mapping[str, Any]:
    train, dev = read_gold(config.treebank), read_gold(config.dev)
    test = [] if config.test is None else read_gold(config.test)
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
            parser.train(),
            train,
            dev,
            functools.partial(parser.save_pretrained, folder.best, storage=config.storage, card=False),
        ),
        batch_sampler([len(sentence) for sentence in train], optimization, seed=config.seed),
        optimization,
        folder=folder,
        accelerator=accelerator,
        # LAS is an accuracy, of each word's head and label together.
        metric=dataclasses.replace(metric("accuracy"), name="las"),
    )
    best = history.best
    tested = (
        distributed.from_first(lambda: _scores(test, read_parser(folder.best).to(accelerator.device))) if test else {}
    )
    return {
        "metrics": best.metrics,
        "epoch": int(best.epoch),
        "seconds": history.last.seconds,
        "sentences_per_second": best.values["sentences_per_second"],
        "sentences": {name: len(part) for name, part in (("train", train), ("dev", dev), ("test", test)) if part},
        "test": tested,
    }


def _scores(gold: Sequence[Sentence], parser: TreeCRF) -> dict[str, float]:
    attachment = score_attachment(gold, parser.parse(gold))
    return {name: getattr(attachment, name) for name in _METRICS}


class _ParserLearner(Learner):
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
        return self.parser.loss_of(module(batch.inputs), batch)

    def measure(self) -> Measured:
        begun = time.perf_counter()
        metrics = _scores(self.dev, self.parser)
        speed = len(self.dev) / (time.perf_counter() - begun)
        return Measured(metrics, {"sentences_per_second": round(speed, 1)}, self.keep)
