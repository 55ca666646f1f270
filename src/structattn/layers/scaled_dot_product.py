"""Scaled dot-product attention under a mask and a bias: the fused kernel, or an explicit form that returns the weights.

Self-attention over words, attention over trees and cross-attention all share it.

Reference: Vaswani et al. (2017), Attention is all you need, equation 1.
"""

import math
from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from structattn.functional import additive_mask, masked_softmax


def scaled_dot_product(
    queries: Float[Tensor, "batch head query channel"],
    keys: Float[Tensor, "batch head key channel"],
    values: Float[Tensor, "batch head key channel"],
    *,
    allowed: Bool[Tensor, "#batch #head #query #key"],
    bias: Float[Tensor, "#batch #head #query #key"] | None = None,
    dropout: float = 0.0,
    term: Callable[[Tensor], Tensor | None] | None = None,
    need_weights: bool = False,
) -> tuple[Float[Tensor, "batch head query channel"], Float[Tensor, "batch head query key"] | None]:
    """``softmax(Q K^T / sqrt(channels) + bias) V`` over the allowed keys; zero for a query that has none.

    Args:
        queries: one row for each query.
        keys: one row for each key.
        values: one row for each key.
        allowed: ``True`` where a query may attend to a key.
        bias: added to the scores.
        dropout: share of the weights that is dropped; 0 outside of training.
        term: from the weights after dropout, what is added to the result (relative values); it costs the fused kernel.
        need_weights: also return the weights, before dropout.

    Example:
        >>> import torch
        >>> states, allowed = torch.ones(1, 1, 2, 4), torch.tensor([[[[True, False], [False, False]]]])
        >>> heads, weights = scaled_dot_product(states, states, states, allowed=allowed, need_weights=True)
        >>> heads[0, 0, :, 0].tolist(), weights[0, 0].tolist()
        ([1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])
    """
    if need_weights or term is not None:
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
        weights = masked_softmax(scores if bias is None else scores + bias.to(scores.dtype), allowed)
        dropped = F.dropout(weights, dropout)
        heads, more = dropped @ values, None if term is None else term(dropped)
        return heads if more is None else heads + more, weights if need_weights else None
    mask = additive_mask(allowed, bias, queries.dtype)
    heads = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout)
    # The kernel makes a row without any allowed key uniform.
    return heads.masked_fill(~allowed.any(-1, keepdim=True), 0.0), None
