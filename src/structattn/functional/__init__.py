"""The functions that the layers are built on: attention, masked softmax and pooling, accumulation over trees."""

from structattn.functional.hierarchical_accumulation import accumulate, hierarchical_accumulation
from structattn.functional.masked_attention import attention, masked_softmax
from structattn.functional.products import linear
from structattn.functional.token2token import token2token, token2token_weights
from structattn.functional.tree_operator import TreeOperator

__all__ = [
    "TreeOperator",
    "accumulate",
    "attention",
    "hierarchical_accumulation",
    "linear",
    "masked_softmax",
    "token2token",
    "token2token_weights",
]
