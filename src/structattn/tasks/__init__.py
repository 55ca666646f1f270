"""What is asked of an encoder: tasks, the model that answers them, and the metrics that judge the answers."""

from structattn.tasks.batch import TaskBatch
from structattn.tasks.classifier import Classifier, expected_scores, score_targets
from structattn.tasks.combine import COMBINATIONS, combine
from structattn.tasks.metrics import (
    METRICS,
    Metric,
    accuracy,
    macro_f1,
    matthews,
    mean_squared_error,
    metric,
    pearson,
    spearman,
)
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.sentence_model import SentenceModel, num_words
from structattn.tasks.table import CLASSIFICATION, PAIR_CLASSIFICATION, SENTIMENT, TASKS, get_task
from structattn.tasks.task import Task

__all__ = [
    "CLASSIFICATION",
    "COMBINATIONS",
    "METRICS",
    "PAIR_CLASSIFICATION",
    "SENTIMENT",
    "TASKS",
    "Classifier",
    "Evaluation",
    "Metric",
    "Prediction",
    "SentenceModel",
    "Task",
    "TaskBatch",
    "accuracy",
    "combine",
    "expected_scores",
    "get_task",
    "macro_f1",
    "matthews",
    "mean_squared_error",
    "metric",
    "num_words",
    "pearson",
    "score_targets",
    "spearman",
]
