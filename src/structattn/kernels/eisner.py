"""Projective dependency trees: Eisner's algorithm, with one or several words attached to the root.

Reference: Eisner (2000), Bilexical grammars and their cubic-time parsing algorithms; Koo et al. (2007), Structured
prediction models via the matrix-tree theorem, section 2; Kim et al. (2017), section 3.2.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, ChartSelector, Rule, Window, run
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.random import choice_id

# The kinds of random choices: how a span is split, and the word attached to a single root.
_HALVES, _RIGHT, _LEFT, _ROOT = range(4)


@lru_cache(maxsize=64)
def chart(num_words: int, single_root: bool) -> Chart:
    """Rules over positions 0 (root) and 1..n; scores ``theta(h -> m)`` in row ``m - 1``, column ``h``."""
    # ``X[s,t] = plus_u CR[s,u] CL[u+1,t]``; ``IR = X theta(s -> t)``; ``IL = X theta(t -> s)``;
    # ``CR[s,t] = plus_u IR[s,u] CR[u,t]``; ``CL[s,t] = plus_u CL[s,u] IL[u,t]``; goal ``CR[0,n]``. With a single root,
    # position 0 takes no part in spans and the goal is ``plus_r theta(0 -> r) CL[1,r] CR[r,n]``.
    size = num_words + 1
    num_scores = num_words * size
    tables = {name: num_scores + index * size * size for index, name in enumerate(("X", "IR", "IL", "CR", "CL"))}
    ends = num_scores + len(tables) * size * size

    def cells(name: str, row: int, column: int, *strides: int) -> Window:
        return Window(tables[name] + row * size + column, strides)

    def choices(kind: int, start: int, width: int) -> Window:
        return Window(choice_id(kind, start, start + width), (choice_id(0, 1, 1),))

    diagonal, down, right = size + 1, size, 1
    rules = [Rule(cells(name, 0, 0, diagonal), (), (size,)) for name in ("CR", "CL")]
    first = int(single_root)
    for width in range(1, size):
        # Spans (s, s + width) with s = first, first + 1, ...; the root cannot be a modifier, so left items start at 1.
        rightward, leftward, splits = (size - width - first,), (size - width - 1,), (width,)
        if rightward[0] <= 0:
            break
        end = first + width
        halves = (cells("CR", first, first, diagonal, right), cells("CL", first + 1, end, diagonal, down))
        rules.append(Rule(cells("X", first, end, diagonal), halves, rightward, splits, choices(_HALVES, first, width)))
        arc = Window((end - 1) * size + first, (diagonal,))
        rules.append(Rule(cells("IR", first, end, diagonal), (cells("X", first, end, diagonal), arc), rightward))
        halves = (cells("IR", first, first + 1, diagonal, right), cells("CR", first + 1, end, diagonal, down))
        rules.append(Rule(cells("CR", first, end, diagonal), halves, rightward, splits, choices(_RIGHT, first, width)))
        if leftward[0] > 0:
            end = 1 + width
            arc = Window(end, (diagonal,))
            rules.append(Rule(cells("IL", 1, end, diagonal), (cells("X", 1, end, diagonal), arc), leftward))
            halves = (cells("CL", 1, 1, diagonal, right), cells("IL", 1, end, diagonal, down))
            rules.append(Rule(cells("CL", 1, end, diagonal), halves, leftward, splits, choices(_LEFT, 1, width)))
    if not single_root:
        return Chart(num_scores, ends, tuple(rules), cells("CR", 0, 0, right))
    rules.append(Rule(Window(ends, (1,)), (), (1,)))
    if num_words:
        root = Window(0, (0, size))
        # CR[r, t] is empty for r > t, so every end t may try every root r.
        parts = (root, cells("CL", 1, 1, 0, right), cells("CR", 1, 1, right, down))
        under_root = Window(choice_id(_ROOT, 0, 1), (choice_id(0, 0, 1),))
        rules.append(Rule(Window(ends + 1, (1,)), parts, (num_words,), (num_words,), under_root))
    return Chart(num_scores, ends + size, tuple(rules), Window(ends, (1,)))


def real_arcs(lengths: Int[Tensor, "*batch"], num_words: int) -> Bool[Tensor, "*batch word head_id"]:
    """True for arcs between words and from the root; False on padding and from a word to itself."""
    head = torch.arange(num_words + 1, device=lengths.device)
    word, length = head[1:, None], lengths[..., None, None]
    return (word <= length) & (head <= length) & (word != head)


def arc_sizes(scores: Sequence[Tensor], options: Sequence[int]) -> tuple[int, ...]:
    """Number of words, and whether exactly one word has the root as its head."""
    return (scores[0].shape[1], *options)


def prepare_arcs(
    scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], sizes: tuple[int, ...]
) -> tuple[Float[Tensor, "batch part"], Float[Tensor, " batch"]]:
    """Scores, ``-inf`` where there is no arc, minus the best of each word, and the sum of those over a tree.

    Every tree has one head for each word, and a single root has one child: so both can be subtracted from all trees.
    """
    num_words, single_root = sizes
    arcs = scores.unflatten(-1, (num_words, num_words + 1)).masked_fill(~real_arcs(lengths, num_words), -torch.inf)
    best = arcs.detach().amax(-1, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0)
    shift, total = best.expand_as(arcs), best.sum((-1, -2))
    if single_root and num_words:
        root = (arcs.detach() - best)[..., 0].amax(-1, keepdim=True)
        root = root.masked_fill(root == -torch.inf, 0)
        shift = torch.cat([shift[..., :1] + root.unsqueeze(-1), shift[..., 1:]], -1)
        total = total + root.squeeze(-1)
    return (arcs - shift).flatten(1), total


OPERATORS = Operators(
    Family(
        name="dependency",
        sizes=arc_sizes,
        prepare=prepare_arcs,
        program=lambda numbers, lengths, sizes: run(chart(sizes[0], bool(sizes[1])), numbers, lengths),
        selector=lambda sizes: ChartSelector(chart(sizes[0], bool(sizes[1]))),
        row_axes=lambda scores: [1],
    )
)
