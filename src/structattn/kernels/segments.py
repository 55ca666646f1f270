"""Segmentations with labelled segments: the semi-Markov forward program.

Separate because a compiled kernel for the same segments can stand behind the same two names, ``marginals`` and ``hvp``.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
"""

from functools import lru_cache

from jaxtyping import Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, Rule, Window
from structattn.kernels.operators import register_chart


@lru_cache(maxsize=64)
def chart(num_words: int, max_width: int, num_states: int) -> Chart:
    """Rules over ends: ``beta[t,c] = plus over start s and previous label b of beta[s,b] score[s, t-s-1, b, c]``.

    Before the first word stands label 0: ``beta[0,0]`` is one and the other ``beta[0,c]`` are impossible.
    """
    n, c = num_words, num_states
    per_width, per_start = c * c, max_width * c * c
    beta = n * per_start
    total = beta + (n + 1) * c
    rules = [Rule(Window(beta, (1,)), (), (1,))]
    for end in range(1, n + 1):
        widths = min(max_width, end)
        start = end - widths
        before = Window(beta + start * c, (0, c, 1))
        segment = Window(start * per_start + (widths - 1) * per_width, (1, per_start - per_width, c))
        rules.append(Rule(Window(beta + end * c, (1,)), (before, segment), (c,), (widths, c)))
    rules.append(Rule(Window(total, (1,)), (Window(beta, (c, 1)),), (n + 1,), (c,)))
    return Chart(beta, total + n + 1, tuple(rules), Window(total, (1,)))


_OPERATORS, _ENTROPY = register_chart("segments", lambda sizes: chart(sizes[0], sizes[1], sizes[2]))


def marginals(
    scores: Float[Tensor, "batch word width state state"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch word width state state"]]:
    """Log-partition and segment marginals over all labelled segmentations; differentiable twice more.

    Args:
        scores: ``[start, width - 1, previous label, label]``; ``-inf`` forbids a segment.
        lengths: number of words of each sentence; segments that end beyond must be ``-inf``.

    Example:
        >>> import torch
        >>> log_partition, _ = marginals(torch.zeros(1, 3, 3, 1, 1), torch.tensor([3]))
        >>> round(log_partition.exp().item())
        4
    """
    log_partition, parts = _OPERATORS.marginals(scores.flatten(1), lengths, list(scores.shape[1:4]))
    return log_partition, parts.view_as(scores)


def hvp(
    scores: Float[Tensor, "batch word width state state"],
    lengths: Int[Tensor, " batch"],
    vector: Float[Tensor, "batch word width state state"],
) -> Float[Tensor, "batch word width state state"]:
    """Hessian of the log-partition times a vector: the exact gradient of ``<marginals, vector>``.

    Args:
        scores: as for `marginals`.
        lengths: as for `marginals`.
        vector: what the marginals are contracted with.

    Example:
        >>> import torch
        >>> hvp(torch.zeros(1, 1, 1, 1, 1), torch.tensor([1]), torch.ones(1, 1, 1, 1, 1)).item()
        0.0
    """
    return _OPERATORS.hvp(scores.flatten(1), lengths, vector.flatten(1), list(scores.shape[1:4])).view_as(scores)


def entropy(
    scores: Float[Tensor, "batch word width state state"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        scores: as for `marginals`.
        lengths: as for `marginals`.

    Example:
        >>> import torch
        >>> round(entropy(torch.zeros(1, 3, 3, 1, 1), torch.tensor([3])).item(), 4)
        1.3863
    """
    return _ENTROPY(scores.flatten(1), lengths, list(scores.shape[1:4]))[0]
