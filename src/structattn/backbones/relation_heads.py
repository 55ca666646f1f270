"""Query and key maps whose raw scores are trained to match a relation between words: the heads of HYDRA.

"HYDRA" (arXiv 2109.05349), equations 1 to 4: ``q^h = X W_q^h + b_q^h``, ``k^h = X W_k^h + b_k^h``,
``M^h = q^h (k^h)^T / sqrt(d_k)``, and ``L_h = (1 / n^2) sum_ij (M*_ij - M^h_ij)^2``. The heads are trained before any
attention is computed with them: states and a relation are all they need.
"""

import math
from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from structattn.backbones.hydra_config import Objective, Reduction
from structattn.functional import masked_softmax
from structattn.functional.masked_attention import very_negative
from structattn.functional.products import take_rows
from structattn.functional.torch_state import full_precision

# Weights of HYDRA's heads are initialised like BERT's.
INITIAL_DEVIATION = 0.02


class RelationHeads(nn.Module):
    r"""Heads that score pairs of states and can be trained on their own against a relation.

    ``M^h = (X W_q^h + b_q^h) (X W_k^h + b_k^h)^T / sqrt(head_dim)``: scores before any softmax or mask. Rows are
    queries.

    Args:
        dim: width of the states.
        num_heads: number of heads.
        head_dim: width of a head; ``dim / num_heads`` if ``None``.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads`` and no ``head_dim`` is given, or a size is below 1.

    Example:
        >>> heads = RelationHeads(768, 12)
        >>> sum(parameter.numel() for parameter in heads.parameters())
        1181184
        >>> heads.scores(torch.zeros(2, 5, 768)).shape
        torch.Size([2, 12, 5, 5])
    """

    def __init__(self, dim: int, num_heads: int, head_dim: int | None = None) -> None:
        super().__init__()
        if min(dim, num_heads, 1 if head_dim is None else head_dim) < 1:
            raise ValueError(f"RelationHeads expects sizes of at least 1, got {dim}, {num_heads} and {head_dim}")
        if head_dim is None and dim % num_heads:
            raise ValueError(f"RelationHeads expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        self.num_heads = num_heads
        self.head_dim = dim // num_heads if head_dim is None else head_dim
        self.query = nn.Linear(dim, num_heads * self.head_dim)
        self.key = nn.Linear(dim, num_heads * self.head_dim)
        for linear in (self.query, self.key):
            nn.init.normal_(linear.weight, std=INITIAL_DEVIATION)
            nn.init.zeros_(linear.bias)

    def scores(self, states: Float[Tensor, "batch node dim"]) -> Float[Tensor, "batch head node node"]:
        """Scores of all pairs in float32 (float64 for float64 states), even under autocast; finite at padding too."""
        with full_precision(states):
            queries, keys = self._maps(states)
            return queries @ keys.mT / math.sqrt(self.head_dim)

    def loss(
        self,
        states: Float[Tensor, "batch node dim"],
        relation: Shaped[Tensor, "batch node node"] | Shaped[Tensor, "batch #head node node"],
        mask: Bool[Tensor, "batch node"],
        *,
        objective: Objective = "mse",
        reduction: Reduction = "sentences",
    ) -> Float[Tensor, ""]:
        """The loss of the scores against the relation, see :func:`relation_loss`.

        Args:
            states: one state per node.
            relation: numbers or bool: one target for all heads, or one for each.
            mask: which nodes count.
            objective: ``mse``, ``bce``, ``ce`` or ``kl``.
            reduction: mean over ``sentences`` or over ``pairs`` of nodes.
        """
        return relation_loss(self.scores(states), relation, mask, objective=objective, reduction=reduction)

    def linear_loss(
        self,
        states: Float[Tensor, "batch node dim"],
        pairs: Int64[Tensor, "pair 4"],
        mask: Bool[Tensor, "batch node"],
        *,
        weights: Float[Tensor, " pair"] | None = None,
    ) -> Float[Tensor, ""]:
        r"""The same squared error for a sparse relation, in time and memory linear in the number of nodes.

        With ``E`` the pairs of a head's relation and ``Q``, ``K`` its queries and keys, zero where the mask is false:

        .. math:: n^2 L = \mathrm{tr}(Q^T Q K^T K) / d_k - 2 \sum_{(i,j) \in E} w_{ij} M_{ij} + \sum_E w_{ij}^2

        No matrix over pairs of nodes is built. This pays off from about ``n = 2 * head_dim``.

        Args:
            states: one state per node.
            pairs: rows ``(sentence, head, query, key)``, without duplicates; the relation is zero elsewhere.
            mask: which nodes count.
            weights: the relation at these pairs; ones if ``None``.

        Raises:
            ValueError: if a pair lies outside the batch or the mask; checked on the CPU only.
        """
        sentence, head, query, key = pairs.unbind(1)
        limits = pairs.new_tensor([len(mask), self.num_heads, mask.shape[1], mask.shape[1]])
        if pairs.is_cpu:  # reading their values would stall another device
            is_inside = bool(((pairs >= 0) & (pairs < limits)).all())
            if not is_inside or not bool((mask[sentence, query] & mask[sentence, key]).all()):
                raise ValueError("linear_loss expects pairs of unmasked nodes")
        with full_precision(states):
            queries, keys = (part * mask[:, None, :, None] for part in self._maps(states))
            squares = ((queries.mT @ queries) * (keys.mT @ keys)).sum((-1, -2)) / self.head_dim
            matrix, words = sentence * self.num_heads + head, mask.shape[1]
            scores = take_rows(queries.flatten(0, 2), matrix * words + query)
            scores = (scores * take_rows(keys.flatten(0, 2), matrix * words + key)).sum(-1) / math.sqrt(self.head_dim)
            target = torch.ones_like(scores) if weights is None else weights.to(scores.dtype)
            terms = target * target - 2 * target * scores
            squares = squares.flatten().index_add(0, matrix, terms).view_as(squares)
            count = mask.sum(1).to(squares.dtype)
            return _mean(squares.mean(1) / count.clamp(min=1) ** 2, count > 0)

    def _maps(self, states: Tensor) -> tuple[Tensor, Tensor]:
        states = states if states.dtype == torch.float64 else states.float()
        queries, keys = (
            F.linear(states, linear.weight.to(states.dtype), linear.bias.to(states.dtype))
            .unflatten(-1, (self.num_heads, self.head_dim))
            .transpose(1, 2)
            for linear in (self.query, self.key)
        )
        return queries, keys


def relation_loss(
    scores: Float[Tensor, "batch head node node"],
    relation: Shaped[Tensor, "batch node node"] | Shaped[Tensor, "batch #head node node"],
    mask: Bool[Tensor, "batch node"] | Bool[Tensor, "batch node node"],
    *,
    objective: Objective = "mse",
    reduction: Reduction = "sentences",
) -> Float[Tensor, ""]:
    r"""The loss of scores against a target relation, over the pairs of unmasked nodes.

    ``mse`` is HYDRA's equation 4. The others are ours: ``bce`` reads scores as log odds and weights related pairs so
    that together they weigh as much as all unrelated ones (by ``(1 - p) / p`` for a share ``p`` of related pairs in the
    batch); ``ce`` is the cross-entropy of each row's softmax with its relation normalised to sum to one, ``kl`` the
    divergence from it: the same gradient, but zero at the optimum. Rows without any relation do not count for ``ce``
    and ``kl``.

    Args:
        scores: raw scores.
        relation: the target; must not be negative for ``bce``, ``ce`` and ``kl``.
        mask: which nodes count, or which pairs of them.
        objective: one of the four.
        reduction: ``sentences`` averages over the pairs of each sentence, as the paper's loss of one sentence does,
            then over sentences; ``pairs`` averages over all pairs of the batch. Both also average over heads.

    Raises:
        ValueError: for another objective or reduction.

    Example:
        >>> relation = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
        >>> relation_loss(torch.zeros(1, 3, 2, 2), relation, torch.ones(1, 2, dtype=torch.bool))
        tensor(0.5000)
    """
    total, count = relation_sums(scores, relation, mask, objective=objective, reduction=reduction)
    return total / count.clamp(min=1)


def relation_sums(
    scores: Float[Tensor, "batch head node node"],
    relation: Shaped[Tensor, "batch node node"] | Shaped[Tensor, "batch #head node node"],
    mask: Bool[Tensor, "batch node"] | Bool[Tensor, "batch node node"],
    *,
    objective: Objective,
    reduction: Reduction,
) -> tuple[Float[Tensor, ""], Int64[Tensor, ""]]:
    """The sum and the count (of sentences, pairs or rows) whose ratio is ``relation_loss``; both add up over batches.

    ``bce`` alone balances each batch by itself.
    """
    if objective not in get_args(Objective):
        raise ValueError(f"objective: expected one of {', '.join(get_args(Objective))}, got {objective!r}")
    if reduction not in ("sentences", "pairs"):
        raise ValueError(f"reduction: expected 'sentences' or 'pairs', got {reduction!r}")
    real = (mask if mask.dim() == 3 else mask[:, :, None] & mask[:, None, :])[:, None]
    relation = relation.to(scores.dtype)
    target = torch.where(real, relation.unsqueeze(1) if relation.dim() == 3 else relation, 0.0)
    # Not a product with the mask, as padding may contain anything.
    scores = torch.where(real, scores, 0.0)
    if objective in ("mse", "bce"):
        errors = (target - scores).square() if objective == "mse" else _balanced(scores, target, real)
        sums, counts = errors.sum((-1, -2)).mean(1), real.sum((1, 2, 3))
    else:
        rows = _row_errors(scores, target, real, objective)
        sums, counts = rows.sum((1, 2)), (target.sum(-1) > 0).expand(rows.shape).sum((1, 2))
    if reduction == "pairs":
        return sums.sum(), counts.sum()
    # The sum of a sentence without any row that counts is zero.
    return (sums / counts.clamp(min=1)).sum(), (counts > 0).sum()


def _balanced(scores: Tensor, target: Tensor, real: Tensor) -> Tensor:
    share = target.sum() / real.expand(target.shape).sum().clamp(min=1)
    weight = (1 - share) / share.clamp(min=torch.finfo(share.dtype).tiny)
    errors = F.binary_cross_entropy_with_logits(
        scores, target.expand(scores.shape), pos_weight=weight, reduction="none"
    )
    return torch.where(real, errors, 0.0)


def _row_errors(scores: Tensor, target: Tensor, real: Tensor, objective: Objective) -> Tensor:
    """For each head and row with a relation, the cross-entropy or divergence of its softmax; zero for other rows."""
    total = target.sum(-1, keepdim=True)
    share = target / total.clamp(min=torch.finfo(target.dtype).tiny)
    # Rows of padding have no allowed key; their scores are all equal, and their share is zero.
    logs = torch.where(real, scores, very_negative(scores.dtype)).log_softmax(-1)
    errors = -(share * torch.where(share > 0, logs, 0.0)).sum(-1)
    if objective == "kl":
        errors = errors + torch.xlogy(share, share).sum(-1)
    return errors


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    """The mean over the sentences that count; zero if none does."""
    return (values * counts).sum() / counts.sum().clamp(min=1)


def relation_attention(
    scores: Float[Tensor, "batch head node node"], mask: Bool[Tensor, "batch node"], *, is_causal: bool = False
) -> Float[Tensor, "batch head node node"]:
    """``A^h = softmax_j(M^h)`` over real keys, with ``is_causal`` up to the query; rows of padding are zero."""
    # Scores that are exactly a 0/1 relation with k ones in a row of n give each of these a weight of e / (e k + n - k):
    # 0.081 for n = 30, k = 2, where uniform attention gives 0.033. The preference is mild.
    allowed = mask[:, :, None] & mask[:, None, :]
    if is_causal:
        allowed = allowed & earlier_keys(mask)
    return masked_softmax(scores, allowed[:, None])


def earlier_keys(mask: Bool[Tensor, "batch node"]) -> Bool[Tensor, "node node"]:
    """Which keys come no later than each query."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    return positions[:, None] >= positions
