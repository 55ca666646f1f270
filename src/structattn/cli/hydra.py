"""``structattn hydra pretrain``: heads on a frozen body, trained to score a relation of a treebank."""

import dataclasses
import json as jsonlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from structattn.cli.lines import table
from structattn.pretrained import HydraConfig, PretrainedBody, Pretraining, PretrainingConfig, pretrain
from structattn.syntax import read_conllu
from structattn.syntax.errors import ConfigError


def command(
    action: Literal["pretrain"],
    treebank: str,
    *,
    body: str,
    out: str,
    dev: str | None = None,
    limit: int | None = None,
    relation: str = "arc",
    layer_style: str = "gated",
    num_heads: int | None = None,
    subword: str = "all",
    special: str = "zero",
    objective: str = "mse",
    target_scale: float = 1.0,
    layer: int = -1,
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    epochs: int = 2,
    patience: int = 2,
    max_length: int | None = None,
    control: str = "none",
    seed: int = 1,
    keep_states: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Pretrain HYDRA heads on a treebank, leave an adapter folder, and report what the heads have learnt.

    Args:
        action: pretrain.
        treebank: a CoNLL-U file.
        body: the folder of a Hugging Face encoder with a fast tokenizer.
        out: the adapter folder.
        dev: a CoNLL-U file to report on; a tenth of the treebank is held out without one.
        limit: use so many sentences of the treebank only.
        relation: what to score: arc, head, child, ancestor, span, distance; one name, or one a head with spaces
            between.
        layer_style: residual, attention, gated or transformer.
        num_heads: number of heads; as many as the body has by default.
        subword: all, first, mean or sgnet.
        special: zero or ignore.
        objective: mse, bce, ce or kl.
        target_scale: factor of the relation.
        layer: index of the body's hidden states to start from.
        learning_rate: of AdamW.
        batch_size: sentences a step.
        epochs: passes over the treebank.
        patience: epochs without improvement before it stops.
        max_length: leave out sentences of more pieces.
        control: none, or shuffled for trees of other sentences.
        seed: of heads and order.
        keep_states: keep the body's states in memory.
        json: print one JSON object.
    """
    source = PretrainedBody.from_folder(body, is_frozen=True)
    names = relation.split()
    config = HydraConfig(
        num_heads=source.config.num_attention_heads if num_heads is None else num_heads,
        relation=names[0] if len(names) == 1 else tuple(names),
        layer_style=layer_style,
        subword=subword,
        special=special,
        objective=objective,
        target_scale=target_scale,
        layer=layer,
    )
    settings = PretrainingConfig(
        learning_rate=learning_rate,
        batch_size=batch_size,
        epochs=epochs,
        patience=patience,
        max_length=max_length,
        keep_states=keep_states,
        control=control,
        seed=seed,
    )
    sentences = list(read_conllu(treebank))[:limit]
    held_out = sentences[::10] if dev is None else list(read_conllu(dev))
    if dev is None:
        sentences = [sentence for index, sentence in enumerate(sentences) if index % 10]
    if not sentences or not held_out:
        raise ConfigError(f"{treebank}: expected at least two sentences, to learn from one and report on the other")
    found = pretrain(source, config, sentences, held_out=held_out, settings=settings)
    found.model.save_pretrained(out)
    yield from [_json(found, out)] if json else _lines(found, out)


def _json(found: Pretraining, out: str) -> str:
    relations = {name: dataclasses.asdict(report) for name, report in found.relations.items()}
    values = {
        "adapter": out,
        "loss": found.loss,
        "epochs": found.epochs,
        "relations": relations,
        "sentences": found.sentences,
        "bytes": _size(out),
        "seconds": found.seconds,
    }
    return jsonlib.dumps(values)


def _lines(found: Pretraining, out: str) -> Iterator[str]:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.sentences.items())
    yield f"{out}: {_size(out) / 1e6:.2f} MB after {found.seconds:.0f} s; sentences: {counts}"
    yield ""
    header = ["relation", "MSE", "best constant", "a sentence", "AUC", "spanning tree", "best head"]
    rows = []
    for name, report in found.relations.items():
        attachment = "" if report.attachment is None else f"{100 * report.attachment:.1f}"
        best = max(report.accuracy, default=float("nan"))
        numbers = (report.mean_squared_error, report.constant_error, report.sentence_constant_error)
        row = [name, *(f"{number:.4f}" for number in numbers), f"{report.area:.4f}", attachment, f"{100 * best:.1f}"]
        rows.append(row)
    yield from table(header, rows)


def _size(out: str) -> int:
    return (Path(out) / "adapter_model.safetensors").stat().st_size
