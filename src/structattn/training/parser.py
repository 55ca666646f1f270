"""Training this library's parser, with the run folder and the exact resumption of every run.

Needs no transformers.

Reference: Dozat and Manning (2017), section 4.2 (optimisation).
"""

import dataclasses
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from structattn.parsing.evaluation import attachment
from structattn.parsing.saved import build_parser, save_parser
from structattn.parsing.treecrf import TreeCRF
from structattn.syntax import Sentence, read_conllu
from structattn.syntax.errors import ParseError
from structattn.syntax.folders import described_by, read_json, remove, write_json, write_json_lines
from structattn.tasks import metric
from structattn.training.epochs import EpochLoop
from structattn.training.folder import RunFolder
from structattn.training.history import History
from structattn.training.optimization import build_optimizer
from structattn.training.parser_config import ParserConfig
from structattn.training.sampler import LengthBatchSampler
from structattn.training.state import preserved_randomness

LOGGER = logging.getLogger("structattn.training")


@dataclass(frozen=True)
class ParserResult:
    """The result of training a parser.

    Attributes:
        folder: the run folder; ``--parser structattn:FOLDER`` takes it.
        metrics: ``uas``, ``las``, ``las_universal`` and ``tags`` of the best parser on dev, punctuation included.
        epoch: the epoch of the best parser.
        seconds: spent in training.
        sentences_per_second: speed of the best parser on dev.
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
            run that was configured otherwise; for unknown options.
        ParseError: for a malformed treebank, with file and line; for one without trees, labels or tags, or with several
            roots in a sentence.
        StructAttnError: if the loss is not finite any more.
    """
    folder = RunFolder(config.out)
    with folder.claimed(), preserved_randomness():
        folder.open_for_run(resume=resume, overwrite=overwrite)
        folder.require_same(_stored(config))
        if folder.is_finished:
            values = read_json(folder.result)
            with described_by(folder.result, "a result"):
                return ParserResult(folder.path, **{name: values[name] for name in values if name != "folder"})
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
        write_json(folder.environment, {"torch": torch.__version__, "threads": torch.get_num_threads()})
        folder.describe(_stored(config))
        history = _Fit(parser, train, dev=dev, config=config, folder=folder).run()
        best = history.best
        names = ("uas", "las", "las_universal", "tags")
        result = ParserResult(
            folder.path,
            {name: best[name] for name in names},
            best["epoch"],
            history.last["seconds"],
            best["sentences_per_second"],
        )
        values = {name: value for name, value in dataclasses.asdict(result).items() if name != "folder"}
        write_json(folder.result, values)
        # Only now: until the result stands, an interrupted run must find its state.
        remove(folder.checkpoints)
        return result


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


class _Fit:
    """The epochs of a parser; the best one is kept."""

    def __init__(
        self,
        parser: TreeCRF,
        train: Sequence[Sentence],
        *,
        dev: Sequence[Sentence],
        config: ParserConfig,
        folder: RunFolder,
    ) -> None:
        self.parser = parser
        self.train = train
        self.dev = dev
        self.folder = folder
        self.optimization = config.optimization()
        sampler = LengthBatchSampler([len(one) for one in train], self.optimization.batch_size, seed=config.seed)
        optimizer = build_optimizer(parser, self.optimization)
        self.loop = EpochLoop(parser, optimizer, sampler, self.optimization, folder=folder)
        # LAS is an accuracy, of head and label of each word together.
        self.history = History(dataclasses.replace(metric("accuracy"), name="las"))
        self.started = time.monotonic()

    def run(self) -> History:
        """Train to the end, from the last checkpoint if there is one."""
        self.history.rows = self.loop.restore()
        if self.history.rows:
            self.started -= self.history.last["seconds"]
        # What was written after the last checkpoint will be written again.
        write_json_lines(self.folder.metrics, self.history.rows)
        for epoch in range(len(self.history.rows), self.optimization.epochs):
            if self.history.has_run_out(self.optimization.patience):
                break
            self.parser.train()
            self._evaluate(epoch, self.loop.learn(epoch, self._loss))
            self.loop.save(self.history.rows)
        return self.history

    def _loss(self, rows: list[int]) -> Tensor:
        return self.parser.loss(self.parser.collate([self.train[row] for row in rows]))

    def _evaluate(self, epoch: int, loss: float) -> None:
        begun = time.perf_counter()
        found = attachment(self.dev, self.parser.parse(self.dev))
        speed = len(self.dev) / (time.perf_counter() - begun)
        metrics = {name: value for name, value in dataclasses.asdict(found).items() if name != "words"}
        self.history.add(
            {
                "epoch": epoch + 1,
                "loss": loss,
                **metrics,
                "sentences_per_second": round(speed, 1),
                "seconds": round(time.monotonic() - self.started, 2),
            }
        )
        if self.history.last["is_best"]:
            save_parser(self.parser, self.folder.best)
        write_json_lines(self.folder.metrics, self.history.rows)
        LOGGER.info("%s", " ".join(f"{name} {_short(value)}" for name, value in self.history.last.items()))


def _stored(config: ParserConfig) -> dict[str, Any]:
    """Plain values, without the folder, so that the run can be moved."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return {name: value for name, value in values.items() if name != "out"}


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
