"""Structure inside Hugging Face bodies: HYDRA heads on top of them, priors in their own heads, bodies as embedders."""

from structattn.layers import BodyEmbedding, PretrainedBody
from structattn.pretrained.config import HydraConfig
from structattn.pretrained.evaluation import RelationReport, evaluate_heads
from structattn.pretrained.hydra import HydraModel, add_heads
from structattn.pretrained.inject import inject, load_injection
from structattn.pretrained.injection import InjectedModel
from structattn.pretrained.layer import HydraLayer
from structattn.pretrained.pretraining import Pretraining, PretrainingConfig, pretrain, with_other_trees
from structattn.pretrained.relation_names import parse_relation
from structattn.pretrained.relations import RelationTargets, relation_targets, word_relation

__all__ = [
    "BodyEmbedding",
    "HydraConfig",
    "HydraLayer",
    "HydraModel",
    "InjectedModel",
    "PretrainedBody",
    "Pretraining",
    "PretrainingConfig",
    "RelationReport",
    "RelationTargets",
    "add_heads",
    "evaluate_heads",
    "inject",
    "load_injection",
    "parse_relation",
    "pretrain",
    "relation_targets",
    "with_other_trees",
    "word_relation",
]
