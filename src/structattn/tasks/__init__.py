"""Tasks, the models that learn them, and the metrics of their predictions."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.tasks.answer_config import COMBINATIONS, ClassifierConfig, DecoderConfig, Search, combine
    from structattn.tasks.answering import Evaluation, Prediction, num_words
    from structattn.tasks.attachment import AttachmentModel
    from structattn.tasks.classifier import Classifier, TagChain, expected_scores, score_targets
    from structattn.tasks.counted_metrics import Sums
    from structattn.tasks.decoding import Decoder, beam_search, build_decoder, greedy_search
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
    from structattn.tasks.sentence_model import SentenceModel
    from structattn.tasks.sequence_model import SequenceBatch, SequenceModel
    from structattn.tasks.tagging import TagBatch, TaggingModel
    from structattn.tasks.task import Task
    from structattn.tasks.task_batch import TaskBatch
    from structattn.tasks.task_model import ModelConfig, TaskModel, TreeFinder
    from structattn.tasks.task_table import (
        ANSWERS,
        CLASSIFICATION,
        DECODERS,
        GENERATORS,
        PAIR_CLASSIFICATION,
        SENTIMENT,
        TASKS,
        ModelKind,
        get_task,
        model_class,
    )
    from structattn.tasks.text_processor import TextProcessor
    from structattn.tasks.transformer_decoder import TransformerDecoder

__all__ = [
    "ANSWERS",
    "CLASSIFICATION",
    "COMBINATIONS",
    "DECODERS",
    "GENERATORS",
    "METRICS",
    "PAIR_CLASSIFICATION",
    "SENTIMENT",
    "TASKS",
    "AttachmentModel",
    "Classifier",
    "ClassifierConfig",
    "Decoder",
    "DecoderConfig",
    "Evaluation",
    "LSTMDecoder",
    "Metric",
    "ModelConfig",
    "ModelKind",
    "Prediction",
    "Search",
    "SentenceModel",
    "SequenceBatch",
    "SequenceModel",
    "Sums",
    "TagBatch",
    "TagChain",
    "TaggingModel",
    "Task",
    "TaskBatch",
    "TaskModel",
    "TextProcessor",
    "TransformerDecoder",
    "TreeFinder",
    "accuracy",
    "beam_search",
    "build_decoder",
    "combine",
    "expected_scores",
    "get_task",
    "greedy_search",
    "macro_f1",
    "matthews",
    "mean_squared_error",
    "metric",
    "model_class",
    "num_words",
    "pearson",
    "score_targets",
    "spearman",
]

load_lazily(__name__)
