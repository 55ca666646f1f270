"""Plain functions under every layer: masked softmax and pooling, and feature-wise attention in little memory."""

from structattn.functional.masking import additive_mask, masked_max, masked_mean, masked_softmax, very_negative
from structattn.functional.token2token import token2token, token2token_weights

__all__ = [
    "additive_mask",
    "masked_max",
    "masked_mean",
    "masked_softmax",
    "token2token",
    "token2token_weights",
    "very_negative",
]
