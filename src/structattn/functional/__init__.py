"""The functions that the layers are built on: attention, masked softmax and pooling, accumulation over trees."""

from structattn.functional.attention import attention
from structattn.functional.graphs import is_exporting
from structattn.functional.hierarchical_accumulation import accumulate, hierarchical_accumulation
from structattn.functional.masking import (
    additive_mask,
    masked_max,
    masked_mean,
    masked_softmax,
    masked_states,
    very_negative,
)
from structattn.functional.products import linear
from structattn.functional.rows import take_rows
from structattn.functional.shapes import round_down, round_up
from structattn.functional.sparse import SparseMatrix
from structattn.functional.threads import one_thread
from structattn.functional.token2token import token2token, token2token_weights
from structattn.functional.tree_operator import TreeOperator

__all__ = [
    "SparseMatrix",
    "TreeOperator",
    "accumulate",
    "additive_mask",
    "attention",
    "hierarchical_accumulation",
    "is_exporting",
    "linear",
    "masked_max",
    "masked_mean",
    "masked_softmax",
    "masked_states",
    "one_thread",
    "round_down",
    "round_up",
    "take_rows",
    "token2token",
    "token2token_weights",
    "very_negative",
]
