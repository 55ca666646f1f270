"""Models by name for tests: an encoder of a few options under a task."""

from collections.abc import Mapping, Sequence
from typing import Any

from structattn.data import Vocabulary
from structattn.tasks import AttachmentModel, ModelConfig, SentenceModel, Task


def sentence_model(
    encoder: str,
    task: Task,
    *,
    vocabulary: Vocabulary,
    labels: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    embedder: Mapping[str, Any] | None = None,
    **parts: Any,
) -> SentenceModel:
    """A fresh sentence model; ``parts`` are further arguments of ``SentenceModel``."""
    built = ModelConfig(encoder, options or {}, embedder or {}).build_encoder(vocabulary)
    return SentenceModel(built, task, labels, vocabulary=vocabulary, **parts)


def attachment_model(
    encoder: str, task: Task, *, vocabulary: Vocabulary, options: Mapping[str, Any] | None = None
) -> AttachmentModel:
    """A fresh model that answers with trees."""
    built = ModelConfig(encoder, options or {}).build_encoder(vocabulary)
    return AttachmentModel(built, task, vocabulary=vocabulary)
