"""Training: runs and their folders, saved models, comparisons of runs.

Loading a trained model or comparing runs needs no transformers; it is imported where a pretrained backbone is read, or
where one of the two Hugging Face classes is requested.
"""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.training.comparison import Comparison, Difference, Flip, Group, compare
    from structattn.training.distributed import is_first_process
    from structattn.training.examples import read_run_examples
    from structattn.training.execution import carry_out
    from structattn.training.heads import Pretraining, pretrain, pretrain_heads
    from structattn.training.heads_config import PretrainingConfig
    from structattn.training.hugging_face import StructAttnConfig, StructAttnForSequenceClassification
    from structattn.training.in_memory import evaluate, predict, train
    from structattn.training.loop import Learner, Measured, fit
    from structattn.training.models import load, load_task_model
    from structattn.training.optimization_config import OptimizationConfig, RunSettings
    from structattn.training.parser import ParserResult, train_parser
    from structattn.training.parser_config import ParserConfig
    from structattn.training.pooled_comparison import Pooled, PooledDifference, holm, pool
    from structattn.training.preparation import count_parameters
    from structattn.training.run import resume, run
    from structattn.training.run_config import DataConfig, RunConfig, load_config, save_config
    from structattn.training.run_folder import RunFolder, RunResult
    from structattn.training.sampler import batch_sampler
    from structattn.training.significance import (
        Answers,
        Significance,
        bootstrap_family,
        bootstrap_pooled,
        compare_answers,
        compare_pooled,
    )
    from structattn.training.study import Trial, read_space, sweep

__all__ = [
    "Answers",
    "Comparison",
    "DataConfig",
    "Difference",
    "Flip",
    "Group",
    "Learner",
    "Measured",
    "OptimizationConfig",
    "ParserConfig",
    "ParserResult",
    "Pooled",
    "PooledDifference",
    "Pretraining",
    "PretrainingConfig",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "RunSettings",
    "Significance",
    "StructAttnConfig",
    "StructAttnForSequenceClassification",
    "Trial",
    "batch_sampler",
    "bootstrap_family",
    "bootstrap_pooled",
    "carry_out",
    "compare",
    "compare_answers",
    "compare_pooled",
    "count_parameters",
    "evaluate",
    "fit",
    "holm",
    "is_first_process",
    "load",
    "load_config",
    "load_task_model",
    "pool",
    "predict",
    "pretrain",
    "pretrain_heads",
    "read_run_examples",
    "read_space",
    "resume",
    "run",
    "save_config",
    "sweep",
    "train",
    "train_parser",
]

load_lazily(__name__)
