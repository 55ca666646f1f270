"""Scores of heads, labels and tags from the states of words: deep biaffine attention.

Reference: Dozat and Manning (2017), Deep biaffine attention for neural dependency parsing, section 3 (arXiv
1611.01734). The paper's scores are columns, one for each dependent; here a row is a word and a column its head.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from structattn.functional.products import linear, round_up, take_rows
from structattn.layers.linear import Linear, glorot_linear

# How many heads are scored together, and the multiple that the number of heads is padded to.
_AT_ONCE, _FEWEST = 128, 32
# How many words are scored together where each is scored by itself: the products take a few hundred MB.
_WORDS = 8192


@dataclass(frozen=True, eq=False)
class ParserScores:
    """The scores of a batch of sentences, and the states that labels are scored from."""

    #: Column 0 is the root, column ``k`` word ``k - 1``.
    arcs: Float[Tensor, "batch word head_id"]
    tags: Float[Tensor, "batch word tag"]
    dependents: Float[Tensor, "batch word dim"]
    heads: Float[Tensor, "batch head_id dim"]


class BiaffineScorer(nn.Module):
    r"""Deep biaffine scores (Dozat and Manning 2017, equations 4 to 9).

    .. math::
        d_i = \mathrm{MLP}^{dep}(r_i), \quad h_j = \mathrm{MLP}^{head}(r_j), \quad
        s_{ij} = d_i^\top W h_j + u^\top h_j

    for arcs, and :math:`[d_i; 1]^\top W_l [h_j; 1]` for the label *l* of an arc, with separate, smaller states. The
    root is a learnt state in front of the words. Tags are scored by a linear function of the word's state.

    Args:
        dim: width of the states of words.
        num_labels: number of labels of arcs.
        num_tags: number of tags.
        arc_dim: width of the states that arcs are scored from.
        label_dim: width of the states that labels are scored from.
        dropout: on these states.

    Example:
        >>> scorer = BiaffineScorer(6, num_labels=3, num_tags=2)
        >>> scores = scorer(torch.zeros(1, 4, 6))
        >>> scores.arcs.shape, scores.tags.shape, scorer.labels(scores, torch.tensor([[0, 1, 1, 3]])).shape
        (torch.Size([1, 4, 5]), torch.Size([1, 4, 2]), torch.Size([1, 4, 3]))
    """

    def __init__(
        self,
        dim: int,
        *,
        num_labels: int,
        num_tags: int,
        arc_dim: int = 256,
        label_dim: int = 96,
        dropout: float = 0.33,
    ) -> None:
        super().__init__()
        self.options: Mapping[str, Any] = {"arc_dim": arc_dim, "label_dim": label_dim, "dropout": dropout}
        self.sizes = (arc_dim, arc_dim, label_dim, label_dim)
        self.root = nn.Parameter(nn.init.normal_(torch.empty(dim), std=0.1))
        # One product for all four kinds of states.
        self.project = glorot_linear(dim, sum(self.sizes), blocks=1, kind=Linear)
        self.activation = nn.LeakyReLU(0.1)
        self.dropout = nn.Dropout(dropout)
        self.arc_weight = nn.Parameter(torch.zeros(arc_dim, arc_dim))
        self.arc_bias = nn.Parameter(torch.zeros(arc_dim))
        self.label_weight = nn.Parameter(torch.zeros(num_labels, label_dim + 1, label_dim + 1))
        self.tag = glorot_linear(dim, num_tags, kind=Linear)

    def forward(self, states: Float[Tensor, "batch word dim"]) -> ParserScores:
        """Scores of all arcs and tags, and the states that labels are scored from.

        Args:
            states: states of the words.

        Returns:
            ``arcs`` with a score of each head of each word (column 0 is the root, column ``k`` word ``k - 1``),
            ``tags``, and the states ``dependents`` of the words and ``heads`` of the root and the words.
        """
        root = self.root.expand(len(states), 1, -1)
        projected = self.dropout(self.activation(self.project(torch.cat([root, states], dim=1))))
        arc_dependents, arc_heads, label_dependents, label_heads = projected.split(self.sizes, dim=-1)
        dependents = linear(arc_dependents[:, 1:], self.arc_weight.T, self.arc_bias)
        arcs = dependents @ arc_heads.transpose(1, 2)
        return ParserScores(arcs, self.tag(states), label_dependents[:, 1:], label_heads)

    def labels(self, scores: ParserScores, heads: Int64[Tensor, "batch word"]) -> Float[Tensor, "batch word label"]:
        """Scores of the labels of the arcs from the words to their heads.

        Args:
            scores: the output of ``forward``.
            heads: CoNLL id of each word's head.
        """
        below, above = (_with_one(states).flatten(0, 1) for states in (scores.dependents, scores.heads))
        weight = self.label_weight.to(above.dtype)
        first = torch.arange(len(heads), device=heads.device).unsqueeze(1) * scores.heads.shape[1]
        arcs = (first + heads).flatten()
        # The number of words of each head is known at once on a CPU; reading it from another device would stall.
        score = _score_by_head if heads.is_cpu and len(arcs) > _AT_ONCE else _score_by_word
        return score(below, above, weight, arcs).view(*heads.shape, -1)

    def all_labels(self, scores: ParserScores) -> Float[Tensor, "batch word head_id label"]:
        """Scores of the labels of all arcs.

        Args:
            scores: the output of ``forward``.
        """
        below, above = (_with_one(states) for states in (scores.dependents, scores.heads))
        weight = self.label_weight.to(above.dtype)
        weighted = linear(above, weight.flatten(0, 1)).unflatten(-1, weight.shape[:2])
        labels: Tensor = (below @ weighted.flatten(1, 2).mT).unflatten(-1, weighted.shape[1:3])
        return labels


def _score_by_word(below: Tensor, above: Tensor, weight: Tensor, arcs: Tensor) -> Tensor:
    scores = []
    for words, heads in zip(below.split(_WORDS), arcs.split(_WORDS), strict=True):
        weighted = linear(take_rows(above, heads), weight.flatten(0, 1)).view(len(heads), *weight.shape[:2])
        scores.append((weighted @ words.unsqueeze(-1)).squeeze(-1))
    return torch.cat(scores)


def _score_by_head(below: Tensor, above: Tensor, weight: Tensor, arcs: Tensor) -> Tensor:
    scores, positions = [], []
    # The product of the weights and a head is shared by all words below it.
    for head, words, is_word in _group_by_head(arcs):
        weighted = linear(take_rows(above, head), weight.flatten(0, 1)).view(len(head), *weight.shape[:2])
        scores.append((take_rows(below, words) @ weighted.mT)[is_word])
        positions.append(words[is_word])
    return take_rows(torch.cat(scores), torch.cat(positions).argsort())


def _group_by_head(arcs: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The words of a few heads at a time: the indices of the heads, the indices of their words, and a mask of these."""
    # The products for a few heads are as wide as all labels together, and stay in the cache. The heads of a group have
    # about the same number of words. Padding keeps the number of shapes small: heads without words pad the number of
    # heads, and masked words pad the rows.
    arcs, words = arcs.sort(stable=True)
    distinct, counts = arcs.unique_consecutive(return_counts=True)
    distinct, counts = (nn.functional.pad(values, (0, -len(values) % _FEWEST)) for values in (distinct, counts))
    starts = (counts.cumsum(0) - counts).clamp(max=len(words) - 1).unsqueeze(1)
    for group in counts.argsort(stable=True).split(_AT_ONCE):
        offset = torch.arange(round_up(int(counts[group[-1]]), 2), device=arcs.device)
        is_word = offset < counts[group].unsqueeze(1)
        yield distinct[group], words[starts[group] + offset.where(is_word, offset.new_zeros(()))], is_word


def _with_one(states: Tensor) -> Tensor:
    return torch.cat([states, states.new_ones(*states.shape[:-1], 1)], dim=-1)
