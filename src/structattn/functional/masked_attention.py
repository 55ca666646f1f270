"""Attention, softmax, mean and maximum over unmasked entries only, and the additive form of a mask.

Where nothing is allowed the result is zero, with zero gradient: never NaN and never uniform.

Reference: Vaswani et al. (2017), Attention is all you need, equation 1.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F


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


def masked_softmax(scores: Float[Tensor, "..."], allowed: Bool[Tensor, "..."], dim: int = -1) -> Float[Tensor, "..."]:
    r"""Softmax over the allowed entries.

    ``weights[i] = allowed[i] exp(scores[i]) / sum_j allowed[j] exp(scores[j])``, and zero where nothing is allowed.

    Args:
        scores: any shape; forbidden entries have no influence, as long as they are not NaN.
        allowed: broadcastable to ``scores``; ``True`` is allowed.
        dim: the axis that is normalised.

    Example:
        >>> scores = torch.zeros(2, 2)
        >>> masked_softmax(scores, torch.tensor([[True, False], [False, False]]))
        tensor([[1., 0.],
                [0., 0.]])
    """
    forbidden = ~allowed
    # A finite filling keeps rows without any allowed entry finite; the second filling makes them zero.
    weights = scores.masked_fill(forbidden, very_negative(scores.dtype)).softmax(dim)
    return weights.masked_fill(forbidden, 0.0)


def masked_states(
    states: Float[Tensor, "*batch node dim"], mask: Bool[Tensor, "*batch node"]
) -> Float[Tensor, "*batch node dim"]:
    """The states with zeros at padding, broadcast; every layer that takes a mask calls this first.

    ``0 * nan`` is ``nan``, in a weighted sum as in the gradient of a linear map."""
    # Two to three times as fast as `masked_fill`, which copies first.
    return torch.where(mask.unsqueeze(-1), states, 0.0)


def masked_mean(
    states: Float[Tensor, "*batch node dim"], mask: Bool[Tensor, "*batch node"]
) -> Float[Tensor, "*batch dim"]:
    """Mean of the real states; zero if there is none. Half precision is summed in single precision."""
    count = mask.sum(-1, keepdim=True).clamp(min=1)
    wide = torch.promote_types(states.dtype, torch.float32)
    return (masked_states(states, mask).sum(-2, dtype=wide) / count).to(states.dtype)


def masked_max(
    states: Float[Tensor, "*batch node dim"], mask: Bool[Tensor, "*batch node"]
) -> Float[Tensor, "*batch dim"]:
    """Largest value of each feature among the real states; zero if there is none."""
    if not states.shape[-2]:
        return states.sum(-2)  # zeros; a maximum of nothing is an error
    largest = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(-2)
    return largest.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def additive_mask(
    allowed: Bool[Tensor, "..."] | None, bias: Float[Tensor, "..."] | None, dtype: torch.dtype
) -> Float[Tensor, "..."] | None:
    """What to add to attention scores: the bias where allowed, a very negative number elsewhere; None for nothing.

    A row with nothing allowed becomes uniform under a softmax, so the caller must zero such rows afterwards.
    """
    if bias is not None:
        bias = bias.to(dtype)
        return bias if allowed is None else torch.where(allowed, bias, very_negative(dtype))
    if allowed is None:
        return None
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, very_negative(dtype))


def very_negative(dtype: torch.dtype) -> float:
    """Half the lowest finite number: its exponential is zero, and adding an ordinary score does not overflow."""
    return torch.finfo(dtype).min / 2
