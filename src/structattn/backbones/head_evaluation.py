"""Evaluation of heads on a relation: squared error against that of constants, area under the curve, attachment, drift.

HYDRA (arXiv 2109.05349) reports none of these. They show whether pretraining had any effect, and whether the relation
survives fine-tuning, which decides what a gain may be attributed to.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from structattn.backbones.backbone_embedding import pool_words
from structattn.backbones.hydra_config import HydraConfig, typed_objective
from structattn.backbones.relation_heads import RelationHeads, relation_loss, relation_sums
from structattn.backbones.relation_targets import relation_targets
from structattn.data import SubwordBatch
from structattn.distributions import NonProjectiveDependencyCRF

# Sizes differ from batch to batch, so the axes have no names: (batch, head, subword, subword) and (batch, subword).
Scores = Float[Tensor, "_ _ _ _"]
Mask = Bool[Tensor, "_ _"]


@dataclass(frozen=True)
class RelationReport:
    """The evaluation of the heads of one relation. All means are over sentences, as in the loss.

    Attributes:
        mean_squared_error: of the scores, mean over the relation's heads.
        constant_error: of the best single constant for all pairs of all sentences.
        sentence_constant_error: of the best constant for each sentence by itself, an oracle.
        area: under the ROC curve of the mean of the heads' scores, over all pairs of different nodes; a constant has
            0.5. ``nan`` if no pair or every pair is related; ``null`` in files, as JSON has no ``nan``.
        attachment: share of gold arcs that are in the maximum spanning tree of the mean of the heads' scores:
            undirected arcs for ``arc``, heads of words for ``head`` and ``child``. ``None`` for other relations.
        neighbours: the same share for a baseline that joins neighbouring words for ``arc``, and takes the next word as
            the head for ``head`` and ``child``.
        accuracy: for each head, the share of nodes with a relation whose best-scored other node is related.

    Example:
        >>> RelationReport(0.07, 0.1, 0.09, 0.8, None, None, (0.6, 0.8)).metrics()["accuracy"]
        0.7
    """

    mean_squared_error: float
    constant_error: float
    sentence_constant_error: float
    area: float
    attachment: float | None
    neighbours: float | None
    accuracy: tuple[float, ...]

    def metrics(self) -> dict[str, float]:
        """The metrics that are not ``None``, by name; the accuracy is the mean over heads."""
        values = {**self.to_dict(), "accuracy": fmean(self.accuracy) if self.accuracy else None}
        return {name: value for name, value in values.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "area": None if math.isnan(self.area) else self.area}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RelationReport":
        """The inverse of ``to_dict``.

        Args:
            values: plain values by name.

        Example:
            >>> RelationReport.from_dict({**RelationReport(0.1, 0.1, 0.1, 0.5, None, None, ()).to_dict(), "area": None})
            RelationReport(mean_squared_error=0.1, ..., area=nan, attachment=None, neighbours=None, accuracy=())
        """
        area = math.nan if values["area"] is None else values["area"]
        return cls(**{**values, "area": area, "accuracy": tuple(values["accuracy"])})


def evaluate_heads(
    heads: RelationHeads,
    config: HydraConfig,
    batches: Iterable[tuple[SubwordBatch, Float[Tensor, "batch subword dim"]]],
) -> tuple[float, dict[str, RelationReport]]:
    """Measure heads on tokenised sentences and the backbone's states for them.

    Args:
        heads: the heads.
        config: their relations, and the loss.
        batches: sentences as subwords, and the states that the heads read.

    Returns:
        The loss of all sentences as if they were one batch (``bce`` alone still balances each batch by itself), and a
        report for each relation.

    Raises:
        ValueError: if there are no sentences.

    Example:
        >>> from structattn.syntax import DependencyTree, Sentence
        >>> kids = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
        >>> words, yes = torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)
        >>> subwords = SubwordBatch(words, yes, words, yes, words * 0, yes, ~yes[:, 0], ((kids,),))
        >>> config = HydraConfig(num_heads=2)
        >>> loss, reports = evaluate_heads(RelationHeads(4, 2), config, [(subwords, torch.zeros(1, 2, 4))])
        >>> loss, reports["arc"].attachment
        (0.5, 1.0)
    """
    gathered = {name: _Counts() for name in config.relations}
    total, count, sentences = 0.0, 0, 0
    objective, reduction = typed_objective(config)
    for subwords, states in batches:
        with torch.no_grad():
            targets = relation_targets(subwords, config)
            nodes = pool_words(states, subwords, pooling="mean") if targets.over_words else states
            scores = heads.scores(nodes)
            assigned = targets.relation[:, list(config.assignment)]
            added, counted = relation_sums(scores, assigned, targets.mask, objective=objective, reduction=reduction)
            total, count, sentences = total + added.item(), count + int(counted), sentences + len(subwords)
            words = heads.scores(pool_words(states, subwords, pooling="mean"))
        for number, name in enumerate(config.relations):
            rows = [head for head, relation in enumerate(config.assignment) if relation == number]
            counts, scale = gathered[name], config.target_scale
            counts.add(scores[:, rows] / scale, targets.relation[:, number] / scale, targets.mask)
            if name in _TREES:
                counts.add_trees(words[:, rows].mean(1), subwords, kind=name)
    if not sentences:
        raise ValueError("evaluate_heads expects at least one sentence, got none")
    return total / max(count, 1), {name: counts.report() for name, counts in gathered.items()}


def heads_loss(
    heads: RelationHeads, config: HydraConfig, subwords: SubwordBatch, states: Float[Tensor, "batch subword dim"]
) -> Float[Tensor, ""]:
    """The loss of heads on the backbone's states; in linear time where texts are long enough for this to be faster.

    Args:
        heads: the heads.
        config: their relations and the objective.
        subwords: a batch whose sentences have the trees or matrices of the relations.
        states: the states of the subwords, of the layer that the heads read.

    Example:
        >>> from structattn.syntax import DependencyTree, Sentence
        >>> heads, config = RelationHeads(4, 2), HydraConfig(num_heads=2)
        >>> words, yes = torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)
        >>> kids = Sentence(["kids", "wash"], dependency=DependencyTree([2, 0]))
        >>> subwords = SubwordBatch(words, yes, words, yes, words * 0, yes, ~yes[:, 0], ((kids,),))
        >>> heads_loss(heads, config, subwords, torch.zeros(1, 2, 4))
        tensor(0.5000, grad_fn=...)
    """
    targets = relation_targets(subwords, config)
    nodes = pool_words(states, subwords, pooling="mean") if targets.over_words else states
    objective, reduction = typed_objective(config)
    # About where multiplying queries with queries becomes cheaper than queries with keys.
    if objective == "mse" and reduction == "sentences" and nodes.shape[1] > 2 * heads.head_dim:
        real = targets.mask[:, None, :, None] & targets.mask[:, None, None, :]
        entries = (targets.relation * real).nonzero()
        values = targets.relation[tuple(entries.T)]
        assignment = torch.tensor(config.assignment, device=entries.device)
        row, head = (entries[:, 1, None] == assignment).nonzero().T
        pairs = torch.stack([entries[row, 0], head, entries[row, 2], entries[row, 3]], dim=1)
        return heads.linear_loss(nodes, pairs, targets.mask, weights=values[row])
    assigned = targets.relation[:, list(config.assignment)] if len(config.relations) > 1 else targets.relation
    return relation_loss(heads.scores(nodes), assigned, targets.mask, objective=objective, reduction=reduction)


# Relations whose arcs form a whole tree; those with labels are parts of one.
_TREES = ("arc", "head", "child")


class _Counts:
    """Sums over sentences."""

    def __init__(self) -> None:
        self.errors: list[Tensor] = []
        self.means: list[Tensor] = []
        self.squares: list[Tensor] = []
        self.scores: list[np.ndarray] = []
        self.related: list[np.ndarray] = []
        self.hits: list[Tensor] = []
        self.attached = self.arcs = self.neighbours = 0

    def add(
        self,
        scores: Float[Tensor, "batch head node node"],
        target: Float[Tensor, "batch node node"],
        mask: Bool[Tensor, "batch node"],
    ) -> None:
        real = mask[:, :, None] & mask[:, None, :]
        count = real.sum((1, 2)).clamp(min=1)
        error = ((scores - target[:, None]).square() * real[:, None]).sum((2, 3)).mean(1) / count
        has_nodes = mask.any(1)
        self.errors.append(error[has_nodes])
        self.means.append(((target * real).sum((1, 2)) / count)[has_nodes])
        self.squares.append(((target.square() * real).sum((1, 2)) / count)[has_nodes])
        pairs = real & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
        self.scores.append(scores.mean(1)[pairs].cpu().numpy())
        self.related.append((target[pairs] != 0).cpu().numpy())
        has_relation = ((target != 0) & pairs).any(-1)
        best = scores.masked_fill(~pairs[:, None], -torch.inf).argmax(-1)
        hit = (target != 0).unsqueeze(1).expand(scores.shape).gather(-1, best.unsqueeze(-1)).squeeze(-1)
        self.hits.append(hit.movedim(1, -1)[has_relation].float().cpu())

    def add_trees(self, scores: Float[Tensor, "batch word word"], subwords: SubwordBatch, *, kind: str) -> None:
        heads = tree_heads(scores, subwords.num_words, kind=kind)
        for row, parts in enumerate(subwords.sentences):
            if len(parts) != 1 or parts[0].dependency is None:
                continue
            gold, predicted = parts[0].dependency.heads, heads[row].tolist()
            if kind == "arc":
                arcs = {frozenset((word, head)) for word, head in enumerate(gold, start=1) if head}
                guesses = {frozenset((word, head)) for word, head in enumerate(predicted[: len(gold)], start=1) if head}
                self.attached, self.arcs = self.attached + len(arcs & guesses), self.arcs + len(arcs)
                self.neighbours += sum(max(arc) - min(arc) == 1 for arc in arcs)
            else:
                self.attached += sum(head == guess for head, guess in zip(gold, predicted, strict=False))
                self.arcs += len(gold)
                self.neighbours += sum(head == word + 1 for word, head in enumerate(gold, start=1))

    def report(self) -> RelationReport:
        means, squares = torch.cat(self.means).double(), torch.cat(self.squares).double()
        hits = torch.cat(self.hits)
        return RelationReport(
            mean_squared_error=torch.cat(self.errors).double().mean().item(),
            constant_error=(squares.mean() - means.mean() ** 2).item(),
            sentence_constant_error=(squares - means**2).mean().item(),
            area=area_under_curve(np.concatenate(self.scores), np.concatenate(self.related)),
            attachment=self.attached / self.arcs if self.arcs else None,
            neighbours=self.neighbours / self.arcs if self.arcs else None,
            accuracy=tuple(hits.mean(0).tolist()) if len(hits) else (),
        )


def tree_heads(scores: Float[Tensor, "batch word word"], lengths: Tensor, *, kind: str = "arc") -> torch.Tensor:
    """The maximum spanning tree of scores between words, as CoNLL ids of heads; 0 at the root and at padding.

    A ``head`` score is that of the column as head of the row, ``child`` the other way round; ``arc`` is symmetric.
    """
    # The tree of M + M^T has no direction, so its arcs are the same whichever word is called the root.
    if kind == "arc":
        scores = scores + scores.mT
    elif kind == "child":
        scores = scores.mT
    words = torch.arange(scores.shape[1], device=scores.device)
    real = words < lengths[:, None]
    # Every word has the score 0 as the root, so none is preferred; the tree has one root in any case.
    is_loop = words == words[:, None]
    allowed = torch.where(real[:, None, :] & real[:, :, None] & ~is_loop, scores, -torch.inf)
    with_root = torch.cat([torch.zeros_like(allowed[..., :1]), allowed], dim=-1)
    trees = NonProjectiveDependencyCRF(with_root.double(), lengths, single_root=True)
    return trees.to_structure(trees.argmax())


def area_under_curve(scores: np.ndarray, related: np.ndarray) -> float:
    """Probability that a related pair has a higher score than an unrelated one; equal scores count half."""
    positive = int(related.sum())
    negative = len(related) - positive
    if not positive or not negative:
        return float("nan")
    _, positions, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[positions]
    return float((ranks[related].sum() - positive * (positive + 1) / 2) / (positive * negative))


def head_drift(pairs: Iterable[tuple[Scores, Scores, Mask]]) -> tuple[float, ...]:
    """How far fine-tuning has moved the scores of each head: ``||M_after - M_before|| / ||M_before||`` (Frobenius).

    Args:
        pairs: for each batch, the scores before, the scores after, and the mask of real subwords.

    Returns:
        One number per head, the mean over sentences: 0 if the scores did not change, about 1.4 if the scores after are
        as large as those before and independent of them. A sentence whose scores before are all 0 is left out; a head
        without any other sentence gets 0.

    Raises:
        ValueError: if there are no sentences.

    Example:
        >>> pretrained, fine_tuned = torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3)
        >>> fine_tuned[:, 1] = -1
        >>> head_drift([(pretrained, fine_tuned, torch.tensor([[True, True, False]]))])
        (0.0, 2.0)
    """
    shares, counts = [], []
    for first, second, mask in pairs:
        real = (mask[:, None, :, None] & mask[:, None, None, :]).to(first.dtype)
        moved, size = ((scores * real).square().sum((2, 3)).sqrt() for scores in (second - first, first))
        is_positive = size > 0
        shares.append(torch.where(is_positive, moved / size.where(is_positive, 1.0), 0.0).double().sum(0).cpu())
        counts.append(is_positive.sum(0).cpu())
    if not shares:
        raise ValueError("head_drift expects at least one sentence, got none")
    return tuple((torch.stack(shares).sum(0) / torch.stack(counts).sum(0).clamp(min=1)).tolist())
