"""The best, the k best and random structures of a chart, in plain torch.

`kernels.chart` adds up the alternatives of a cell (the log semiring, with derivatives). Here a cell keeps its ``k``
best alternatives (the k-best semiring; with ``k = 1`` the max semiring) or draws one of them, and a top-down pass
collects the parts.

Reference: Goodman (1999), Semiring parsing; Huang and Chiang (2005), Better k-best parsing; Finkel et al. (2006),
Solving the problem of cascading errors (sampling).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, Rule, Window, inside
from structattn.kernels.numbers import logsumexp_and_shares
from structattn.kernels.random import sample_keys, uniform


@dataclass(frozen=True)
class ChartSelector:
    """Best and random structures of a chart.

    Ties go to the first split, then to the better rank of its left part; sorts are stable.

    Attributes:
        chart: the dynamic program.
    """

    chart: Chart

    def best(
        self, scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], *, count: int
    ) -> tuple[Float[Tensor, "{count} batch"], Bool[Tensor, "{count} batch part"]]:
        """The ``count`` best structures, with a sorted list in each cell (the k-best semiring)."""
        table = scores.new_full((1, self.chart.num_cells, count, len(scores)), -torch.inf)
        table[0, : self.chart.num_scores, 0] = scores.T
        kept = {}
        for number, rule in enumerate(self.chart.rules):
            target = rule.target.of(table, rule.cells)
            if not rule.sources:
                target[:, ..., 0, :] = 0
                continue
            values, kept[number] = _first(_combinations(self.chart, rule, table), count)
            target.copy_(values)
        goals = self.chart.goals(lengths).expand(count, -1)
        values = table[0].movedim(1, 0).gather(1, goals.unsqueeze(1)).squeeze(1)
        ranks = torch.arange(count, device=scores.device).unsqueeze(-1).expand(-1, len(scores))

        def choose(number: int, rank: Tensor) -> Tensor:
            return kept[number].gather(-2, rank.clamp(min=0))

        return values, _descend(self.chart, goals, ranks.masked_fill(values == -torch.inf, -1), choose, ranks=count)

    def draw(
        self,
        scores: Float[Tensor, "batch part"],
        lengths: Int[Tensor, " batch"],
        streams: Int[Tensor, " batch"],
        *,
        count: int,
    ) -> Bool[Tensor, "{count} batch part"]:
        """``count`` exact samples: from the goal down, every cell draws an alternative in proportion to its share."""
        table = inside(self.chart, scores.unsqueeze(0))
        goals = self.chart.goals(lengths)
        impossible = table[0].gather(0, goals.unsqueeze(0)) == -torch.inf
        keys = sample_keys(streams, count)

        def choose(number: int, rank: Tensor) -> Tensor:
            rule = self.chart.rules[number]
            if rule.place is None:
                return torch.zeros_like(rank)
            _, shares = logsumexp_and_shares(rule.terms(table), rule.split_axes())
            shares = shares[0].flatten(len(rule.cells), -2).movedim(-1, -2)
            places = _places(rule.place, rule.cells, device=scores.device)
            return categorical(shares, uniform(keys.T, places[..., None, None])).movedim(-1, -2)

        start = torch.zeros(count, len(scores), dtype=torch.int64, device=scores.device).masked_fill(impossible, -1)
        return _descend(self.chart, goals.expand(count, -1), start, choose, ranks=1)


def _places(place: Window, cells: tuple[int, ...], *, device: torch.device) -> Int[Tensor, "*cells"]:
    axes = [torch.arange(size, device=device) * stride for size, stride in zip(cells, place.strides, strict=True)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij")).sum(0) + place.offset


def _combinations(chart: Chart, rule: Rule, table: Tensor) -> Tensor:
    """Scores of all alternatives ``(order, *cells, split x rank of each computed source, batch)``."""
    computed = [source for source in rule.sources if source.offset >= chart.num_scores]
    factors = []
    for source in rule.sources:
        view = source.of(table, rule.sizes)
        ranks = [1] * len(computed)
        if source in computed:
            ranks[computed.index(source)] = view.shape[-2]
        else:
            view = view[..., :1, :]
        factors.append(view.reshape(*view.shape[:-2], *(ranks or [1]), view.shape[-1]))
    return reduce(torch.add, factors).flatten(1 + len(rule.cells), -2)


def _first(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` highest values along the second-to-last axis, and their indices; ``-inf`` if there are fewer."""
    if count == 1:
        best, index = values.max(-2, keepdim=True)
        return best, index[0]
    best, index = values.sort(dim=-2, descending=True, stable=True)
    best, index = best[..., :count, :], index[..., :count, :]
    missing = count - best.shape[-2]
    if missing:
        shape = (*best.shape[:-2], missing, best.shape[-1])
        best = torch.cat([best, best.new_full(shape, -torch.inf)], -2)
        index = torch.cat([index, index.new_zeros(shape)], -2)
    return best, index[0]


