"""Dynamic programs as data: a chart is a list of rules over strided windows of one flat table.

Families with a chart differ only in their rules. All passes process all sentences and all spans of a width at once.
Bottom-up, a cell adds up its alternatives (the log semiring, with derivatives), keeps its ``k`` best ones (the k-best
semiring) or draws one of them; top-down, probabilities or the parts of structures are collected. Autograd is not used:
the numbers carry their derivatives (`kernels.dual_numbers`).

Reference: Goodman (1999), Semiring parsing; Eisner (2016), Inside-outside and forward-backward algorithms are just
backprop; Huang and Chiang (2005), Better k-best parsing; Finkel et al. (2006), Solving the problem of cascading errors
(sampling).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.dual_numbers import logsumexp_and_shares, multiply
from structattn.kernels.random import categorical, sample_keys, uniform

# So many alternatives of a cell are kept from one pass to the other.
_FEW = 2


@dataclass(frozen=True)
class Window:
    """The cells of a rule: ``offset + sum_a stride_a index_a`` over axes ``a`` of the rule; stride 0 repeats."""

    offset: int
    strides: tuple[int, ...]

    def view(self, table: Tensor, sizes: Sequence[int]) -> Tensor:
        """View of a table ``(order, cell, ...)`` as ``(order, *sizes, ...)``; axes of stride 0 have size one."""
        order, cell, *further = table.stride()
        shape = [size if stride else 1 for size, stride in zip(sizes, self.strides, strict=True)]
        strides = [cell * stride for stride in self.strides]
        offset = table.storage_offset() + cell * self.offset
        return table.as_strided((table.shape[0], *shape, *table.shape[2:]), (order, *strides, *further), offset)

    def repeated_axes(self) -> tuple[int, ...]:
        """Axes of the rule along which this window repeats itself."""
        return tuple(axis for axis, stride in enumerate(self.strides) if stride == 0)


@dataclass(frozen=True)
class Rule:
    """``target[c] = plus over s of the product of sources[c, s]``, for all cells ``c`` of one kind at once."""

    target: Window  # the cells that are filled; one stride for each cell axis
    # Earlier cells or scores, one stride for each cell axis and then each split axis; without sources the value is one.
    sources: tuple[Window, ...]
    cells: tuple[int, ...]  # sizes of the cell axes
    splits: tuple[int, ...] = ()  # sizes of the split axes, the alternatives; empty if there is only one
    # Ids of the random choices among the splits (`kernels.random`): an offset and a stride for each cell axis. They do
    # not depend on the length of the longest sentence.
    choices: Window | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of all axes, cells first."""
        return self.cells + self.splits

    def split_axes(self) -> tuple[int, ...]:
        """The split axes, counted from the end of ``(order, *cells, *splits, batch)``."""
        return tuple(range(-1 - len(self.splits), -1))

    def terms(self, table: Tensor) -> Tensor:
        """The product (in log space, the sum) of the sources for every cell and split."""
        return reduce(torch.add, (source.view(table, self.sizes) for source in self.sources))


