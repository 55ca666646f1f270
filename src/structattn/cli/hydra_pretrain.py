"""``structattn hydra pretrain``: heads on a frozen backbone, trained to score a relation of a treebank."""

import json as jsonlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structattn import training
from structattn.cli.inputs import check_sources
from structattn.cli.relations import relation_table, relation_values
from structattn.data.model_config import ADAPTER, find_model_folder
from structattn.pictures import save
from structattn.syntax import Sentence
from structattn.training.folder import RunFolder
from structattn.training.heads_config import PretrainingConfig

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
    found = training.pretrain_heads(config, resume=resume, overwrite=overwrite)
    if not training.is_first_process():
        return
    if plots:
        from structattn.backbones import PretrainedBackbone
        from structattn.training.heads import held_out_sentences

        source = PretrainedBackbone.from_folder(config.backbone, is_frozen=True)
        _draw(found, source, held_out_sentences(config)[1][:plots], folder=RunFolder(config.out).plots)
    yield from (
        [jsonlib.dumps({"adapter": config.out, **_report(found, config.out)})] if json else _lines(found, config.out)
    )


def _draw(found: "Pretraining", source: "PretrainedBackbone", sentences: Sequence[Sentence], *, folder: Path) -> None:
    from structattn.inspection.hydra_figures import pretraining_figure, relation_figures

    figures = {"loss": pretraining_figure(found)}
    for number, sentence in enumerate(sentences, start=1):
        drawn = relation_figures(found.model, source, sentence)
        figures |= {f"{number:02}-{what}": svg for what, svg in drawn.items()}
    folder.mkdir(exist_ok=True)
    for name, svg in figures.items():
        save(folder / f"{name}.svg", svg)


def _report(found: "Pretraining", out: str) -> dict[str, Any]:
    return {
        "loss": found.loss,
        "epochs": list(found.epochs),
        "relations": relation_values(found.relations),
        "test_relations": relation_values(found.test_relations),
        "sentences": found.sentences,
        "coverage": found.coverage,
        "backbone_unchanged": found.is_backbone_unchanged,
        "bytes": _size(out),
        "seconds": found.seconds,
    }


def _lines(found: "Pretraining", out: str) -> Iterator[str]:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.sentences.items())
    yield f"{out}: {_size(out) / 1e6:.2f} MB after {found.seconds:.0f} s; sentences: {counts}"
    same = "the same as before, bit for bit" if found.is_backbone_unchanged else "NOT the same as before"
    yield f"{100 * found.coverage:.2f}% of the words have subwords; the backbone is {same}"
    yield ""
    yield from relation_table(found.relations)
    if found.test_relations:
        yield "\ntest:"
        yield from relation_table(found.test_relations)


def _size(out: str) -> int:
    return (find_model_folder(out, layout=ADAPTER) / ADAPTER.weights).stat().st_size