def categorical(
    shares: Float[Tensor, "*cell batch split"], numbers: Float[Tensor, "*cell batch count"]
) -> Int[Tensor, "*cell batch count"]:
    """The first index at which the cumulative sum of the shares exceeds a number times their total.

    Args:
        shares: of the alternatives, not negative; if all are zero, any index may be returned.
        numbers: uniform in ``[0, 1)``.

    Example:
        >>> categorical(torch.tensor([[0.2, 0.0, 0.3, 0.5]]), torch.tensor([[0.1, 0.3, 0.6]])).tolist()
        [[0, 2, 3]]
    """
    steps = shares.cumsum(-1)
    index = torch.searchsorted(steps, (numbers * steps[..., -1:]).contiguous(), right=True)
    # A product rounded up to the total would point past the last possible alternative.
    splits = torch.arange(shares.shape[-1], device=shares.device)
    return index.minimum(splits.where(shares > 0, 0).amax(-1, keepdim=True))


def _descend(
    chart: Chart, goals: Tensor, start: Tensor, choose: Callable[[int, Tensor], Tensor], *, ranks: int
) -> Bool[Tensor, "count batch part"]:
    """From the goal down, mark the cells that each structure uses (with the rank that it uses; -1 is unused).

    Args:
        chart: the dynamic program.
        goals: goal cells ``(count, batch)``.
        start: rank of each goal.
        choose: alternative of each cell of a rule, given ``(number of the rule, ranks (*cells, count, batch))``.
        ranks: how many ranks a computed cell has.
    """
    used = torch.full((1, chart.num_cells, *start.shape), -1, dtype=torch.int64, device=start.device)
    used[0].scatter_(0, goals.unsqueeze(0), start.unsqueeze(0))
    for number in reversed(range(len(chart.rules))):
        rule = chart.rules[number]
        if not rule.sources:
            continue
        rank = rule.target.of(used, rule.cells)[0]
        alternative = choose(number, rank)
        source_ranks = {}
        for source in reversed([s for s in rule.sources if s.offset >= chart.num_scores]):
            source_ranks[source] = alternative % ranks
            alternative = alternative // ranks
        num_splits = int(torch.Size(rule.splits).numel())
        splits = torch.arange(num_splits, device=start.device).view(-1, 1, 1)
        chosen = (alternative.unsqueeze(-3) == splits) & (rank >= 0).unsqueeze(-3)
        shape = (*rule.sizes, *start.shape)
        chosen = chosen.reshape(shape)
        for source in rule.sources:
            value = source_ranks.get(source, torch.zeros_like(rank))
            value = value.reshape(*rule.cells, *(1 for _ in rule.splits), *start.shape)
            marks = value.where(chosen, -1)
            axes = source.repeated()
            view = source.of(used, rule.sizes)[0]
            view.copy_(view.maximum(marks.amax(axes, keepdim=True) if axes else marks))
    return used[0, : chart.num_scores].movedim(0, -1) >= 0
