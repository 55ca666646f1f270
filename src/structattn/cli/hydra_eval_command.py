"""``structattn hydra eval``: heads evaluated on a treebank, and their drift in fine-tuning."""

import json as jsonlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from structattn import backbones
from structattn.cli.command_inputs import check_at_least, check_inputs, check_sources, refuse_without
from structattn.cli.terminal_tables import format_relations, relation_values
from structattn.errors import ConfigError
from structattn.options.hardware import Hardware
from structattn.syntax import Sentence, read_conllu

if TYPE_CHECKING:
    from structattn.backbones import HydraLayer, PretrainedBackbone
    from structattn.backbones.head_evaluation import RelationReport
    from structattn.backbones.relation_batches import RelationBatches


class MeasuredHeads(NamedTuple):
    """Heads, the states that they read, and how well they score their relations."""

    batches: "RelationBatches"
    layer: "HydraLayer"
    loss: float
    reports: "dict[str, RelationReport]"


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
        batch_size: sentences per batch.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the run folder names.
        json: print one JSON object.
    """
    if (backbone is None) != (adapter is None) or (adapter is None and run is None):
        raise ConfigError("hydra eval: expected --backbone BACKBONE --adapter ADAPTER, or --run RUN, or all three")
    check_at_least(1, batch_size=batch_size)
    if run is None:
        refuse_without("--run RUN", trust_code=trust_code)
    check_sources(treebank, backbone=backbone, adapter=adapter)
    check_inputs(run, trust_code=trust_code)
    sentences = list(read_conllu(treebank))
    from structattn.backbones.hydra_encoder import find_heads
    from structattn.training.models import load_task_model

    # The drift needs the states of both backbones for every sentence.
    keep = adapter is not None and run is not None
    measured: dict[str, MeasuredHeads] = {}
    if backbone is not None and adapter is not None:
        source = backbones.PretrainedBackbone.from_folder(backbone, is_frozen=True)
        layer = hardware.move(backbones.add_heads(source.model, adapter)).hydra
        with hardware.autocast():
            measured["adapter"] = _measure(source, layer, sentences, batch_size=batch_size, keep_states=keep)
    if run is not None:
        source, layer = find_heads(hardware.move(load_task_model(run, trust_code=trust_code)).encoder)
        with hardware.autocast():
            measured["run"] = _measure(source, layer, sentences, batch_size=batch_size, keep_states=keep)
    with hardware.autocast():
        drift = _drift(measured["adapter"], measured["run"]) if len(measured) == 2 else None
    if json:
        values: dict[str, Any] = {
            name: {"loss": heads.loss, "relations": relation_values(heads.reports)} for name, heads in measured.items()
        }
        yield jsonlib.dumps({**values, "drift": drift, "sentences": len(sentences), "treebank": treebank})
        return
    for name, heads in measured.items():
        yield f"{adapter if name == 'adapter' else run}: {len(heads.batches)} of {len(sentences)} sentences"
        yield from format_relations(heads.reports)
        yield ""
    if drift is not None:
        yield "drift of each head by fine-tuning, |M after - M before| / |M before|:"
        yield "  ".join(f"{share:.2f}" for share in drift)


def _measure(
    backbone: "PretrainedBackbone",
    layer: "HydraLayer",
    sentences: list[Sentence],
    *,
    batch_size: int,
    keep_states: bool,
) -> MeasuredHeads:
    """Measure heads on the backbone below them; ``keep_states`` keeps its states of the sentences."""
    from structattn.backbones import evaluate_heads
    from structattn.backbones.relation_batches import RelationBatches, backbone_below
    from structattn.layers.evaluation_mode import evaluating

    backbone = backbone_below(backbone, layer.config)
    backbone.cached_states = {} if keep_states else None
    batches = RelationBatches(sentences, backbone, layer.config, batch_size=batch_size)
    batches.require("measure them by")
    with evaluating(batches.backbone):
        loss, reports = evaluate_heads(layer.heads, layer.config, batches.batches())
    return MeasuredHeads(batches, layer, loss, reports)


def _drift(pretrained: MeasuredHeads, tuned: MeasuredHeads) -> tuple[float, ...]:
    """The drift of each head, see ``head_drift``."""
    from structattn.backbones import head_drift
    from structattn.layers.evaluation_mode import evaluating

    if pretrained.layer.heads.num_heads != tuned.layer.heads.num_heads:
        raise ConfigError("hydra eval: the adapter and the run have different numbers of heads")
    if pretrained.batches.backbone.tokenizer.get_vocab() != tuned.batches.backbone.tokenizer.get_vocab():
        raise ConfigError("hydra eval: the backbones of the adapter and of the run have different vocabularies")
    with evaluating(pretrained.batches.backbone), evaluating(tuned.batches.backbone):
        return head_drift(
            (
                pretrained.layer.heads.scores(pretrained.batches.states(subwords)),
                tuned.layer.heads.scores(tuned.batches.states(subwords)),
                subwords.mask,
            )
            for subwords in pretrained.batches.subwords()
        )
