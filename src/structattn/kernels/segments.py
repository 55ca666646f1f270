"""Segmentations with labelled segments: the semi-Markov forward program.

Separate because a compiled kernel for the same segments can stand behind the same two names, ``marginals`` and ``hvp``.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
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


def real_segments(
    lengths: Int[Tensor, "*batch"], sizes: Sequence[int]
) -> Bool[Tensor, "*batch word width state state"]:
    """True for segments within the sentence; before the first word there is no label but 0.

    Args:
        lengths: number of words of each sentence.
        sizes: number of words of the longest sentence, of a segment, and of states.

    Example:
        >>> real_segments(torch.tensor(1), [2, 2, 1]).flatten().tolist()
        [True, False, False, False]
    """
    words, widths, states = sizes
    start = torch.arange(words, device=lengths.device)[:, None]
    end = start + torch.arange(1, widths + 1, device=lengths.device)
    part = (end <= lengths[..., None, None])[..., None, None]
    known = (start > 0)[..., None, None] | (torch.arange(states, device=lengths.device)[:, None] == 0)
    return (part & known).expand(*lengths.shape, words, widths, states, states)


def _prepared(scores: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Nothing can be taken out: structures differ in their number of segments."""
    real = real_segments(lengths, sizes).flatten(1)
    return scores.masked_fill(~real, -torch.inf), scores.new_zeros(len(scores))


OPERATORS, ENTROPY = register_chart("segments", lambda sizes: chart(sizes[0], sizes[1], sizes[2]), _prepared)


def marginals(
    scores: Float[Tensor, "batch word width state state"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch word width state state"]]:
    """Log-partition and segment marginals over all labelled segmentations; differentiable twice more.

    Args:
        scores: ``[start, width - 1, previous label, label]``; ``-inf`` forbids a segment. Segments that end beyond the
            sentence are not read.
        lengths: number of words of each sentence.

    Example:
        >>> log_partition, _ = marginals(torch.zeros(1, 3, 3, 1, 1), torch.tensor([3]))
        >>> round(log_partition.exp().item())
        4
    """
    return OPERATORS.marginals(scores, lengths, list(scores.shape[1:4]))


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
        >>> hvp(torch.zeros(1, 1, 1, 1, 1), torch.tensor([1]), torch.ones(1, 1, 1, 1, 1)).item()
        0.0
    """
    return OPERATORS.hvp(scores, lengths, vector, list(scores.shape[1:4]))


def entropy(
    scores: Float[Tensor, "batch word width state state"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        scores: as for `marginals`, but with ``-inf`` where there is no segment.
        lengths: as for `marginals`.

    Example:
        >>> round(entropy(torch.zeros(1, 3, 3, 1, 1), torch.tensor([3])).item(), 4)
        1.3863
    """
    return ENTROPY(scores.flatten(1), lengths, list(scores.shape[1:4]))[0]
