"""Scaled dot-product attention under a mask and a bias: the fused kernel, or an explicit form that returns the weights.

Reference: Vaswani et al. (2017), Attention is all you need, equation 1.
"""

import math
from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from structattn.functional.masking import additive_mask, masked_softmax


def attention(
    queries: Float[Tensor, "*batch query channel"],
    keys: Float[Tensor, "*batch key channel"],
    values: Float[Tensor, "*batch key value"],
    allowed: Bool[Tensor, "... #query #key"] | None = None,
    bias: Float[Tensor, "... #query #key"] | None = None,
    *,
    dropout: float = 0.0,
    need_weights: bool = False,
    term: Callable[[Tensor], Tensor | None] | None = None,
) -> tuple[Float[Tensor, "*batch query value"], Float[Tensor, "*batch query key"] | None]:
    r"""``softmax(Q K^T / sqrt(channels) + bias) V`` over the allowed keys; zero for a query that has none.

    Vaswani et al. (2017), equation 1, with an attention bias as in MS-SAN (Qi et al. 2020): the output of a prior,
    ``value = prior(batch)``, is passed as ``attention(q, k, v, value.allowed, value.bias)``.

    Args:
        queries: one row for each query, usually ``(batch, head, query, channel)``.
        keys: one row for each key.
        values: one row for each key; keys and values must be finite even where no query may attend.
        allowed: ``True`` where a query may attend to a key; everywhere if ``None``. Broadcast.
        bias: added to the scores; ``-inf`` also forbids a key; nothing is added if ``None``. Broadcast.
        dropout: share of the weights that is dropped; 0 outside of training.
        need_weights: also return the weights, before dropout; without them the fused kernel of torch is called.
        term: computes a term from the weights after dropout that is added to the result (relative values); the fused
            kernel is then not used.

    Returns:
        The output for each query, and the weights or ``None``.

    Example:
        >>> import torch
        >>> states, allowed = torch.ones(1, 2, 4), torch.tensor([[True, False], [False, False]])
        >>> attended, weights = attention(states, states, states, allowed, need_weights=True)
        >>> attended[0, :, 0].tolist(), weights[0].tolist()
        ([1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])
    """
    is_explicit = need_weights or term is not None
    if bias is not None and (is_explicit or allowed is not None):
        possible = bias != -math.inf
        allowed = possible if allowed is None else allowed & possible
    if is_explicit:
        # Scale before multiplying: half precision would overflow in between.
        scores = (queries / math.sqrt(queries.shape[-1])) @ keys.mT
        scores = scores if bias is None else scores + bias.to(scores.dtype)
        weights = scores.softmax(-1) if allowed is None else masked_softmax(scores, allowed)
        dropped = F.dropout(weights, dropout)
        attended, more = dropped @ values, None if term is None else term(dropped)
        return attended if more is None else attended + more, weights if need_weights else None
    if allowed is None:
        mask = additive_mask(None, bias, queries.dtype)
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout), None
    # A query without any allowed key attends to all of them here, and gets zero below. A row of very negative numbers
    # would have a very negative log-sum-exp, from which cuDNN can compute NaN gradients:
    # https://github.com/pytorch/pytorch/issues/196678.
    has_none = ~allowed.any(-1, keepdim=True)
    mask = additive_mask(allowed | has_none, bias, queries.dtype)
    attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout)
    return attended.masked_fill(has_none, 0.0), None
