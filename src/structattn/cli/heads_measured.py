"""HYDRA heads measured on a treebank, for ``structattn hydra eval``."""

from typing import NamedTuple

from structattn.backbones import HydraLayer, PretrainedBackbone, RelationReport, evaluate_heads, head_drift
from structattn.backbones.relation_batches import RelationBatches, backbone_below
from structattn.errors import ConfigError
from structattn.layers.evaluation_mode import evaluating
from structattn.syntax import Sentence


class Measured(NamedTuple):
    """Heads, the states that they read, and how well they score their relations."""

    batches: RelationBatches
    layer: HydraLayer
    loss: float
    reports: dict[str, RelationReport]


def measure(
    backbone: PretrainedBackbone, layer: HydraLayer, sentences: list[Sentence], *, batch_size: int, keep_states: bool
) -> Measured:
    """Measure heads on the backbone below them; ``keep_states`` keeps its states of the sentences."""
    backbone = backbone_below(backbone, layer.config)
    backbone.cached_states = {} if keep_states else None
    batches = RelationBatches(sentences, backbone, layer.config, batch_size=batch_size)
    batches.require("measure them by")
    with evaluating(batches.backbone):
        loss, reports = evaluate_heads(layer.heads, layer.config, batches.batches())
    return Measured(batches, layer, loss, reports)


def drift_between(before: Measured, after: Measured) -> tuple[float, ...]:
    """The drift of each head, see `head_drift`.

    Raises:
        ConfigError: if the two have different numbers of heads, or backbones of different vocabularies.
    """
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
