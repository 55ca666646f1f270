"""``structattn hydra pretrain``: heads on a frozen backbone, trained to score a relation of a treebank."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from structattn.cli.relations import relation_table, relation_values
from structattn.inspection.hydra_figures import pretraining_figure, relation_figures
from structattn.pictures import save
from structattn.pretrained import HydraConfig, PretrainedBackbone, Pretraining, PretrainingConfig, pretrain
from structattn.syntax import Sentence, read_conllu
from structattn.syntax.errors import ConfigError
from structattn.syntax.folders import write_json


def command(
    treebank: str,
    settings: PretrainingConfig,
    *,
    backbone: str,
    out: str,
    dev: str | None = None,
    limit: int | None = None,
    relation: str = "arc",
    layer_style: str = "gated",
    num_heads: int | None = None,
    subword: str = "all",
    special: str = "zero",
    root_to_cls: bool = False,
    objective: str = "mse",
    reduction: str = "sentences",
    target_scale: float = 1.0,
    layer: int = -1,
    plots: int = 0,
    json: bool = False,
) -> Iterator[str]:
    """Pretrain HYDRA heads on a treebank; leave an adapter folder, and in it a report of what the heads have learnt.

    Args:
        treebank: a CoNLL-U file.
        settings: options of training.
        backbone: the folder of a Hugging Face encoder with a fast tokenizer.
        out: the adapter folder.
        dev: a CoNLL-U file to report on; a tenth of the treebank is held out without one.
        limit: maximum number of sentences of the treebank.
        relation: the target: arc, head, child, ancestor, span, dependency_distance or another relation; one name, or
            one a head with spaces between.
        layer_style: residual, attention, gated or transformer.
        num_heads: number of heads; as many as the backbone has by default.
        subword: all, first, mean or sgnet.
        special: zero or ignore.
        root_to_cls: relate the root to the first special token.
        objective: mse, bce, ce or kl.
        reduction: sentences or pairs, over which the mean is taken.
        target_scale: factor of the relation.
        layer: index of the backbone's hidden states that the heads read; -1 is on top.
        plots: draw the loss, and the relations in this number of the sentences reported on, into OUT/plots.
        json: print one JSON object.
    """
    source = PretrainedBackbone.from_folder(backbone, is_frozen=True)
    names = relation.split()
    config = HydraConfig(
        num_heads=source.config.num_attention_heads if num_heads is None else num_heads,
        relation=names[0] if len(names) == 1 else tuple(names),
        layer_style=layer_style,
        subword=subword,
        special=special,
        root_to_cls=root_to_cls,
        objective=objective,
        reduction=reduction,
        target_scale=target_scale,
        layer=layer,
    )
    sentences = list(read_conllu(treebank))[:limit]
    held_out = sentences[::10] if dev is None else list(read_conllu(dev))
    if dev is None:
        sentences = [sentence for index, sentence in enumerate(sentences) if index % 10]
    if not sentences or not held_out:
        raise ConfigError(f"{treebank}: expected at least two sentences, to learn from one and report on the other")
    found = pretrain(source, config, sentences, held_out=held_out, settings=settings)
    found.model.save_pretrained(out)
    parser = sentences[0].metadata.get("parser")
    sources = {
        "backbone": backbone,
        "treebank": treebank,
        "dev": dev,
        "parser": parser,
        "settings": dataclasses.asdict(settings),
    }
    values = {"adapter": out, **_report(found, out), **sources}
    write_json(Path(out) / "report.json", values)
    if plots:
        _draw(found, source, held_out[:plots], folder=Path(out) / "plots")
    yield from [jsonlib.dumps(values)] if json else _lines(found, out)


def _draw(found: Pretraining, source: PretrainedBackbone, sentences: Sequence[Sentence], *, folder: Path) -> None:
    figures = {"loss": pretraining_figure(found)}
    for number, sentence in enumerate(sentences, start=1):
        drawn = relation_figures(found.model, source, sentence)
        figures |= {f"{number:02}-{what}": svg for what, svg in drawn.items()}
    folder.mkdir()
    for name, svg in figures.items():
        save(folder / f"{name}.svg", svg)


def _report(found: Pretraining, out: str) -> dict[str, Any]:
    return {
        "loss": found.loss,
        "epochs": list(found.epochs),
        "relations": relation_values(found.relations),
        "sentences": found.sentences,
        "coverage": found.coverage,
        "backbone_unchanged": found.is_backbone_unchanged,
        "bytes": _size(out),
        "seconds": found.seconds,
    }


def _lines(found: Pretraining, out: str) -> Iterator[str]:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.sentences.items())
    yield f"{out}: {_size(out) / 1e6:.2f} MB after {found.seconds:.0f} s; sentences: {counts}"
    same = "the same as before, bit for bit" if found.is_backbone_unchanged else "NOT the same as before"
    yield f"{100 * found.coverage:.2f}% of the words have subwords; the backbone is {same}"
    yield ""
    yield from relation_table(found.relations)


def _size(out: str) -> int:
    return (Path(out) / "adapter_model.safetensors").stat().st_size
