"""``structattn hydra pretrain``: heads on a frozen backbone, trained to score a relation of a treebank."""

import json as jsonlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structattn import training
from structattn.cli.command_inputs import check_sources
from structattn.cli.terminal_tables import format_relations, relation_values
from structattn.data.model_config import ADAPTER, find_model_folder
from structattn.pictures import save
from structattn.syntax import Sentence
from structattn.training.heads_config import PretrainingConfig
from structattn.training.run_folder import RunFolder

if TYPE_CHECKING:
    from structattn.backbones import PretrainedBackbone
    from structattn.training import Pretraining


def command(
    treebank: str,
    config: PretrainingConfig,
    *,
    plots: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Pretrain HYDRA heads on a treebank; write a run folder, which is an adapter folder for the other commands.

    Args:
        treebank: a CoNLL-U file.
        config: the configuration.
        plots: draw the loss, and the relations of this many evaluated sentences, into OUT/plots.
        resume: continue the interrupted run in --out.
        overwrite: replace the run in --out.
        json: print one JSON object.
    """
    check_sources(config.treebank, config.dev, config.test, backbone=config.backbone)
    RunFolder(config.out).check_free(config, resume=resume, overwrite=overwrite)
    pretraining = training.pretrain_heads(config, resume=resume, overwrite=overwrite)
    if not training.is_first_process():
        return
    if plots:
        from structattn.backbones import PretrainedBackbone
        from structattn.training.heads import split_treebank

        source = PretrainedBackbone.from_folder(config.backbone, is_frozen=True)
        _draw(pretraining, source, split_treebank(config)[1][:plots], folder=RunFolder(config.out).plots)
    if json:
        yield jsonlib.dumps({"adapter": config.out, **_report(pretraining, config.out)})
    else:
        yield from _lines(pretraining, config.out)


def _draw(
    pretraining: "Pretraining", source: "PretrainedBackbone", sentences: Sequence[Sentence], *, folder: Path
) -> None:
    from structattn.inspection.hydra_figures import pretraining_figure, relation_figures

    figures = {"loss": pretraining_figure(pretraining)}
    for number, sentence in enumerate(sentences, start=1):
        of_sentence = relation_figures(pretraining.model, source, sentence)
        figures |= {f"{number:02}-{name}": svg for name, svg in of_sentence.items()}
    folder.mkdir(exist_ok=True)
    for name, svg in figures.items():
        save(folder / f"{name}.svg", svg)


def _report(pretraining: "Pretraining", out: str) -> dict[str, Any]:
    return {
        "loss": pretraining.loss,
        "epochs": list(pretraining.epochs),
        "relations": relation_values(pretraining.relations),
        "test_relations": relation_values(pretraining.test_relations),
        "sentences": pretraining.sentences,
        "coverage": pretraining.coverage,
        "backbone_unchanged": pretraining.is_backbone_unchanged,
        "bytes": _size(out),
        "seconds": pretraining.seconds,
    }


def _lines(pretraining: "Pretraining", out: str) -> Iterator[str]:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in pretraining.sentences.items())
    yield f"{out}: {_size(out) / 1e6:.2f} MB after {pretraining.seconds:.0f} s; sentences: {counts}"
    same = "the same as before, bit for bit" if pretraining.is_backbone_unchanged else "NOT the same as before"
    yield f"{100 * pretraining.coverage:.2f}% of the words have subwords; the backbone is {same}"
    yield ""
    yield from format_relations(pretraining.relations)
    if pretraining.test_relations:
        yield "\ntest:"
        yield from format_relations(pretraining.test_relations)


def _size(out: str) -> int:
    return (find_model_folder(out, layout=ADAPTER) / ADAPTER.weights).stat().st_size
