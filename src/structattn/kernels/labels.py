"""Labels on the parts of structures: every part takes one label, independently of the others.

Given a structure, the labels of its parts are independent. So the labels of a part are summed out before the kernel of
the family runs (``log sum_l exp s_l``), and the best label stands for the part where a best structure is sought
(``max_l s_l``): the best structure under the sums need not be that of the best labels.
"""

from collections.abc import Sequence
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.operators import Operators
from structattn.kernels.programs import Scores
from structattn.kernels.random import categorical, choice_id, sample_keys, uniform
from structattn.kernels.tracing import is_eager

# The kind of the random choices of labels; those of the families are lower.
_LABEL = 7


class LabelledOperators:
    """The operators of a family whose first array has a last axis of labels; see `kernels.operators.Operators`."""

    def __init__(self, operators: Operators) -> None:
        self._unlabelled = operators

    @property
    def family(self) -> Self:
        """What a family says of its arrays: `is_shared`, `each` and `centre`."""
        return self

    def is_shared(self, scores: Scores) -> list[bool]:
        """Which arrays the whole batch shares."""
        return self._unlabelled.family.is_shared([scores[0][..., 0], *scores[1:]])

    def each(self, scores: Scores) -> list[Tensor]:
        """The arrays of each sentence, with the batch axis in front."""
        return [scores[0], *self._unlabelled.family.each([scores[0][..., 0], *scores[1:]])[1:]]

    def centre(self, scores: Scores, lengths: Tensor, options: Sequence[int]) -> list[Tensor]:
        """The arrays of each sentence in float64, less what all its structures share; ``-inf`` on padding."""
        first = scores[0].double()
        best = first.amax(-1)
        centred, *others = self._unlabelled.family.centre([best, *_in_double(scores[1:])], lengths, options)
        is_read = centred > -torch.inf
        shift = (best - centred).where(is_read, 0)
        return [(first - shift.unsqueeze(-1)).masked_fill(~is_read.unsqueeze(-1), -torch.inf), *others]

    def log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Log-partition ``(batch,)``; ``-inf`` if nothing is allowed."""
        return self._unlabelled.log_partition(_without_labels(scores), lengths, options)

    def exact_log_partition(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Log-partition in float64."""
        return self._unlabelled.exact_log_partition(_without_labels(_in_double(scores)), lengths, options)

    def marginals(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Marginals of the labelled parts."""
        parts = self._unlabelled.marginals(_without_labels(scores), lengths, options)
        return parts.unsqueeze(-1) * label_shares(scores[0])

    def evaluate(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> tuple[Tensor, list[Tensor]]:
        """Log-partition, and marginals of the parts of every array, for each sentence."""
        value, (parts, *others) = self._unlabelled.evaluate(_without_labels(scores), lengths, options)
        return value, [parts.unsqueeze(-1) * label_shares(scores[0]), *others]

    def entropy(
        self, scores: Scores, lengths: Tensor, options: Sequence[int] = (), values: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """``H = H(structure) + sum of mu_part H(labels of the part)``; see `Operators.entropy`."""
        scores = _in_double(scores)
        unlabelled, shares = _without_labels(scores), label_shares(scores[0])
        expected = None
        if values is not None:
            first = torch.where(shares.detach() > 0, shares * values[0].double(), 0).sum(-1)
            expected = [first, *_in_double(values[1:])]
        log_partition, entropy, gap = self._unlabelled.entropy(unlabelled, lengths, options, expected)
        parts = self._unlabelled.marginals(unlabelled, lengths, options)
        return log_partition, entropy + (parts * _label_entropy(scores[0])).flatten(1).sum(-1), gap

    def argmax(self, scores: Scores, lengths: Tensor, options: Sequence[int] = ()) -> Tensor:
        """Parts of a best structure with its best labels, all zero if nothing is allowed."""
        best, label = scores[0].detach().max(-1)
        parts = self._unlabelled.argmax([best, *scores[1:]], lengths, options)
        return parts.unsqueeze(-1) * _is_label(label, scores[0].shape[-1])

    def topk(self, scores: Scores, lengths: Tensor, options: Sequence[int], k: int) -> tuple[Tensor, Tensor]:
        """The ``k`` best structures under their best labels, each with its ``k`` best assignments of labels, merged."""
        first = scores[0].detach().double()
        *event, labels = first.shape[1:]
        arrays = [first.amax(-1), *_in_double(scores[1:])]
        values, parts = self._unlabelled.topk(arrays, lengths, options, k)
        used = parts.flatten(2) > 0
        rows = int(used.sum(-1).amax()) if is_eager(first) and used.numel() else used.shape[-1]
        index = (~used).long().argsort(dim=-1, stable=True)[..., :rows]
        real = used.gather(-1, index)
        flat = first.flatten(1, -2).expand(k, -1, -1, -1)
        ranked, label = flat.gather(-2, index.unsqueeze(-1).expand(*index.shape, labels)).sort(
            dim=-1, descending=True, stable=True
        )
        # What a label scores less than the best one; a row without a part has one label, which costs nothing.
        losses = (ranked - ranked[..., :1]).masked_fill(~real.unsqueeze(-1), -torch.inf)
        losses[..., 0] = losses[..., 0].where(real, 0)
        losses, assigned = _best_assignments(losses[..., :k], label[..., :k], k)
        total, choice = (
            (values.unsqueeze(-1) + losses).movedim(0, 1).flatten(1).sort(dim=-1, descending=True, stable=True)
        )
        total, choice = total[:, :k], choice[:, :k, None].expand(-1, -1, rows)
        index = index.movedim(0, 1).gather(1, choice // k) * labels + assigned.movedim(0, 1).flatten(1, 2).gather(
            1, choice
        )
        real = real.movedim(0, 1).gather(1, choice // k) & (total > -torch.inf).unsqueeze(-1)
        chosen = first.new_zeros(*total.shape, used.shape[-1] * labels).scatter_add(-1, index, real.double())
        dtype = scores[0].dtype
        return total.T.to(dtype), chosen.movedim(0, 1).reshape(k, len(first), *event, labels).to(dtype)

    def sample(self, scores: Scores, lengths: Tensor, streams: Tensor, options: Sequence[int], count: int) -> Tensor:
        """Parts ``(count, batch, ...)`` of samples: structures, then the label of each part."""
        detached = [array.detach() for array in scores]
        parts = self._unlabelled.sample(_without_labels(detached), lengths, streams, options, count)
        first, *further = detached[0].shape[1:-1]
        position = torch.arange(first, device=streams.device)
        others = torch.arange(torch.Size(further).numel(), device=streams.device)
        choices = (choice_id(_LABEL, 0, 0) + choice_id(0, 1, 0) * position).unsqueeze(-1) + choice_id(0, 0, 1) * others
        numbers = uniform(sample_keys(streams, count).T[:, None, None], choices[..., None])
        shares = label_shares(detached[0].double()).flatten(2, -2)
        label = categorical(shares, numbers).movedim(-1, 0).view_as(parts)
        return (parts.unsqueeze(-1) * _is_label(label, shares.shape[-1])).to(scores[0].dtype)


def _in_double(scores: Scores) -> list[Tensor]:
    return [array.double() for array in scores]


def sum_labels(scores: Float[Tensor, "*part label"]) -> Float[Tensor, "*part"]:
    """``log sum_l exp s_l``; ``-inf`` without a gradient where no label is allowed."""
    is_allowed = _has_label(scores)
    total = scores.where(is_allowed.unsqueeze(-1), 0).logsumexp(-1)
    return total.masked_fill(~is_allowed, -torch.inf)


def label_shares(scores: Float[Tensor, "*part label"]) -> Float[Tensor, "*part label"]:
    """The probability of each label of a part; zero where no label is allowed."""
    is_allowed = _has_label(scores).unsqueeze(-1)
    return scores.where(is_allowed, 0).softmax(-1).masked_fill(~is_allowed, 0)


def _has_label(scores: Float[Tensor, "*part label"]) -> Bool[Tensor, "*part"]:
    return scores.detach().amax(-1) > -torch.inf


def _is_label(label: Int[Tensor, "*part"], count: int) -> Bool[Tensor, "*part {count}"]:
    return label.unsqueeze(-1) == torch.arange(count, device=label.device)


def _without_labels(scores: Scores) -> list[Tensor]:
    return [sum_labels(scores[0]), *scores[1:]]


def _label_entropy(scores: Float[Tensor, "*part label"]) -> Float[Tensor, "*part"]:
    """Entropy of the labels of each part: terms that are never negative, so that a small entropy keeps its digits."""
    scores = scores.where(_has_label(scores).unsqueeze(-1), 0)
    best = scores.detach().argmax(-1, keepdim=True)
    is_read = (scores > -torch.inf).scatter(-1, best, False)
    below = (scores.gather(-1, best) - scores).where(is_read, 0)
    weight = (-below).exp().where(is_read, 0)
    rest = weight.sum(-1)
    return rest.log1p() + (weight * below).sum(-1) / (1 + rest)


def _best_assignments(
    losses: Float[Tensor, "*item row rank"], labels: Int[Tensor, "*item row rank"], count: int
) -> tuple[Float[Tensor, "*item {count}"], Int[Tensor, "*item {count} row"]]:
    """The best choices of a label for each row: the sums of their scores, sorted, and the labels."""
    # Halves are merged: the best of a pair of groups of rows lie among the sums of the best of each.
    rows = losses.shape[-2]
    missing = count - losses.shape[-1]
    groups = torch.cat([losses, losses.new_full((*losses.shape[:-1], missing), -torch.inf)], -1)
    members = torch.cat([labels, labels.new_zeros(*labels.shape[:-1], missing)], -1).unsqueeze(-1)
    while groups.shape[-2] != 1:
        if groups.shape[-2] % 2 or not rows:
            neutral = groups.new_full((*groups.shape[:-2], 1, count), -torch.inf)
            neutral[..., 0] = 0
            groups = torch.cat([groups, neutral], -2)
            members = torch.cat([members, members.new_zeros(*members.shape[:-3], 1, *members.shape[-2:])], -3)
            if not rows:
                break
        sums = groups[..., 0::2, :, None] + groups[..., 1::2, None, :]
        groups, choice = (array[..., :count] for array in sums.flatten(-2).sort(dim=-1, descending=True, stable=True))
        halves = zip(
            (members[..., 0::2, :, :], members[..., 1::2, :, :]), (choice // count, choice % count), strict=True
        )
        members = torch.cat(
            [half.gather(-2, rank.unsqueeze(-1).expand(*rank.shape, half.shape[-1])) for half, rank in halves], -1
        )
    return groups.squeeze(-2), members.squeeze(-3)[..., :rows]
