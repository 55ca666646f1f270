"""Attention in a few numbers per head: its mean distance, its entropy, how often it finds the syntactic head."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.layers.attention_map import AttentionMap
from structattn.syntax import DependencyTree


def attention_distance(
    attention_map: AttentionMap, distances: Sequence[Sequence[int | float]] | Tensor | None = None
) -> Float[Tensor, " head"]:
    r"""The mean attention distance of each head: the mean over its queries of ``sum_j P_ij d_ij / sum_j P_ij``.

    Args:
        attention_map: weights between the words of a sentence.
        distances: ``d``, for example ``DependencyTree.distances()``; by default ``|i - j|``.

    Returns:
        One number per head. Queries that attend to nothing do not count; a head without any other query gets NaN.

    Raises:
        ValueError: if the distances have another shape than the weights.

    Example:
        >>> weights = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]])
        >>> words = ("a", "b", "c")
        >>> attention_distance(AttentionMap("x", words, words, weights, "attention", ("h",)))
        tensor([1.1667])
    """
    weights = attention_map.weights
    _, num_queries, num_keys = weights.shape
    if distances is None:
        table = (torch.arange(num_queries)[:, None] - torch.arange(num_keys)).abs().float()
    else:
        table = torch.as_tensor(distances, dtype=weights.dtype)
        table = table if len(table) else table.reshape(0, num_keys)  # a list without rows has no columns either
    if table.shape != weights.shape[1:]:
        shapes = f"got {tuple(table.shape)} for {num_queries} queries and {num_keys} keys"
        raise ValueError(f"{attention_map.name}: expected one distance for each query and key, {shapes}")
    total = weights.sum(-1)
    return _mean_over_queries((weights * table).sum(-1) / torch.where(total > 0, total, 1.0), weights)


def attention_entropy(attention_map: AttentionMap) -> Float[Tensor, " head"]:
    r"""The mean entropy of each head's rows in bits: 0 if all weight is on one word, ``log2 n`` if it is uniform.

    Args:
        attention_map: weights of any queries and keys.

    Returns:
        One number per head. Queries that attend to nothing do not count; a head without any other query gets NaN.

    Example:
        >>> weights = torch.tensor([[[0.5, 0.5], [1.0, 0.0]]])
        >>> attention_entropy(AttentionMap("x", ("a", "b"), ("a", "b"), weights, "attention", ("h",)))
        tensor([0.5000])
    """
    weights = attention_map.weights
    # xlogy gives 0 for weight 0.
    return _mean_over_queries(-torch.xlogy(weights, weights).sum(-1) / math.log(2), weights)


def head_recall(attention_map: AttentionMap, heads: Sequence[int]) -> Float[Tensor, " head"]:
    """How often the strongest key of a word is its syntactic head, for each attention head.

    Args:
        attention_map: weights between the words of a sentence.
        heads: CoNLL ids, 0 for the root.

    Returns:
        One share per head, from 0 to 1. Ties are shared: a uniform row counts as ``1 / n``. Words whose head is the
        root do not count, because the root is not a key; nor do words that attend to nothing. NaN if none counts.

    Raises:
        ValueError: if there is not one head for each query.

    Example:
        >>> weights = torch.tensor([[[0.1, 0.9], [0.5, 0.5]]])
        >>> head_recall(AttentionMap("x", ("a", "dog"), ("a", "dog"), weights, "attention", ("h",)), [2, 0])
        tensor([1.])
    """
    weights = attention_map.weights
    if len(heads) != weights.shape[1]:
        raise ValueError(f"{attention_map.name}: got {len(heads)} heads for {weights.shape[1]} queries")
    strongest = weights == weights.amax(-1, keepdim=True) if weights.shape[-1] else weights.bool()
    dependents = torch.tensor([word for word, head in enumerate(heads) if head > 0], dtype=torch.long)
    targets = torch.tensor([head - 1 for head in heads if head > 0], dtype=torch.long)
    recall = (strongest / strongest.sum(-1, keepdim=True).clamp(min=1))[:, dependents, targets]
    return _mean_over_queries(recall, weights[:, dependents])


def summarise(maps: Sequence[AttentionMap]) -> list[list[Any]]:
    """One row per attention head, averaged over sentences: a table for ``pictures.table``.

    Args:
        maps: maps of any sentences, as ``attention_maps`` returns them. Those of a module are grouped by its name and
            the names of its heads; gates and poolers are left out. For a map over subwords, the entropy is over
            subwords, and all else over words, see ``AttentionMap.of_words``.

    Returns:
        A header, then one row for each head: module, head, mean distance in words, mean distance in the dependency
        tree, entropy in bits, and how often the strongest key is the syntactic head. The columns about trees are
        averaged over the sentences that have one, and stay empty if there is none.

    Example:
        >>> weights = torch.tensor([[[0.5, 0.5], [1.0, 0.0]]])
        >>> header, row = summarise([AttentionMap("x", ("a", "b"), ("a", "b"), weights, "attention", ("h",))])
        >>> row
        ['x', 'h', '0.75', '', '0.50', '']
    """
    header = ["module", "head", "distance in words", "distance in the tree", "entropy in bits", "finds syntactic head"]
    groups: dict[tuple[str, tuple[str, ...]], list[AttentionMap]] = {}
    for attention_map in maps:
        if attention_map.kind == "attention":
            groups.setdefault((attention_map.name, attention_map.head_names), []).append(attention_map)
    rows: list[list[Any]] = [header]
    for (name, head_names), group in groups.items():
        square = [part.of_words() for part in group if len(part.rows) == len(part.columns)]
        trees = [(part, tree) for part in square if (tree := find_tree(part)) is not None]
        columns = [
            _average([attention_distance(part) for part in square]),
            _average([attention_distance(part, tree.distances()) for part, tree in trees]),
            _average([attention_entropy(part) for part in group]),
            _average([head_recall(part, tree.heads) for part, tree in trees]),
        ]
        for head, head_name in enumerate(head_names):
            values = [column[head] if column else math.nan for column in columns]
            shown = ["" if math.isnan(value) else f"{value:.2f}" for value in values[:3]]
            shown.append("" if math.isnan(values[3]) else f"{100 * values[3]:.0f}%")
            rows.append([name, head_name, *shown])
    return rows


def find_tree(attention_map: AttentionMap) -> DependencyTree | None:
    """The dependency tree of the map's sentence, if there is one and the map is about its words."""
    sentence = attention_map.sentence
    if sentence is None or sentence.dependency is None or len(sentence) != len(attention_map.rows):
        return None
    return sentence.dependency if len(attention_map.rows) == len(attention_map.columns) else None


def _mean_over_queries(values: Tensor, weights: Tensor) -> Tensor:
    counted = weights.sum(-1) > 0
    total = values.masked_fill(~counted, 0.0).sum(-1)
    return torch.where(counted.any(-1), total / counted.sum(-1).clamp(min=1), math.nan)


def _average(values: Sequence[Tensor]) -> list[float]:
    if not values:
        return []
    return [float(mean) for mean in torch.stack(list(values)).nanmean(0)]