@dataclass(frozen=True)
class Chart:
    """A dynamic program for sentences of up to some length; the first cells of its table are the scores."""

    num_scores: int
    num_cells: int
    rules: tuple[Rule, ...]  # in an order in which sources are complete before they are used
    goal: Window  # the cell whose value is the log-partition; its one stride multiplies the length of a sentence
    # How many scores, the last ones, a structure may use more than once; their marginals are expected counts.
    num_counted: int = 0

    @property
    def has_few_alternatives(self) -> bool:
        """Whether the shares of all alternatives take little more room than the cells."""
        return all(math.prod(rule.splits) <= _FEW for rule in self.rules)

    def goals(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Goal cell of each sentence."""
        return self.goal.offset + self.goal.strides[0] * lengths


def inside(
    chart: Chart, scores: Float[Tensor, "order batch part"], kept: dict[int, Tensor] | None = None
) -> Float[Tensor, "order cell batch"]:
    """Bottom-up pass: the log-sum of all ways to build each cell, with its derivatives; ``kept`` gets the shares."""
    order, batch, parts = scores.shape
    table = scores.new_zeros(order, chart.num_cells, batch)
    table[0, parts:] = -torch.inf
    table[:, :parts] = scores.transpose(1, 2)
    for number, rule in enumerate(chart.rules):
        target = rule.target.view(table, rule.cells)
        if not rule.sources:
            target[0] = 0
        elif not rule.splits:
            target.copy_(rule.terms(table))
        else:
            value, shares = logsumexp_and_shares(rule.terms(table), rule.split_axes())
            target.copy_(value.reshape(target.shape))
            if kept is not None:
                kept[number] = shares
    return table


def outside(
    chart: Chart,
    table: Float[Tensor, "order cell batch"],
    lengths: Int[Tensor, " batch"],
    kept: Mapping[int, Tensor] = MappingProxyType({}),
) -> tuple[Float[Tensor, "order batch"], Float[Tensor, "order batch part"]]:
    """Top-down pass: log-partition, and the probability that a structure uses each score.

    Only probabilities are multiplied, so nothing overflows, and forbidden parts stay exactly zero.
    """
    goals = chart.goals(lengths).expand(len(table), 1, -1)
    log_partition = table.gather(1, goals)
    used = torch.zeros_like(table)
    used[0].scatter_(0, goals[0], (log_partition[0] > -torch.inf).to(table.dtype))
    for number, rule in reversed(list(enumerate(chart.rules))):
        share = rule.target.view(used, rule.cells)
        if rule.splits:
            shares = kept.get(number)
            if shares is None:
                _, shares = logsumexp_and_shares(rule.terms(table), rule.split_axes())
            share = share.reshape(*share.shape[:-1], *(1 for _ in rule.splits), share.shape[-1])
            share = multiply(share, shares)
        for source in rule.sources:
            axes = tuple(1 + axis for axis in source.repeated_axes())
            source.view(used, rule.sizes).add_(share.sum(axes, keepdim=True) if axes else share)
    # Rounding may leave 1 + 2e-16: clamp to the nearest probability.
    used[0, : chart.num_scores - chart.num_counted].clamp_(0, 1)
    return log_partition.squeeze(1), used[:, : chart.num_scores].transpose(1, 2)


def run(
    chart: Chart, scores: Float[Tensor, "order batch part"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, "order batch"], Float[Tensor, "order batch part"]]:
    """Both passes: ``log_partition`` and ``marginals``, with the derivatives that the scores carry."""
    kept: dict[int, Tensor] = {}
    table = inside(chart, scores, kept if chart.has_few_alternatives else None)
    return outside(chart, table, lengths, kept)


@dataclass(frozen=True)
class ChartSelector:
    """Best and random structures of a chart. Ties go to the first split, then to the better rank of its left part."""

    chart: Chart

    def best(
        self, scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], *, count: int
    ) -> tuple[Float[Tensor, "{count} batch"], Bool[Tensor, "{count} batch part"]]:
        """The ``count`` best structures, with a sorted list in each cell (the k-best semiring)."""
        table = scores.new_full((1, self.chart.num_cells, count, len(scores)), -torch.inf)
        table[0, : self.chart.num_scores, 0] = scores.T
        alternatives = {}
        for number, rule in enumerate(self.chart.rules):
            target = rule.target.view(table, rule.cells)
            if not rule.sources:
                target[:, ..., 0, :] = 0
                continue
            values, alternatives[number] = _highest(_combine(self.chart, rule, table), count)
            target.copy_(values)
        goals = self.chart.goals(lengths).expand(count, -1)
        values = table[0].movedim(1, 0).gather(1, goals.unsqueeze(1)).squeeze(1)
        ranks = torch.arange(count, device=scores.device).unsqueeze(-1).expand(-1, len(scores))

        def choose(number: int, rank: Tensor) -> Tensor:
            return alternatives[number].gather(-2, rank.clamp(min=0))

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
            if rule.choices is None:
                return torch.zeros_like(rank)
            _, shares = logsumexp_and_shares(rule.terms(table), rule.split_axes())
            shares = shares[0].flatten(len(rule.cells), -2).movedim(-1, -2)
            choices = _choice_ids(rule.choices, rule.cells, device=scores.device)
            return categorical(shares, uniform(keys.T, choices[..., None, None])).movedim(-1, -2)

        start = torch.zeros(count, len(scores), dtype=torch.int64, device=scores.device).masked_fill(impossible, -1)
        return _descend(self.chart, goals.expand(count, -1), start, choose, ranks=1)


def _choice_ids(choices: Window, cells: tuple[int, ...], *, device: torch.device) -> Int[Tensor, "*cells"]:
    axes = [torch.arange(size, device=device) * stride for size, stride in zip(cells, choices.strides, strict=True)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij")).sum(0) + choices.offset


def _combine(chart: Chart, rule: Rule, table: Tensor) -> Tensor:
    """Scores of all alternatives ``(order, *cells, split x rank of each computed source, batch)``."""
    computed = [source for source in rule.sources if source.offset >= chart.num_scores]
    factors = []
    for source in rule.sources:
        view = source.view(table, rule.sizes)
        ranks = [1] * len(computed)
        if source in computed:
            ranks[computed.index(source)] = view.shape[-2]
        else:
            view = view[..., :1, :]
        factors.append(view.reshape(*view.shape[:-2], *(ranks or [1]), view.shape[-1]))
    return reduce(torch.add, factors).flatten(1 + len(rule.cells), -2)


def _highest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
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


def _descend(
    chart: Chart, goals: Tensor, start: Tensor, choose: Callable[[int, Tensor], Tensor], *, ranks: int
) -> Bool[Tensor, "count batch part"]:
    """The scores that structures use, given the cell and the rank at which each begins, ``(count, batch)``; -1 is none.

    ``choose(number of a rule, ranks of its cells)`` returns an alternative: a split, and the ranks of its sources.
    """
    used = torch.full((1, chart.num_cells, *start.shape), -1, dtype=torch.int64, device=start.device)
    used[0].scatter_(0, goals.unsqueeze(0), start.unsqueeze(0))
    for number in reversed(range(len(chart.rules))):
        rule = chart.rules[number]
        if not rule.sources:
            continue
        rank = rule.target.view(used, rule.cells)[0]
        alternative = choose(number, rank)
        source_ranks = {}
        for source in reversed([source for source in rule.sources if source.offset >= chart.num_scores]):
            source_ranks[source] = alternative % ranks
            alternative = alternative // ranks
        num_splits = int(torch.Size(rule.splits).numel())
        splits = torch.arange(num_splits, device=start.device).view(-1, 1, 1)
        selected = (alternative.unsqueeze(-3) == splits) & (rank >= 0).unsqueeze(-3)
        selected = selected.reshape((*rule.sizes, *start.shape))
        for source in rule.sources:
            value = source_ranks.get(source, torch.zeros_like(rank))
            value = value.reshape(*rule.cells, *(1 for _ in rule.splits), *start.shape)
            marks = value.where(selected, -1)
            axes = source.repeated_axes()
            view = source.view(used, rule.sizes)[0]
            view.copy_(view.maximum(marks.amax(axes, keepdim=True) if axes else marks))
    return used[0, : chart.num_scores].movedim(0, -1) >= 0
