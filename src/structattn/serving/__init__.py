"""Serve trained models over HTTP: predictions, trees and attention as JSON, computed in dynamic batches."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.serving.dynamic_batching import OverloadError
    from structattn.serving.model_server import ModelServer, ModelService, reply_to

__all__ = ["ModelServer", "ModelService", "OverloadError", "reply_to"]

load_lazily(__name__)
