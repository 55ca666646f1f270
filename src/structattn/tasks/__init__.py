"""Tasks, the models that learn them, and the metrics of their predictions."""

from structattn.tasks.attachment import AttachmentModel
from structattn.tasks.batch import TaskBatch
from structattn.tasks.classifier import Classifier, expected_scores, score_targets
from structattn.tasks.combine import COMBINATIONS, combine
from structattn.tasks.decoder import DECODERS, Decoder, build_decoder
from structattn.tasks.fact_models import FACT_MODELS, build_fact_model
from structattn.tasks.fact_reader import FactBatch
from structattn.tasks.fact_selection import FactModel
from structattn.tasks.lstm_decoder import LSTMDecoder
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
from structattn.tasks.model import TaskModel
from structattn.tasks.prediction import Evaluation, Prediction
from structattn.tasks.search import beam_search, greedy_search
from structattn.tasks.sentence_model import SentenceModel, num_words
from structattn.tasks.sequence_model import Search, SequenceBatch, SequenceModel, TextProcessor
from structattn.tasks.table import CLASSIFICATION, PAIR_CLASSIFICATION, SENTIMENT, TASKS, get_task
from structattn.tasks.task import Task
from structattn.tasks.transformer_decoder import TransformerDecoder

__all__ = [
    "CLASSIFICATION",
    "COMBINATIONS",
    "DECODERS",
    "FACT_MODELS",
    "METRICS",
    "PAIR_CLASSIFICATION",
    "SENTIMENT",
    "TASKS",
    "AttachmentModel",
    "Classifier",
    "Decoder",
    "Evaluation",
    "FactBatch",
    "FactModel",
    "LSTMDecoder",
    "Metric",
    "Prediction",
    "Search",
    "SentenceModel",
    "SequenceBatch",
    "SequenceModel",
    "Task",
    "TaskBatch",
    "TaskModel",
    "TextProcessor",
    "TransformerDecoder",
    "accuracy",
    "beam_search",
    "build_decoder",
    "build_fact_model",
    "combine",
    "expected_scores",
    "get_task",
    "greedy_search",
    "macro_f1",
    "matthews",
    "mean_squared_error",
    "metric",
    "num_words",
    "pearson",
    "score_targets",
    "spearman",
]
