"""Segmentations with labelled segments: the semi-Markov forward algorithm.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from structattn.kernels.chart import Chart, ChartSelector, Rule, Window, run
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.random import choice_id

# The kinds of random choices: the segment before a label, and the last label.
_PREVIOUS, _LAST = range(2)


@lru_cache(maxsize=64)
def chart(num_words: int, max_width: int, num_states: int) -> Chart:
    """Rules over ends: ``beta[t,c] = plus over start s and previous label b of beta[s,b] score[s, t-s-1, b, c]``.

    The label before the first word is 0: ``beta[0,0]`` is one and the other ``beta[0,c]`` are impossible.
    """
    n, c = num_words, num_states
    per_width, per_start = c * c, max_width * c * c
    beta = n * per_start
    total = beta + (n + 1) * c
    rules = [Rule(Window(beta, (1,)), (), (1,))]
    for end in range(1, n + 1):
        widths = min(max_width, end)
        start = end - widths
        previous = Window(beta + start * c, (0, c, 1))
        segment = Window(start * per_start + (widths - 1) * per_width, (1, per_start - per_width, c))
        choices = Window(choice_id(_PREVIOUS, 0, end), (choice_id(0, 1, 0),))
        rules.append(Rule(Window(beta + end * c, (1,)), (previous, segment), (c,), (widths, c), choices))
    last = Window(choice_id(_LAST, 0, 0), (choice_id(0, 0, 1),))
    rules.append(Rule(Window(total, (1,)), (Window(beta, (c, 1)),), (n + 1,), (c,), last))
    return Chart(beta, total + n + 1, tuple(rules), Window(total, (1,)))


def real_segments(
    lengths: Int[Tensor, "*batch"], sizes: Sequence[int]
) -> Bool[Tensor, "*batch word width state state"]:
    """True for segments within the sentence; the only label before the first word is 0.

    Sizes are the number of words of the longest sentence and of the longest segment, and the number of states.
    """
    words, widths, states = sizes
    start = torch.arange(words, device=lengths.device)[:, None]
    end = start + torch.arange(1, widths + 1, device=lengths.device)
    inside = (end <= lengths[..., None, None])[..., None, None]
    follows = (start > 0)[..., None, None] | (torch.arange(states, device=lengths.device)[:, None] == 0)
    return (inside & follows).expand(*lengths.shape, words, widths, states, states)


def _prepare(scores: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Nothing can be subtracted: structures differ in their number of segments."""
    real = real_segments(lengths, sizes).flatten(1)
    return scores.masked_fill(~real, -torch.inf), scores.new_zeros(len(scores))


OPERATORS = Operators(
    Family(
        name="segments",
        sizes=lambda scores, options: tuple(scores[0].shape[1:4]),
        prepare=_prepare,
        program=lambda numbers, lengths, sizes: run(chart(*sizes), numbers, lengths),
        selector=lambda sizes: ChartSelector(chart(*sizes)),
    )
)
