"""Feature-wise attention between words (DiSAN): one program instance for a tile of queries, or keys, and features.

With ``y_ij = sigmoid(-2 (q_i + k_j) / c)`` a score is ``c tanh((q_i + k_j) / c) = c - 2 c y_ij``, so its exponential
needs no maximum: ``w_ij = exp(-2 c y_ij)`` and ``s_i = sum_j w_ij v_j / sum_j w_ij``. With ``g`` the gradient of ``s``
and ``p_ij = w_ij g_i / sum_j w_ij``, ``dv_j = sum_i p_ij``, and ``dq_i`` and ``dk_j`` are the sums over keys and
queries of ``4 p_ij (v_j - s_i) y_ij (1 - y_ij)``. One launch goes over the keys of each query and another over the
queries of each key, so that no two instances add to the same number; each recomputes the pairs.

Reference: Shen et al. (2018), DiSAN, equation 10.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from structattn.kernels.gpu.launch import OPTIONS
from structattn.kernels.programs import Scores, Tensors

# How many queries (or keys) and features are in a tile, and for how many keys (or queries) at a time the kernel checks
# whether any pair is allowed.
TILE = {"WORDS": 32, "FEATURES": 64, "BLOCK": 16}


@triton.jit
def _weights(query, key, allowed, STEEPNESS: tl.constexpr, HEIGHT: tl.constexpr):
    """``y`` and ``w``. Both parts are added first, so the result is exact for huge parts of opposite sign."""
    steepness = tl.full([1, 1], STEEPNESS, query.dtype)
    curved = 1.0 / (1.0 + tl.exp2((query + key) * steepness))
    return curved, tl.where(allowed, tl.exp2(curved * tl.full([1, 1], HEIGHT, query.dtype)), 0.0)


@triton.jit
def _words(WORDS: tl.constexpr):
    """The words of a tile: the second axis of the grid, down its rows."""
    return tl.program_id(1) * WORDS + tl.arange(0, WORDS)[:, None]


@triton.jit
def _features(FEATURES: tl.constexpr):
    """The features of a tile: the third axis of the grid, along its columns."""
    return tl.program_id(2) * FEATURES + tl.arange(0, FEATURES)[None, :]


# The pairs of a sentence are a tuple: its mask, the number of words of a tile's kind and their stride in the mask, and
# both of the words that they are paired with.
@triton.jit
def _are_allowed(pairs, word, partner):
    """Whether words, down the rows of a tile, may be paired with partners, one or several in a row."""
    allowed, num_words, stride, num_partners, partner_stride = pairs
    real = (word < num_words) & (partner < num_partners)
    return tl.load(allowed + word * stride + partner * partner_stride, mask=real, other=0) > 0


@triton.jit
def _is_any_allowed(pairs, word, first, BLOCK: tl.constexpr):
    """Whether any of some words may be paired with any of the next ``BLOCK`` partners."""
    allowed = _are_allowed(pairs, word, first + tl.arange(0, BLOCK)[None, :])
    return tl.max(tl.max(allowed.to(tl.int32), 1), 0) > 0


@triton.jit(do_not_specialize=["num_queries", "num_keys", "num_features", "allowed_stride"])
def attend_kernel(
    queries,  # (batch, query, feature), float32 or float64, like all but the mask
    keys,  # (batch, key, feature)
    values,  # (batch, key, feature)
    allowed,  # (batch or 1, query, key), uint8
    attended,  # written, shaped like the queries
    inverse,  # written, shaped like the queries; zero where nothing is allowed
    num_queries,  # of a sentence
    num_keys,  # of a sentence
    num_features,  # of a word
    allowed_stride,  # from a sentence to the next; zero where all have the same mask
    STEEPNESS: tl.constexpr,  # of the exponent of two in ``y``
    HEIGHT: tl.constexpr,  # of the exponent of two in ``w``
    WORDS: tl.constexpr,  # of a tile
    FEATURES: tl.constexpr,  # of a tile
    BLOCK: tl.constexpr,  # how many keys are skipped at a time where no pair is allowed
):
    """The attention outputs of queries, and the inverse of their sums of exponentials."""
    sentence = tl.program_id(0).to(tl.int64)
    query, feature = _words(WORDS), _features(FEATURES)
    real_feature = feature < num_features
    offset = (sentence * num_queries + query) * num_features + feature
    keys += sentence * num_keys * num_features
    values += sentence * num_keys * num_features
    pairs = (allowed + sentence * allowed_stride, num_queries, num_keys, num_keys, 1)
    of_query = tl.load(queries + offset, mask=(query < num_queries) & real_feature, other=0.0)
    total, weighted = tl.zeros_like(of_query), tl.zeros_like(of_query)
    for first in range(0, num_keys, BLOCK):
        if _is_any_allowed(pairs, query, first, BLOCK):
            for key in range(first, tl.minimum(first + BLOCK, num_keys)):
                key_offset = key * num_features + feature
                of_key = tl.load(keys + key_offset, mask=real_feature, other=0.0)
                _, weight = _weights(of_query, of_key, _are_allowed(pairs, query, key), STEEPNESS, HEIGHT)
                total += weight
                weighted += weight * tl.load(values + key_offset, mask=real_feature, other=0.0)
    inverted = tl.where(total > 0.0, 1.0 / tl.where(total > 0.0, total, 1.0), 0.0)
    tl.store(attended + offset, weighted * inverted, mask=(query < num_queries) & real_feature)
    tl.store(inverse + offset, inverted, mask=(query < num_queries) & real_feature)


@triton.jit
def _load_query(arrays, offset, mask):
    """For queries, their part of the scores, the gradient over the sum of exponentials, and the attention outputs."""
    queries, gradient, inverse, attended = arrays
    incoming = tl.load(gradient + offset, mask=mask, other=0.0) * tl.load(inverse + offset, mask=mask, other=0.0)
    return (tl.load(queries + offset, mask=mask, other=0.0), incoming, tl.load(attended + offset, mask=mask, other=0.0))


@triton.jit
def _load_key(arrays, offset, mask):
    """For keys, their part of the scores, and their values."""
    keys, values = arrays
    return (tl.load(keys + offset, mask=mask, other=0.0), tl.load(values + offset, mask=mask, other=0.0))


@triton.jit
def _terms(query, key, allowed, STEEPNESS: tl.constexpr, HEIGHT: tl.constexpr):
    """What pairs add to the gradients of the values, and to those of both parts of the scores except for a factor 4."""
    curved, weight = _weights(query[0], key[0], allowed, STEEPNESS, HEIGHT)
    share = weight * query[1]
    return share, share * (key[1] - query[2]) * (curved - curved * curved)


@triton.jit(do_not_specialize=["num_queries", "num_keys", "num_features", "allowed_stride"])
def gradients_kernel(
    queries,  # the first arguments, and all from ``num_queries`` on, are those of `attend_kernel`
    keys,
    values,
    allowed,
    attended,
    inverse,
    gradient,  # of the attention outputs
    of_parts,  # written, shaped like the queries, or like the keys
    of_values,  # written, shaped like the keys; or None for the gradient of the queries
    num_queries,
    num_keys,
    num_features,
    allowed_stride,
    STEEPNESS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WORDS: tl.constexpr,
    FEATURES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of the queries, or those of keys and values: a tile consists of queries, or of keys."""
    BY_KEY: tl.constexpr = of_values is not None
    sentence = tl.program_id(0).to(tl.int64)
    word, feature = _words(WORDS), _features(FEATURES)
    real_feature = feature < num_features
    at_queries, at_keys = sentence * num_queries * num_features, sentence * num_keys * num_features
    allowed += sentence * allowed_stride
    if BY_KEY:
        pairs, at_words = (allowed, num_keys, 1, num_queries, num_keys), at_keys
    else:
        pairs, at_words = (allowed, num_queries, num_keys, num_keys, 1), at_queries
    _, num_words, _, num_partners, _ = pairs
    of_queries, of_keys = (queries, gradient, inverse, attended), (keys, values)
    real = (word < num_words) & real_feature
    offset = at_words + word * num_features + feature
    of_word = _load_key(of_keys, offset, real) if BY_KEY else _load_query(of_queries, offset, real)
    sum_of_parts, sum_of_values = tl.zeros_like(of_word[0]), tl.zeros_like(of_word[0])
    for first in range(0, num_partners, BLOCK):
        if _is_any_allowed(pairs, word, first, BLOCK):
            for partner in range(first, tl.minimum(first + BLOCK, num_partners)):
                may_pair = _are_allowed(pairs, word, partner)
                partner_offset = partner * num_features + feature
                if BY_KEY:
                    of_partner = _load_query(of_queries, at_queries + partner_offset, real_feature)
                    share, change = _terms(of_partner, of_word, may_pair, STEEPNESS, HEIGHT)
                    sum_of_values += share
                else:
                    of_partner = _load_key(of_keys, at_keys + partner_offset, real_feature)
                    share, change = _terms(of_word, of_partner, may_pair, STEEPNESS, HEIGHT)
                sum_of_parts += change
    tl.store(of_parts + offset, sum_of_parts * 4.0, mask=real)
    if BY_KEY:
        tl.store(of_values + offset, sum_of_values, mask=real)


