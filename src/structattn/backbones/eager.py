"""Attention weights of a backbone, which not every implementation of attention computes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOGGER = logging.getLogger("structattn.backbones")


@contextmanager
def computing_weights(model: Any) -> Iterator[None]:
    """Inside, a transformers model computes attention weights: it runs ``eager``, and logs so if it did not before.

    Under ``sdpa`` a model asked for its attentions returns none, without an error (transformers 5).
    """
    before = model.config._attn_implementation
    if before == "eager":
        yield
        return
    LOGGER.info("attention weights: running eager instead of %s, which does not return them", before)
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
