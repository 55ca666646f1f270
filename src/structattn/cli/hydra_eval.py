"""``structattn hydra eval``: heads on a treebank, and their drift in fine-tuning."""

import json as jsonlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from structattn.cli.relations import relation_table, relation_values
from structattn.layers.devices import Hardware
from structattn.layers.modes import evaluating
from structattn.pretrained import HydraLayer, PretrainedBackbone, RelationReport, add_heads, evaluate_heads, head_drift
from structattn.pretrained.encoder import heads_of
from structattn.pretrained.relation_batches import RelationBatches, backbone_below
from structattn.syntax import Sentence, read_conllu
from structattn.syntax.errors import ConfigError
from structattn.training import load


def command(
    treebank: str,
    *,
    backbone: str | None = None,
    adapter: str | None = None,
    run: str | None = None,
    batch_size: int = 32,
    hardware: Hardware,
    trust_code: bool = False,
    json: bool = False,
) -> Iterator[str]:
    """Measure HYDRA heads on a treebank: those of an adapter, those of a fine-tuned model, or both and their drift.

    Args:
        treebank: a CoNLL-U file.
        backbone: the folder of the backbone that the adapter was pretrained on.
        adapter: the adapter folder.
        run: a run folder, or the folder of a saved model, with HYDRA heads.
        batch_size: sentences at a time.
        hardware: where the model runs, and in which numbers.
        trust_code: import and run an encoder module:function that the run folder names.
        json: print one JSON object.
    """
    if (backbone is None) != (adapter is None) or (adapter is None and run is None):
        raise ConfigError("hydra eval: expected --backbone BACKBONE --adapter ADAPTER, or --run RUN, or all three")
    sentences = list(read_conllu(treebank))
    # The drift needs the states of both backbones for every sentence.
    keep = adapter is not None and run is not None
    measured: dict[str, _Measured] = {}
    if backbone is not None and adapter is not None:
        source = PretrainedBackbone.from_folder(backbone, is_frozen=True)
        layer = hardware.place(add_heads(source.model, adapter)).hydra
        with hardware.autocast():
            measured["adapter"] = _measure(source, layer, sentences, batch_size=batch_size, keep_states=keep)
    if run is not None:
        source, layer = heads_of(hardware.place(load(run, trust_code=trust_code)).encoder)
        with hardware.autocast():
            measured["run"] = _measure(source, layer, sentences, batch_size=batch_size, keep_states=keep)
    with hardware.autocast():
        drift = _drift(measured["adapter"], measured["run"]) if len(measured) == 2 else None
    if json:
        values: dict[str, Any] = {
            name: {"loss": found.loss, "relations": relation_values(found.reports)} for name, found in measured.items()
        }
        yield jsonlib.dumps({**values, "drift": drift, "sentences": len(sentences), "treebank": treebank})
        return
    for name, found in measured.items():
        yield f"{adapter if name == 'adapter' else run}: {len(found.batches)} of {len(sentences)} sentences"
        yield from relation_table(found.reports)
        yield ""
    if drift is not None:
        yield "drift of each head by fine-tuning, |M after - M before| / |M before|:"
        yield "  ".join(f"{share:.2f}" for share in drift)


class _Measured(NamedTuple):
    batches: RelationBatches
    layer: HydraLayer
    loss: float
    reports: dict[str, RelationReport]


def _measure(
    backbone: PretrainedBackbone, layer: HydraLayer, sentences: list[Sentence], *, batch_size: int, keep_states: bool
) -> _Measured:
    backbone = backbone_below(backbone, layer.config)
    backbone.kept = {} if keep_states else None
    batches = RelationBatches(sentences, backbone, layer.config, batch_size=batch_size)
    batches.require("measure them by")
    with evaluating(batches.backbone):
        loss, reports = evaluate_heads(layer.heads, layer.config, batches.batches())
    return _Measured(batches, layer, loss, reports)


def _drift(before: _Measured, after: _Measured) -> tuple[float, ...]:
    if before.layer.heads.num_heads != after.layer.heads.num_heads:
        raise ConfigError("hydra eval: the adapter and the run have different numbers of heads")
    if before.batches.backbone.tokenizer.get_vocab() != after.batches.backbone.tokenizer.get_vocab():
        raise ConfigError("hydra eval: the backbones of the adapter and of the run have different vocabularies")
    with evaluating(before.batches.backbone), evaluating(after.batches.backbone):
        return head_drift(
            (
                before.layer.heads.scores(before.batches.states(subwords)),
                after.layer.heads.scores(after.batches.states(subwords)),
                subwords.mask,
            )
            for subwords in before.batches.subwords()
        )
