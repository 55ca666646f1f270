"""Structure inside Hugging Face backbones: HYDRA heads, priors in the backbone's own heads, states as embeddings."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.backbones.adapter import heads_config
    from structattn.backbones.backbone import PretrainedBackbone, max_input_length
    from structattn.backbones.backbone_embedding import BackboneEmbedding, pool_words, text_state
    from structattn.backbones.backbone_files import load_backbone
    from structattn.backbones.head_evaluation import evaluate_heads, head_drift, heads_loss
    from structattn.backbones.hydra import HydraModel, add_heads
    from structattn.backbones.hydra_config import HydraConfig
    from structattn.backbones.hydra_layer import HydraLayer
    from structattn.backbones.inject import inject
    from structattn.backbones.injection_folder import load_injection
    from structattn.backbones.relation_heads import RelationHeads, relation_loss
    from structattn.backbones.relation_targets import relation_targets
    from structattn.backbones.task_models import (
        HydraModelForQuestionAnswering,
        HydraModelForSequenceClassification,
        HydraModelForTokenClassification,
    )
    from structattn.backbones.word_scoring import word_surprisals

__all__ = [
    "BackboneEmbedding",
    "HydraConfig",
    "HydraLayer",
    "HydraModel",
    "HydraModelForQuestionAnswering",
    "HydraModelForSequenceClassification",
    "HydraModelForTokenClassification",
    "PretrainedBackbone",
    "RelationHeads",
    "add_heads",
    "evaluate_heads",
    "head_drift",
    "heads_config",
    "heads_loss",
    "inject",
    "load_backbone",
    "load_injection",
    "max_input_length",
    "pool_words",
    "relation_loss",
    "relation_targets",
    "text_state",
    "word_surprisals",
]

load_lazily(__name__)
