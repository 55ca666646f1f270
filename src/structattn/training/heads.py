"""Training HYDRA heads to score a relation, on a frozen backbone, which stays the same bit for bit.

Pretraining of heads as in HYDRA (arXiv 2109.05349): only queries and keys are trained; the backbone runs without
gradients and without dropout. Sentences without a tree, and those too long for the backbone, are left out and counted.
"""

import contextlib
import dataclasses
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from structattn.backbones import HydraConfig, HydraModel, PretrainedBackbone, RelationHeads, add_heads, evaluate_heads
from structattn.backbones.adapter import backbone_fingerprint, fill_layer, read_adapter_config, read_parts
from structattn.backbones.head_evaluation import RelationReport, heads_loss
from structattn.backbones.relation_batches import RelationBatches, backbone_below, exchange_trees
from structattn.data import SubwordBatch
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluation_mode
from structattn.options.hardware import Hardware
from structattn.syntax import Sentence, read_conllu
from structattn.tasks import metric
from structattn.training import distributed
from structattn.training.checkpoint import preserved_randomness
from structattn.training.execution import carry_out
from structattn.training.heads_config import Control, PretrainingConfig, heads_optimization
from structattn.training.loop import Measured, fit
from structattn.training.optimization_config import OptimizationConfig
from structattn.training.run_folder import RunFolder
from structattn.training.sampler import NoisyBatchSampler

LOGGER = logging.getLogger("structattn.training")

_REPORTS = ("relations", "test_relations")


@dataclass(frozen=True)
class Pretraining:
    """The result of pretraining.

    Attributes:
        model: the backbone, in the mode it was in, with the best heads.
        loss: loss on the held-out sentences.
        relations: a report for each relation, on the held-out sentences.
        test_relations: the same on the test sentences; empty without any.
        epochs: losses on the held-out sentences: first that of untrained heads, then one per evaluation.
        sentences: numbers of sentences trained on, held out, without a tree, and too long.
        coverage: share of the words of all these sentences that have a subword.
        is_backbone_unchanged: whether every parameter and buffer of the backbone is the same as before, bit for bit.
        seconds: training time.
    """

    model: HydraModel
    loss: float
    relations: dict[str, RelationReport]
    test_relations: dict[str, RelationReport]
    epochs: tuple[float, ...]
    sentences: dict[str, int]
    coverage: float
    is_backbone_unchanged: bool
    seconds: float = field(compare=False)


def pretrain_heads(config: PretrainingConfig, *, resume: bool = False, overwrite: bool = False) -> Pretraining:
    """Pretrain heads on a treebank and write a run folder, which ``add_heads`` takes as an adapter folder.

    Args:
        config: everything that determines the run.
        resume: continue the interrupted run in ``config.out``; a finished one is only read.
        overwrite: replace the run in ``config.out``.

    Raises:
        ConfigError: if the folder is in use, contains a run and neither ``resume`` nor ``overwrite`` is given, or
            contains a run with another configuration; if the heads do not fit the backbone, no sentence is left, or the
            device is not available.
        ParseError: for a malformed treebank, with file and line.
        StructAttnError: if the loss is not finite.
        MissingExtra: if the extra ``train`` is not installed.
    """
    backbone = PretrainedBackbone.from_folder(config.backbone, is_frozen=True)

    def work(folder: RunFolder, accelerator: Any) -> Mapping[str, Any]:
        train, held_out = split_treebank(config)
        result = pretrain(
            backbone,
            config.heads,
            train,
            held_out=held_out,
            test=[] if config.test is None else list(read_conllu(config.test)),
            optimization=config.optimization,
            max_length=config.max_length,
            keep_states=config.keep_states,
            control=config.control,
            seed=config.seed,
            folder=folder,
            accelerator=accelerator,
        )
        values = {item.name: getattr(result, item.name) for item in dataclasses.fields(result) if item.name != "model"}
        for part in _REPORTS:
            values[part] = {name: report.to_dict() for name, report in values[part].items()}
        metrics = {"held_out_loss": result.loss, **_collect_metrics(result.relations)}
        return {
            **values,
            "metrics": metrics,
            "test": _collect_metrics(result.test_relations),
            "parser": train[0].metadata.get("parser"),
        }

    def read(folder: RunFolder, values: Mapping[str, Any]) -> Pretraining:
        fields = {item.name: values[item.name] for item in dataclasses.fields(Pretraining) if item.name in values}
        for part in _REPORTS:
            fields[part] = {name: RelationReport.from_dict(report) for name, report in values[part].items()}
        return Pretraining(add_heads(backbone.model, folder.best), **{**fields, "epochs": tuple(values["epochs"])})

    return carry_out(
        config,
        work,
        read,
        name="hydra pretrain",
        files=(config.treebank, config.dev, config.test),
        resume=resume,
        overwrite=overwrite,
    )


