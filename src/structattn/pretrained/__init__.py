"""Structure inside Hugging Face backbones: HYDRA heads, priors in the backbone's own heads, states as embeddings."""

from typing import TYPE_CHECKING

from structattn.encoders.table import BUILDERS
from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.layers import BackboneEmbedding, PretrainedBackbone
    from structattn.layers.backbone_embedding import text_state
    from structattn.pretrained.config import HydraConfig
    from structattn.pretrained.controls import with_other_trees
    from structattn.pretrained.drift import head_drift
    from structattn.pretrained.evaluation import RelationReport, evaluate_heads
    from structattn.pretrained.hydra import HydraModel, add_heads
    from structattn.pretrained.inject import inject, load_injection
    from structattn.pretrained.injection import InjectedModel
    from structattn.pretrained.layer import HydraLayer
    from structattn.pretrained.question_answering import (
        Question,
        Windows,
        answer_questions,
        answer_scores,
        make_windows,
        squad_scores,
    )
    from structattn.pretrained.relations import RelationTargets, relation_targets
    from structattn.pretrained.task_models import (
        MODELS,
        HydraModelForQuestionAnswering,
        HydraModelForSequenceClassification,
        HydraModelForTokenClassification,
    )

# Encoders by name, of this package: their files are imported when one is built.
BUILDERS.add(
    {
        "hydra": "structattn.pretrained.encoder:hydra",
        "injected": "structattn.pretrained.guided:injected",
        "sgnet": "structattn.pretrained.guided:sgnet",
    }
)

__all__ = [
    "MODELS",
    "BackboneEmbedding",
    "HydraConfig",
    "HydraLayer",
    "HydraModel",
    "HydraModelForQuestionAnswering",
    "HydraModelForSequenceClassification",
    "HydraModelForTokenClassification",
    "InjectedModel",
    "PretrainedBackbone",
    "Question",
    "RelationReport",
    "RelationTargets",
    "Windows",
    "add_heads",
    "answer_questions",
    "answer_scores",
    "evaluate_heads",
    "head_drift",
    "inject",
    "load_injection",
    "make_windows",
    "relation_targets",
    "squad_scores",
    "text_state",
    "with_other_trees",
]

load_lazily(__name__)