def attend(scores: Scores, lengths: None, inputs: Tensors, results: Tensors, scale: Sequence[float]) -> None:
    """Attention outputs and inverse sums of exponentials, from queries, keys, values and the allowed pairs."""
    _launch(attend_kernel, scores, inputs, results, by=scores[0], scale=scale[0])


def gradients(scores: Scores, lengths: None, inputs: Tensors, results: Tensors, scale: Sequence[float]) -> None:
    """Gradients of queries, keys and values, also from the results of `attend` and the gradient of its outputs."""
    of_queries, of_keys, of_values = results
    _launch(gradients_kernel, scores, inputs, [of_queries, None], by=scores[0], scale=scale[0])
    _launch(gradients_kernel, scores, inputs, [of_keys, of_values], by=scores[1], scale=scale[0])


def _launch(kernel: Any, scores: Scores, inputs: Tensors, results: Tensors, *, by: Tensor, scale: float) -> None:
    """One program instance for each sentence, some of its queries or keys, and some features."""
    queries, keys, _ = scores
    allowed, *further = (tensor.contiguous() for tensor in inputs if tensor is not None)
    batch, words, features = by.shape
    kernel[(batch, triton.cdiv(words, TILE["WORDS"]), triton.cdiv(features, TILE["FEATURES"]))](
        *scores,
        allowed.view(torch.uint8),
        *further,
        *results,
        queries.shape[1],
        keys.shape[1],
        features,
        allowed.stride(0) if len(allowed) > 1 else 0,
        STEEPNESS=2.0 / scale * math.log2(math.e),
        HEIGHT=-2.0 * scale * math.log2(math.e),
        **TILE,
        **OPTIONS,
    )