def split_treebank(config: PretrainingConfig) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences to train on, and those held out to choose the best epoch by and to report on."""
    sentences = list(read_conllu(config.treebank))[: config.limit]
    held_out = sentences[::10] if config.dev is None else list(read_conllu(config.dev))
    if config.dev is None:
        sentences = [sentence for index, sentence in enumerate(sentences) if index % 10]
    if not sentences or not held_out:
        raise ConfigError(
            f"{config.treebank}: expected at least two sentences, to learn from one and report on the other"
        )
    return sentences, held_out


def pretrain(
    backbone: PretrainedBackbone,
    heads: HydraConfig,
    sentences: Sequence[Sentence],
    *,
    held_out: Sequence[Sentence],
    test: Sequence[Sentence] = (),
    optimization: OptimizationConfig | None = None,
    max_length: int | None = None,
    keep_states: bool = False,
    control: Control = "none",
    seed: int = 1,
    folder: RunFolder | None = None,
    accelerator: Any = None,
) -> Pretraining:
    """Train fresh heads on sentences with trees; options are those of ``PretrainingConfig``.

    Without a folder, checkpoints are temporary; without an Accelerator, the run is on the available device.
    """
    optimization = heads_optimization() if optimization is None else optimization
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = RunFolder(stack.enter_context(tempfile.TemporaryDirectory()))
        if accelerator is None:
            accelerator = stack.enter_context(distributed.open_accelerator(Hardware()))
        with preserved_randomness():
            torch.manual_seed(seed)
            model = HydraModel(backbone.model, heads)
        model.to(accelerator.device)
        fingerprint = backbone_fingerprint(model.base)
        reader = backbone_below(backbone, model.hydra_config)
        reader.cached_states = {} if keep_states else None
        size = optimization.batch_size
        train, dev, last = (
            RelationBatches(part, reader, model.hydra_config, batch_size=size, max_length=max_length)
            for part in (sentences, held_out, test)
        )
        for purpose, source in (("learn from", train), ("choose by", dev), *([("test on", last)] if test else [])):
            _require(source, purpose, is_learnt=source is train)
        if control == "shuffled":
            train.sentences = exchange_trees(train.sentences, seed=seed)
        share = {"seed": seed, "process": distributed.process_index(), "processes": distributed.num_processes()}
        with evaluation_mode(reader):
            history = fit(
                _HeadsLearner(model, train, dev, folder),
                NoisyBatchSampler(train.sizes, size, **share),
                optimization,
                folder=folder,
                accelerator=accelerator,
                metric=dataclasses.replace(metric("mean_squared_error"), name="held_out_loss"),
                clipped=model.hydra.heads.parameters(),
                measure_first=True,
            )
            content = read_adapter_config(folder.best)
            fill_layer(model.hydra, model.base, read_parts(model.hydra, content, folder.best), content, folder.best)
            with accelerator.autocast():  # the precision in which every epoch was evaluated
                loss, reports = evaluate_heads(model.hydra.heads, model.hydra_config, dev.batches())
                tested = evaluate_heads(model.hydra.heads, model.hydra_config, last.batches())[1] if test else {}
    if history.best.step == 0:
        LOGGER.warning(
            "no epoch was better than the untrained heads, which are kept; rare relations need a learning_rate "
            "below %g",
            optimization.learning_rate,
        )
    model.hydra.eval()
    return Pretraining(
        model,
        loss,
        reports,
        tested,
        tuple(row.metrics["held_out_loss"] for row in history.rows),
        _count_sentences(train, dev),
        (train.covered + dev.covered) / max(1, train.words + dev.words),
        backbone_fingerprint(model.base) == fingerprint,
        history.last.seconds,
    )


def _require(source: RelationBatches, purpose: str, *, is_learnt: bool) -> None:
    """Require a sentence to train or evaluate on; a relation that is learnt must also occur in the sentences."""
    source.require(purpose)
    if absent := source.absent_relations():
        lacking = f"relation {absent[0]!r}: no two words have it in the {len(source)} sentences to {purpose}"
        if is_learnt:
            raise ConfigError(f"{lacking}; are its labels those of the treebank?")
        LOGGER.warning("%s, so its area under the curve is unknown", lacking)


def _collect_metrics(reports: Mapping[str, RelationReport]) -> dict[str, float]:
    return {f"{key}_{name}": value for name, report in reports.items() for key, value in report.metrics().items()}


def _count_sentences(train: RelationBatches, dev: RelationBatches) -> dict[str, int]:
    return {
        "trained": len(train.sentences),
        "held_out": len(dev.sentences),
        "without_structure": train.missing + dev.missing,
        "too_long": train.too_long + dev.too_long,
    }


class _HeadsLoss(nn.Module):
    """The loss of heads as a single module, which is wrapped for several processes."""

    def __init__(self, heads: RelationHeads, config: HydraConfig) -> None:
        super().__init__()
        self.heads = heads
        self.config = config

    def forward(self, subwords: SubwordBatch, states: Tensor) -> Tensor:
        return heads_loss(self.heads, self.config, subwords, states)


class _HeadsLearner:
    """Heads on a backbone, and the sentences with trees."""

    def __init__(self, model: HydraModel, train: RelationBatches, dev: RelationBatches, folder: RunFolder) -> None:
        self.module: nn.Module = _HeadsLoss(model.hydra.heads, model.hydra_config)
        self.model = model
        self.train = train
        self.dev = dev
        self.folder = folder

    def batch(self, rows: list[int]) -> SubwordBatch:
        return self.train.batch(rows)

    def loss(self, module: nn.Module, batch: SubwordBatch) -> Tensor:
        # The states are computed here, not in ``batch``, so that they have the precision of training too.
        loss: Tensor = module(batch, self.train.states(batch))
        return loss

    def begin_epoch(self, epoch: int) -> None:
        pass

    def measure(self) -> Measured:
        loss, _ = evaluate_heads(self.model.hydra.heads, self.model.hydra_config, self.dev.batches())
        return Measured({"held_out_loss": loss}, keep=lambda: self.model.save_pretrained(self.folder.best, card=False))
