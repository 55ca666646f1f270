"""Feature-wise (token2token) attention between words, exact, without a tensor over all pairs of words and features.

Shen et al. 2018 (DiSAN), equation 10 in the form used inside a DiSA block. Scores are streamed: computed, used and
discarded, and recomputed in the backward pass (``kernels.token2token_operator``).
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.functional.masked_attention import masked_softmax
from structattn.functional.torch_state import at_least_single
from structattn.kernels.pair_tiles import (
    bend,
    exponentiate,
    find_highest,
    invert_,
    iterate_tiles,
    select_curve,
    tile_size,
)
from structattn.kernels.token2token_operator import attend


def token2token(
    a: Float[Tensor, "batch query feature"],
    b_keys: Float[Tensor, "batch key feature"],
    bias: Float[Tensor, " feature"],
    values: Float[Tensor, "batch key feature"],
    allowed: Bool[Tensor, "#batch query key"],
    scale: int | float = 5.0,
) -> Float[Tensor, "batch query feature"]:
    r"""Multi-dimensional attention: every feature has its own distribution over the keys.

    ``l_ij = c tanh((a_i + b_j + bias) / c)``, ``P_ij = softmax_j(l_ij)`` over allowed keys, ``s_i = sum_j P_ij * v_j``;
    all of them vectors over features (Shen et al. 2018, directional self-attention, where ``i`` is the key;
    here ``i`` is the query). A query without any allowed key gets zero and passes no gradient.

    Memory beyond the arguments is linear in the number of words. Half precision is computed in single precision.
    Gradients are exact; gradients of gradients raise an error. The values of keys that no query may attend to have no
    influence, as long as they are finite.

    Args:
        a: the queries' part of the score.
        b_keys: the keys' part of the score.
        bias: added to every score.
        values: what is averaged.
        allowed: ``True`` where a query may attend to a key; the same for the whole batch if its first axis is 1.
        scale: the bound ``c`` of the scores.

    Raises:
        ValueError: if ``scale`` is not a positive number, or the shapes disagree.

    Example:
        >>> states = torch.tensor([[[1.0], [2.0], [3.0]]])
        >>> strictly_forward = torch.ones(1, 3, 3, dtype=torch.bool).tril(-1)
        >>> nothing = torch.zeros(1, 3, 1)
        >>> token2token(nothing, nothing, torch.zeros(1), states, strictly_forward)
        tensor([[[0.0000],
                 [1.0000],
                 [1.5000]]])
    """
    _check(a, b_keys, bias, values=values, allowed=allowed, scale=scale)
    queries, keys = at_least_single(a) + at_least_single(bias), at_least_single(b_keys)
    return attend(queries, keys, at_least_single(values), allowed, float(scale)).to(values.dtype)


@torch.no_grad()
def token2token_weights(
    a: Float[Tensor, "batch query feature"],
    b_keys: Float[Tensor, "batch key feature"],
    bias: Float[Tensor, " feature"],
    allowed: Bool[Tensor, "#batch query key"],
    scale: int | float = 5.0,
) -> Float[Tensor, "batch query key"]:
    """The weights of :func:`token2token`, averaged over features, for pictures; they carry no gradient.

    Args:
        a: the queries' part of the score.
        b_keys: the keys' part of the score.
        bias: added to every score.
        allowed: ``True`` where a query may attend to a key; the same for the whole batch if its first axis is 1.
        scale: the bound ``c`` of the scores.

    Returns:
        Rows that sum to one, or to zero where nothing is allowed.

    Raises:
        ValueError: if ``scale`` is not a positive number, or the shapes disagree.

    Example:
        >>> nothing = torch.zeros(1, 2, 1)
        >>> token2token_weights(nothing, nothing, torch.zeros(1), torch.tensor([[[True, True], [False, False]]]))
        tensor([[[0.5000, 0.5000],
                 [0.0000, 0.0000]]])
    """
    _check(a, b_keys, bias, values=b_keys, allowed=allowed, scale=scale)
    queries, keys = at_least_single(a) + at_least_single(bias), at_least_single(b_keys)
    weights: Tensor = _weights(queries, keys, allowed, float(scale))
    return weights.to(a.dtype)


@torch.library.custom_op("structattn::token2token_weights", mutates_args=())
def _weights(queries: Tensor, keys: Tensor, allowed: Tensor, scale: float) -> Tensor:
    """One node of a graph, because tiles do not depend on shapes alone."""
    curve = select_curve(scale)
    memory = queries.new_empty(tile_size(queries, keys))
    highest, total = find_highest(queries, keys, allowed, curve=curve), torch.zeros_like(queries)
    for tile in iterate_tiles(queries, keys, allowed):
        bent = bend(tile, queries, keys, curve=curve, memory=memory)
        total[tile.sentences, tile.queries] += exponentiate(bent, tile, curve, highest=highest, out=bent).sum(1)
    inverse = invert_(total)
    weights = queries.new_zeros(len(queries), queries.shape[1], keys.shape[1])
    for tile in iterate_tiles(queries, keys, allowed):
        bent = bend(tile, queries, keys, curve=curve, memory=memory)
        shares = exponentiate(bent, tile, curve, highest=highest, out=bent)
        shares *= inverse[tile.sentences, None, tile.queries]
        weights[tile.sentences, tile.queries, tile.keys] = shares.mean(-1).transpose(1, 2)
    return weights


_weights.register_fake(
    lambda queries, keys, allowed, scale: queries.new_empty(queries.shape[0], queries.shape[1], keys.shape[1])
)


def write_out(
    queries: Float[Tensor, "batch query feature"],
    keys: Float[Tensor, "batch key feature"],
    values: Float[Tensor, "batch key feature"],
    allowed: Bool[Tensor, "#batch query key"],
    scale: float,
) -> Float[Tensor, "batch query feature"]:
    """`token2token` with a score for every pair and feature (the bias is part of the queries), without its kernel."""
    scores = scale * torch.tanh((queries.unsqueeze(2) + keys.unsqueeze(1)) / scale)
    return (masked_softmax(scores, allowed.unsqueeze(-1), dim=2) * values.unsqueeze(1)).sum(2)


def _check(a: Tensor, b_keys: Tensor, bias: Tensor, *, values: Tensor, allowed: Tensor, scale: float) -> None:
    if not 0.0 < scale < math.inf:
        raise ValueError(f"token2token expects a positive, finite scale, got {scale}")
    batch, queries, features = a.shape
    expected = (batch, b_keys.shape[1], features)
    if b_keys.shape != expected or values.shape != expected or bias.shape != (features,):
        raise ValueError(
            f"token2token expects keys and values of shape {expected} and a bias of shape {(features,)} beside "
            f"queries of shape {tuple(a.shape)}, got {tuple(b_keys.shape)}, {tuple(values.shape)}, {tuple(bias.shape)}"
        )
    pairs = (queries, b_keys.shape[1])
    if allowed.dim() != 3 or allowed.shape[0] not in (1, batch) or allowed.shape[1:] != pairs:
        raise ValueError(
            f"token2token expects allowed of shape (1 or {batch}, {pairs[0]}, {pairs[1]}), got {tuple(allowed.shape)}"
        )
