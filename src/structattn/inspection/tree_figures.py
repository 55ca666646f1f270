"""Figures of attention over trees: accumulation, the indices of hierarchical embeddings, what a phrase attends to.

Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation", figures 1 and 2 and the heat maps of its
appendix.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from structattn.data import TreeBatch, Vocabulary, collate
from structattn.functional import TreeOperator
from structattn.inspection.attention_map import AttentionMap
from structattn.layers import tree_operator
from structattn.pictures import Panel, constituency_tree, heatmap, heatmap_grid
from structattn.priors import Subtree
from structattn.syntax import ConstituencyTree, Sentence


def accumulation_figure(
    tree: ConstituencyTree,
    leaves: Sequence[int | float],
    phrases: Sequence[int | float],
    weights: Sequence[int | float],
    *,
    title: str | None = None,
) -> str:
    """The steps of hierarchical accumulation with one channel: ``S``, ``S-hat`` and ``N-bar``, without embeddings.

    Args:
        tree: the phrases, parents first.
        leaves: the value of each word.
        phrases: the value of each phrase.
        weights: the weight of each word.
        title: a heading.

    Raises:
        ValueError: if there are not as many values as words or phrases.

    Example:
        >>> tree = ConstituencyTree.from_brackets("(g x (h y z))")
        >>> svg = accumulation_figure(tree, [2, 0, 6], [1, 3], [1, 0.5, 2])
        >>> "2.944" in svg, "upward average" in svg
        (True, True)
    """
    expected = (len(tree), len(tree.spans), len(tree))
    if (len(leaves), len(phrases), len(weights)) != expected:
        raise ValueError(
            f"expected {expected[0]} values of leaves, {expected[1]} of phrases and {expected[2]} weights, "
            f"got {len(leaves)}, {len(phrases)} and {len(weights)}"
        )
    trees = _operator(tree)
    cover, values = trees.cover[0], torch.tensor(phrases, dtype=torch.float32)[:, None]
    at_leaf, weight = (torch.tensor(given, dtype=torch.float32) for given in (leaves, weights))
    averaged = (at_leaf + trees.below[0] @ (values * cover)) / (trees.counts[0] + 1)
    result = (averaged * cover * weight).sum(1, keepdim=True) / cover.sum(1, keepdim=True).clamp(min=1)
    nothing = cover == 0
    names = _names(tree)
    stacked = torch.cat([at_leaf[None], (values * cover).masked_fill(nothing, -torch.inf)])
    panels = [
        Panel(["leaves", *names], tree.words, stacked, "S: interpolated"),
        Panel(names, tree.words, averaged.masked_fill(nothing, -torch.inf), "Ŝ: upward average"),
        Panel(names, ["N̄"], result, "N̄: weighted mean"),
    ]
    return heatmap_grid(
        panels, title=title, show_values=True, row_axis="phrase", column_axis="word", value_label="value"
    )


def embedding_index_figure(tree: ConstituencyTree, *, title: str | None = None) -> str:
    """Which rows of the embedding tables each phrase meets at each word: phrases on the way down, place in the phrase.

    Example:
        >>> svg = embedding_index_figure(ConstituencyTree.from_brackets("(g x (h y z))"))
        >>> "vertical" in svg and "horizontal" in svg
        True
    """
    trees = _operator(tree)
    cover = trees.cover[0]
    place = cover.cumsum(1)
    panels = [
        Panel(_names(tree), tree.words, index.masked_fill(cover == 0, -torch.inf), name)
        for name, index in (("vertical index", trees.counts[0]), ("horizontal index", place))
    ]
    return heatmap_grid(
        panels, columns=2, title=title, show_values=True, row_axis="phrase", column_axis="word", value_label="index"
    )


def subtree_mask_figure(tree: ConstituencyTree, *, title: str | None = None) -> str:
    """The mask of attention over trees: words attend to words, a phrase to its subtree; the rest is hatched.

    Example:
        >>> svg = subtree_mask_figure(ConstituencyTree.from_brackets("(g x (h y z))"))
        >>> svg.count("not allowed")
        8
    """
    batch = collate([Sentence(tree.words, constituency=tree)], Vocabulary([]))
    allowed = Subtree()(batch).allowed
    if allowed is None:
        raise ValueError("the subtree prior forbids nothing here")
    names = [*tree.words, *_names(tree)]
    mask = allowed[0, 0].float().masked_fill(~allowed[0, 0], -torch.inf)
    return heatmap(names, names, mask, title=title, minimum=0, value_label="allowed")


def phrase_query_figure(attention_map: AttentionMap, head: int, phrase: int = 0, *, title: str | None = None) -> str:
    """Attention of one phrase, on its tree: phrases are shaded by their weight, words have theirs in per cent.

    Args:
        attention_map: weights between the words and phrases of a sentence.
        head: which attention head.
        phrase: number of the query phrase; 0 is the root.
        title: a heading.

    Raises:
        ValueError: if the map is not about the words and phrases of its sentence, or there is no such phrase.
    """
    sentence, tree = attention_map.sentence, None
    if sentence is not None and attention_map.rows[: len(sentence)] == sentence.words:
        tree = sentence.constituency
    if tree is None or len(attention_map.rows) != len(tree) + len(tree.spans):
        raise ValueError(
            f"{attention_map.name}: expected a map over words and phrases, got {len(attention_map.rows)} rows"
        )
    if not 0 <= phrase < len(tree.spans):
        raise ValueError(f"expected the number of one of {len(tree.spans)} phrases, got {phrase}")
    weights = attention_map.weights[head, len(tree) + phrase].tolist()
    label, start, end = tree.spans[phrase]
    said = f"{attention_map.head_names[head]}: {label} ({' '.join(tree.words[start:end])}) attends to its subtree"
    return constituency_tree(
        tree.words,
        tree,
        tags=[f"{100 * weight:.0f}%" if weight else "" for weight in weights[: len(tree)]],
        values=weights[len(tree) :],
        value_label="weight",
        minimum=0,
        maximum=max(weights),
        title=said if title is None else title,
    )


def phrase_share(
    weights: Float[Tensor, "head query key"], num_words: int, *, allowed: Float[Tensor, "query key"] | None = None
) -> tuple[Float[Tensor, " head"], float]:
    """The share of all attention that goes to phrases, by head, and its value under uniform attention.

    ``rho = sum P[phrase columns] / sum P``, as in the paper's table 4 on cross-attention.

    Args:
        weights: rows are queries, columns keys, words first, then phrases; padding taken out.
        num_words: how many columns are words.
        allowed: 1 where a query may attend to a key; everywhere if ``None``.

    Example:
        >>> weights = torch.tensor([[[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]])
        >>> phrase_share(weights, 2)
        (tensor([0.1250]), 0.3333333432674408)
    """
    uniform = torch.ones_like(weights[0]) if allowed is None else allowed
    uniform = uniform / uniform.sum(-1, keepdim=True).clamp(min=1)
    shares = [part[..., num_words:].sum((-2, -1)) / part.sum((-2, -1)) for part in (weights, uniform)]
    return shares[0], float(shares[1])


def _operator(tree: ConstituencyTree) -> TreeOperator:
    batch = collate([Sentence(tree.words, constituency=tree)], Vocabulary([]))
    trees: TreeBatch = batch.require("constituency", wanted_by="the figure")
    return tree_operator(trees)


def _names(tree: ConstituencyTree) -> list[str]:
    return [
        f"{label} ({' … '.join(tree.words[i] for i in sorted({start, end - 1}))})" for label, start, end in tree.spans
    ]
