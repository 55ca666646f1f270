"""The functions that the layers are built on: attention, masked softmax and pooling, accumulation over trees."""

from structattn.functional.hierarchical_accumulation import accumulate, hierarchical_accumulation
from structattn.functional.masked_attention import attention, masked_max, masked_mean, masked_softmax, masked_states
from structattn.functional.products import linear, take_rows
from structattn.functional.token2token import token2token, token2token_weights
from structattn.functional.tree_operator import TreeOperator

__all__ = [
    "TreeOperator",
    "accumulate",
    "attention",
    "hierarchical_accumulation",
    "linear",
    "masked_max",
    "masked_mean",
    "masked_softmax",
    "masked_states",
    "take_rows",
    "token2token",
    "token2token_weights",
]
