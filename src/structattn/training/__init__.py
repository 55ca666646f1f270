"""Training: runs and their folders, saved models, comparisons of runs.

Loading a trained model or comparing runs needs no transformers; it is imported where a pretrained backbone is read, or
where one of the two Hugging Face classes is requested.
"""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.training.calibrate_run import calibrate
    from structattn.training.comparison import compare
    from structattn.training.distributed import is_first_process
    from structattn.training.heads import Pretraining, pretrain_heads
    from structattn.training.heads_config import PretrainingConfig
    from structattn.training.hugging_face import StructAttnForSequenceClassification
    from structattn.training.in_memory import evaluate, predict, train
    from structattn.training.loop import Learner, Measured, fit
    from structattn.training.models import load
    from structattn.training.optimization_config import OptimizationConfig
    from structattn.training.parser import train_parser
    from structattn.training.parser_config import ParserConfig
    from structattn.training.pooled_comparison import holm, pool
    from structattn.training.run import resume, run
    from structattn.training.run_config import DataConfig, RunConfig, load_config
    from structattn.training.run_folder import RunFolder, RunResult
    from structattn.training.significance import Answers, Significance, bootstrap_family, compare_pooled
    from structattn.training.study import sweep

__all__ = [
    "Answers",
    "DataConfig",
    "Learner",
    "Measured",
    "OptimizationConfig",
    "ParserConfig",
    "Pretraining",
    "PretrainingConfig",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "Significance",
    "StructAttnForSequenceClassification",
    "bootstrap_family",
    "calibrate",
    "compare",
    "compare_pooled",
    "evaluate",
    "fit",
    "holm",
    "is_first_process",
    "load",
    "load_config",
    "pool",
    "predict",
    "pretrain_heads",
    "resume",
    "run",
    "sweep",
    "train",
    "train_parser",
]

load_lazily(__name__)
