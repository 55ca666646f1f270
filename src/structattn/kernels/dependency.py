"""Projective dependency trees: the program of Eisner, for one or several words under the root.

Separate because two programs stand behind the same names, ``marginals`` and ``hvp``: the chart below, in plain torch,
and the compiled ``native/source/dependency.cpp``.

Reference: Eisner (2000), Bilexical grammars and their cubic-time parsing algorithms; Kim et al. (2017), section 3.2.
"""

from functools import lru_cache

from jaxtyping import Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, Rule, Window
from structattn.kernels.heads import HeadKernel, prepared
from structattn.kernels.operators import register_chart


@lru_cache(maxsize=64)
def chart(num_words: int, single_root: bool) -> Chart:
    r"""Rules over positions 0 (root) and 1..n; scores ``theta(h -> m)`` in row ``m - 1``, column ``h``.

    ``X[s,t] = plus_u CR[s,u] CL[u+1,t]``; ``IR = X theta(s -> t)``; ``IL = X theta(t -> s)``;
    ``CR[s,t] = plus_u IR[s,u] CR[u,t]``; ``CL[s,t] = plus_u CL[s,u] IL[u,t]``; goal ``CR[0,n]``. With a single root,
    position 0 takes no part in spans and the goal is ``plus_r theta(0 -> r) CL[1,r] CR[r,n]``.
    """
    size = num_words + 1
    num_scores = num_words * size
    tables = {name: num_scores + index * size * size for index, name in enumerate(("X", "IR", "IL", "CR", "CL"))}
    ends = num_scores + len(tables) * size * size

    def cells(name: str, row: int, column: int, *strides: int) -> Window:
        return Window(tables[name] + row * size + column, strides)

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
        rules.append(Rule(cells("X", first, end, diagonal), halves, rightward, splits))
        arc = Window((end - 1) * size + first, (diagonal,))
        rules.append(Rule(cells("IR", first, end, diagonal), (cells("X", first, end, diagonal), arc), rightward))
        halves = (cells("IR", first, first + 1, diagonal, right), cells("CR", first + 1, end, diagonal, down))
        rules.append(Rule(cells("CR", first, end, diagonal), halves, rightward, splits))
        if leftward[0] > 0:
            end = 1 + width
            arc = Window(end, (diagonal,))
            rules.append(Rule(cells("IL", 1, end, diagonal), (cells("X", 1, end, diagonal), arc), leftward))
            halves = (cells("CL", 1, 1, diagonal, right), cells("IL", 1, end, diagonal, down))
            rules.append(Rule(cells("CL", 1, end, diagonal), halves, leftward, splits))
    if not single_root:
        return Chart(num_scores, ends, tuple(rules), cells("CR", 0, 0, right))
    rules.append(Rule(Window(ends, (1,)), (), (1,)))
    if num_words:
        root = Window(0, (0, size))
        # CR[r, t] is empty for r > t, so every end t may try every root r.
        parts = (root, cells("CL", 1, 1, 0, right), cells("CR", 1, 1, right, down))
        rules.append(Rule(Window(ends + 1, (1,)), parts, (num_words,), (num_words,)))
    return Chart(num_scores, ends + size, tuple(rules), Window(ends, (1,)))


OPERATORS, ENTROPY = register_chart("dependency", lambda sizes: chart(sizes[0], bool(sizes[1])), prepared)
_KERNEL = HeadKernel(OPERATORS)
marginals, hvp = _KERNEL.marginals, _KERNEL.hvp


def entropy(
    scores: Float[Tensor, "batch word head_id"], lengths: Int[Tensor, " batch"], *, single_root: bool = False
) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        scores: as for `marginals`, but with ``-inf`` on padding and in a word's own column.
        lengths: as for `marginals`.
        single_root: as for `marginals`.

    Example:
        >>> import torch
        >>> round(entropy(torch.zeros(1, 2, 3), torch.tensor([2])).item(), 4)
        1.0986
    """
    return ENTROPY(scores.flatten(1), lengths, [scores.shape[1], int(single_root)])[0]
