"""Serve trained models over HTTP: predictions, trees and attention as JSON, computed in dynamic batches."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.serving.batching import Batcher, OverloadError
    from structattn.serving.server import ModelServer, reply_to
    from structattn.serving.service import ModelService

__all__ = ["Batcher", "ModelServer", "ModelService", "OverloadError", "reply_to"]

load_lazily(__name__)
