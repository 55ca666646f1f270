"""Projective dependency trees: the program of Eisner, for one or several words under the root.

Separate because two programs stand behind the same names, ``marginals`` and ``hvp``: the chart below, in plain torch,
and the compiled ``native/source/dependency.cpp``.

Reference: Eisner (2000), Bilexical grammars and their cubic-time parsing algorithms; Kim et al. (2017), section 3.2.
"""

from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, Rule, Window
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


def real_arcs(lengths: Int[Tensor, "*batch"], num_words: int) -> Bool[Tensor, "*batch word head_id"]:
    """True for arcs between words and from the root; False on padding and from a word to itself.

    Example:
        >>> real_arcs(torch.tensor(1), 2).int().tolist()
        [[1, 0, 0], [0, 0, 0]]
    """
    head = torch.arange(num_words + 1, device=lengths.device)
    word, length = head[1:, None], lengths[..., None, None]
    return (word <= length) & (head <= length) & (word != head)


def best_heads(
    scores: Float[Tensor, "batch word head_id"], *, single_root: bool
) -> tuple[Float[Tensor, "batch word head_id"], Float[Tensor, " batch"]]:
    """What may be taken out of the scores, and its sum, the same in every tree.

    Every tree has one head for each word, and a single root has one word: their best scores may be taken out.

    Args:
        scores: row = word, column = id of its head; ``-inf`` forbids an arc.
        single_root: whether exactly one word hangs from the root.

    Example:
        >>> scores = torch.tensor([[[1.0, -torch.inf, 3.0], [1.0, 5.0, -torch.inf]]])
        >>> shift, total = best_heads(scores, single_root=True)
        >>> shift.tolist(), total.tolist()
        ([[[1.0, 3.0, 3.0], [3.0, 5.0, 5.0]]], [6.0])
    """
    best = scores.amax(-1, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0)
    shift, total = best.expand_as(scores), best.sum((-1, -2))
    if single_root and scores.shape[-2]:
        root = (scores - best)[..., 0].amax(-1, keepdim=True)
        root = root.masked_fill(root == -torch.inf, 0)
        shift = torch.cat([shift[..., :1] + root.unsqueeze(-1), shift[..., 1:]], -1)
        total = total + root.squeeze(-1)
    return shift, total


def _prepared(scores: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    num_words, single_root = sizes
    arcs = scores.unflatten(-1, (num_words, num_words + 1)).masked_fill(~real_arcs(lengths, num_words), -torch.inf)
    shift, total = best_heads(arcs, single_root=bool(single_root))
    return (arcs - shift).flatten(1), total


OPERATORS, ENTROPY = register_chart("dependency", lambda sizes: chart(sizes[0], bool(sizes[1])), _prepared)


def marginals(
    scores: Float[Tensor, "batch word head_id"], lengths: Int[Tensor, " batch"], *, single_root: bool = False
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch word head_id"]]:
    """Log-partition and arc marginals over all projective trees; differentiable twice more.

    Args:
        scores: row = word, column = id of its head (0 is the root); ``-inf`` forbids an arc. Rows and columns of
            padding, and a word's own column, are not read.
        lengths: number of words of each sentence.
        single_root: whether exactly one word hangs from the root.

    Example:
        >>> log_partition, arcs = marginals(torch.zeros(1, 2, 3), torch.tensor([2]))
        >>> round(log_partition.exp().item()), arcs[0, 0].tolist()
        (3, [0.6666..., 0.0, 0.3333...])
    """
    sizes = [scores.shape[1], int(single_root)]
    log_partition, parts = OPERATORS.marginals(scores.flatten(1), lengths, sizes)
    return log_partition, parts.view_as(scores)


def hvp(
    scores: Float[Tensor, "batch word head_id"],
    lengths: Int[Tensor, " batch"],
    vector: Float[Tensor, "batch word head_id"],
    *,
    single_root: bool = False,
) -> Float[Tensor, "batch word head_id"]:
    """Hessian of the log-partition times a vector: the exact gradient of ``<marginals, vector>``.

    Args:
        scores: as for `marginals`.
        lengths: as for `marginals`.
        vector: what the marginals are contracted with.
        single_root: as for `marginals`.

    Example:
        >>> hvp(torch.zeros(1, 1, 2), torch.tensor([1]), torch.ones(1, 1, 2)).tolist()
        [[[0.0, 0.0]]]
    """
    sizes = [scores.shape[1], int(single_root)]
    return OPERATORS.hvp(scores.flatten(1), lengths, vector.flatten(1), sizes).view_as(scores)


def entropy(
    scores: Float[Tensor, "batch word head_id"], lengths: Int[Tensor, " batch"], *, single_root: bool = False
) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        scores: as for `marginals`, but with ``-inf`` on padding and in a word's own column.
        lengths: as for `marginals`.
        single_root: as for `marginals`.

    Example:
        >>> round(entropy(torch.zeros(1, 2, 3), torch.tensor([2])).item(), 4)
        1.0986
    """
    return ENTROPY(scores.flatten(1), lengths, [scores.shape[1], int(single_root)])[0]
