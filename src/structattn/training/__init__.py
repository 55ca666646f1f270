"""Training: runs and their folders, trained models on disk, comparisons of runs.

Loading a trained model or comparing runs needs no transformers; it is loaded where a run starts, or where one of the
two Hugging Face classes is asked for.
"""

from typing import TYPE_CHECKING, Any

from structattn.training.checkpoint import load, save
from structattn.training.compare import Comparison, Difference, Flip, Group, compare
from structattn.training.config import RunConfig, dump_config, load_config
from structattn.training.config_parts import ClassifierConfig, DataConfig, DecoderConfig, OptimizationConfig
from structattn.training.cross_validation import cross_validate
from structattn.training.folder import RunFolder
from structattn.training.preparation import count_parameters
from structattn.training.processes import is_first as is_first_process
from structattn.training.run import RunResult, resume, run
from structattn.training.significance import Significance, compare_answers
from structattn.training.trained_model import TrainedModel, build_model

if TYPE_CHECKING:
    from structattn.training.hugging_face import StructAttnConfig, StructAttnForSequenceClassification

__all__ = [
    "ClassifierConfig",
    "Comparison",
    "DataConfig",
    "DecoderConfig",
    "Difference",
    "Flip",
    "Group",
    "OptimizationConfig",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "Significance",
    "StructAttnConfig",
    "StructAttnForSequenceClassification",
    "TrainedModel",
    "build_model",
    "compare",
    "compare_answers",
    "count_parameters",
    "cross_validate",
    "dump_config",
    "is_first_process",
    "load",
    "load_config",
    "resume",
    "run",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in ("StructAttnConfig", "StructAttnForSequenceClassification"):
        from structattn.training import hugging_face

        return getattr(hugging_face, name)
    raise AttributeError(f"module 'structattn.training' has no attribute {name!r}")
