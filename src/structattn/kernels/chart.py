"""Dynamic programs as data: a chart is a list of rules over strided windows of one flat table.

Families with a chart (chain, segments, projective trees, phrases) differ only in their rules. The bottom-up and the
top-down pass here, and the selection of the best, the k best and sampled structures in `kernels.selection`, process all
sentences and all spans of a width at once. Autograd is not used: the numbers carry their derivatives
(`kernels.numbers`).

Reference: Goodman (1999), Semiring parsing; Eisner (2016), Inside-outside and forward-backward algorithms are just
backprop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from structattn.kernels.numbers import logsumexp_and_shares, multiply


@dataclass(frozen=True)
class Window:
    """The cells of a rule: ``offset + sum_a stride_a index_a`` over axes ``a`` of the rule; stride 0 repeats."""

    offset: int
    strides: tuple[int, ...]

    def of(self, table: Tensor, sizes: Sequence[int]) -> Tensor:
        """View of a table ``(order, cell, *rest)`` as ``(order, *sizes, *rest)``; axes of stride 0 have size one."""
        order, cell, *rest = table.stride()
        shape = [size if stride else 1 for size, stride in zip(sizes, self.strides, strict=True)]
        strides = [cell * stride for stride in self.strides]
        offset = table.storage_offset() + cell * self.offset
        return table.as_strided((table.shape[0], *shape, *table.shape[2:]), (order, *strides, *rest), offset)

    def repeated(self) -> tuple[int, ...]:
        """Axes of the rule along which this window repeats itself."""
        return tuple(axis for axis, stride in enumerate(self.strides) if stride == 0)


@dataclass(frozen=True)
class Rule:
    """``target[c] = plus over s of the product of sources[c, s]``, for all cells ``c`` of one kind at once.

    Attributes:
        target: the cells that are filled; one stride for each cell axis.
        sources: earlier cells or scores; one stride for each cell axis and then each split axis. Without sources, the
            value is one.
        cells: sizes of the cell axes.
        splits: sizes of the split axes, the alternatives; empty if there is only one.
        place: the place of the random choice among the splits (`kernels.random`), an offset and a stride for each cell
            axis; it does not depend on the length of the longest sentence.
    """

    target: Window
    sources: tuple[Window, ...]
    cells: tuple[int, ...]
    splits: tuple[int, ...] = ()
    place: Window | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of all axes, cells first."""
        return self.cells + self.splits

    def split_axes(self) -> tuple[int, ...]:
        """The split axes, counted from the end of ``(order, *cells, *splits, batch)``."""
        return tuple(range(-1 - len(self.splits), -1))

    def terms(self, table: Tensor) -> Tensor:
        """The product (in log space, the sum) of the sources for every cell and split."""
        first, *others = (source.of(table, self.sizes) for source in self.sources)
        for other in others:
            first = first + other
        return first


@dataclass(frozen=True)
class Chart:
    """A dynamic program for sentences of up to some length.

    Attributes:
        num_scores: how many cells at the front of the table are scores; the others are computed.
        num_cells: size of the table.
        rules: in an order in which sources are complete before they are used.
        goal: the cell whose value is the log-partition; its one stride multiplies the length of a sentence.
        num_counted: how many scores, the last ones, a structure may use more than once; their marginals are expected
            counts.
    """

    num_scores: int
    num_cells: int
    rules: tuple[Rule, ...]
    goal: Window
    num_counted: int = 0

    def goals(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Goal cell of each sentence."""
        return self.goal.offset + self.goal.strides[0] * lengths


def inside(chart: Chart, scores: Float[Tensor, "order batch part"]) -> Float[Tensor, "order cell batch"]:
    """Bottom-up pass: the log-sum of all ways to build each cell, with its derivatives.

    Args:
        chart: the dynamic program.
        scores: numbers, see `kernels.numbers.make_dual`.
    """
    order, batch, parts = scores.shape
    table = scores.new_zeros(order, chart.num_cells, batch)
    table[0, parts:] = -torch.inf
    table[:, :parts] = scores.transpose(1, 2)
    for rule in chart.rules:
        target = rule.target.of(table, rule.cells)
        if not rule.sources:
            target[0] = 0
        elif not rule.splits:
            target.copy_(rule.terms(table))
        else:
            value, _ = logsumexp_and_shares(rule.terms(table), rule.split_axes())
            target.copy_(value.reshape(target.shape))
    return table


def outside(
    chart: Chart,
    table: Float[Tensor, "order cell batch"],
    lengths: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, "order batch"], Float[Tensor, "order batch part"]]:
    """Top-down pass: log-partition, and the probability that a structure uses each score.

    A cell distributes its probability to its sources in proportion to the shares of its terms. Only probabilities are
    multiplied, never ratios of partial sums, so nothing overflows, and forbidden parts stay exactly zero.

    Args:
        chart: the dynamic program.
        table: the output of `inside`.
        lengths: number of words of each sentence.
    """
    goals = chart.goals(lengths).expand(len(table), 1, -1)
    log_partition = table.gather(1, goals)
    used = torch.zeros_like(table)
    used[0].scatter_(0, goals[0], (log_partition[0] > -torch.inf).to(table.dtype))
    for rule in reversed(chart.rules):
        share = rule.target.of(used, rule.cells)
        if rule.splits:
            _, shares = logsumexp_and_shares(rule.terms(table), rule.split_axes())
            share = share.reshape(*share.shape[:-1], *(1 for _ in rule.splits), share.shape[-1])
            share = multiply(share, shares)
        for source in rule.sources:
            axes = tuple(1 + axis for axis in source.repeated())
            source.of(used, rule.sizes).add_(share.sum(axes, keepdim=True) if axes else share)
    # Rounding may leave 1 + 2e-16: clamp to the nearest probability.
    used[0, : chart.num_scores - chart.num_counted].clamp_(0, 1)
    return log_partition.squeeze(1), used[:, : chart.num_scores].transpose(1, 2)


def run(
    chart: Chart, scores: Float[Tensor, "order batch part"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, "order batch"], Float[Tensor, "order batch part"]]:
    """Both passes: ``log_partition`` and ``marginals``, with the derivatives that the scores carry.

    Args:
        chart: the dynamic program.
        scores: numbers, see `kernels.numbers.make_dual`.
        lengths: number of words of each sentence.
    """
    return outside(chart, inside(chart, scores), lengths)
