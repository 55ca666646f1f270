"""Tasks, the models that learn them, and the metrics of their predictions."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.tasks.answer_config import ClassifierConfig, DecoderConfig, Search
    from structattn.tasks.answering import Evaluation, Prediction
    from structattn.tasks.attachment import AttachmentModel
    from structattn.tasks.classifier import Classifier
    from structattn.tasks.counted_metrics import Sums
    from structattn.tasks.decoding import beam_search, build_decoder
    from structattn.tasks.metrics import METRICS, Metric, metric
    from structattn.tasks.sentence_model import SentenceModel
    from structattn.tasks.sequence_model import SequenceModel
    from structattn.tasks.tagging import TaggingModel
    from structattn.tasks.task import Task
    from structattn.tasks.task_batch import TaskBatch
    from structattn.tasks.task_model import ModelConfig, TaskModel
    from structattn.tasks.task_table import (
        ANSWERS,
        DECODERS,
        GENERATORS,
        SENTIMENT,
        TASKS,
        ModelKind,
        get_task,
        model_class,
    )
    from structattn.tasks.text_processor import TextProcessor

__all__ = [
    "ANSWERS",
    "DECODERS",
    "GENERATORS",
    "METRICS",
    "SENTIMENT",
    "TASKS",
    "AttachmentModel",
    "Classifier",
    "ClassifierConfig",
    "DecoderConfig",
    "Evaluation",
    "Metric",
    "ModelConfig",
    "ModelKind",
    "Prediction",
    "Search",
    "SentenceModel",
    "SequenceModel",
    "Sums",
    "TaggingModel",
    "Task",
    "TaskBatch",
    "TaskModel",
    "TextProcessor",
    "beam_search",
    "build_decoder",
    "get_task",
    "metric",
    "model_class",
]

load_lazily(__name__)
