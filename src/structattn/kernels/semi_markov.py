"""Segmentations with labelled segments: the semi-Markov forward algorithm, with three kinds of scores.

A segment has a score after each label; or one of its own, beside a matrix of transitions; or the sum of scores of its
words and of its width, beside such a matrix.

Reference: Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction; Rabiner (1989),
A tutorial on hidden Markov models, section IV.D (explicit durations).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from structattn.kernels.chart import Chart, ChartSelector, Rule, Window, run
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.programs import Scores
from structattn.kernels.random import choice_id

# The kinds of random choices: the segment before a label, or its width; the last label; the label before a segment.
_PREVIOUS, _LAST, _BEFORE = range(3)


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


@lru_cache(maxsize=64)
def joined_chart(num_words: int, max_width: int, num_states: int) -> Chart:
    """Rules over beginnings and ends of segments; the scores are those of segments, then the transitions.

    ``begin[s,c] = plus_b end[s,b] T[b,c]``, one for ``s = 0``; ``end[t,c] = plus_s begin[s,c] score[s, t-s-1, c]``.
    """
    n, c = num_words, num_states
    transitions = n * max_width * c
    begin = transitions + c * c
    rules = []
    for t in range(1, n + 1):
        widths = min(max_width, t)
        first = t - widths
        segment = Window((first * max_width + widths - 1) * c, (1, (max_width - 1) * c))
        rules.append([_end_rule(begin + n * c, t, (Window(begin + first * c, (1, c)), segment), (c, widths))])
    return _complete(rules, transitions, begin, c)


@lru_cache(maxsize=64)
def summed_chart(num_words: int, max_width: int, num_states: int) -> Chart:
    """Rules over open segments as well; the scores are those of words, of transitions, of widths."""
    # open[t,0,c] = begin[t,c] word[t,0,c]; open[t,k,c] = open[t-1,k-1,c] word[t,1,c];
    # end[t+1,c] = plus_k open[t,k,c] width[k,c]
    n, c = num_words, num_states
    transitions = n * 2 * c
    durations = transitions + c * c
    begin = durations + max_width * c
    open_segments = begin + (2 * n + 1) * c + n + 1
    rules = []
    for t in range(n):
        here, word, longer = open_segments + t * max_width * c, 2 * t * c, min(max_width - 1, t)
        start = Rule(Window(here, (1,)), (Window(begin + t * c, (1,)), Window(word, (1,))), (c,))
        before, further = Window(here - max_width * c, (c, 1)), Window(word + c, (0, 1))
        go_on = [Rule(Window(here + c, (c, 1)), (before, further), (longer, c))] if longer else []
        widths = (Window(here, (1, c)), Window(durations, (1, c)))
        rules.append([start, *go_on, _end_rule(begin + n * c, t + 1, widths, (c, longer + 1))])
    return _complete(rules, transitions, begin, c, num_open=n * max_width * c)


def _end_rule(end: int, t: int, sources: tuple[Window, ...], sizes: tuple[int, int]) -> Rule:
    choices = Window(choice_id(_PREVIOUS, 0, t), (choice_id(0, 1, 0),))
    return Rule(Window(end + t * sizes[0], (1,)), sources, sizes[:1], sizes[1:], choices)


def _complete(to_ends: Sequence[Sequence[Rule]], transitions: int, begin: int, c: int, *, num_open: int = 0) -> Chart:
    """The chart of the rules up to each end, with those of beginnings, after any end, and of whole sentences."""
    n = len(to_ends)
    end = begin + n * c
    total = end + (n + 1) * c
    rules = [Rule(Window(total, (1,)), (), (1,))]
    for t, to_end in enumerate(to_ends):
        first = Window(begin + t * c, (1,))
        if t == 0:
            rules.append(Rule(first, (), (c,)))
        else:
            sources = (Window(end + t * c, (0, 1)), Window(transitions, (1, c)))
            choices = Window(choice_id(_BEFORE, 0, t), (choice_id(0, 1, 0),))
            rules.append(Rule(first, sources, (c,), (c,), choices))
        rules += to_end
    if n:
        last = Window(choice_id(_LAST, 0, 1), (choice_id(0, 0, 1),))
        rules.append(Rule(Window(total + 1, (1,)), (Window(end + c, (c, 1)),), (n,), (c,), last))
    num_cells = total + n + 1 + num_open
    return Chart(begin, num_cells, tuple(rules), Window(total, (1,)), num_counted=begin - transitions)


def real_segments(
    lengths: Int[Tensor, "*batch"], sizes: Sequence[int]
) -> Bool[Tensor, "*batch word width state state"]:
    """True for segments within the sentence; the only label before the first word is 0.

    Sizes are the number of words of the longest sentence and of the longest segment, and the number of states.
    """
    words, _, states = sizes
    start = torch.arange(words, device=lengths.device)
    follows = (start > 0)[:, None] | (torch.arange(states, device=lengths.device) == 0)
    inside = real_joined(lengths, sizes).unsqueeze(-2)
    return inside & follows[:, None, :, None]


def real_joined(lengths: Int[Tensor, "*batch"], sizes: Sequence[int]) -> Bool[Tensor, "*batch word width state"]:
    """True for segments within the sentence."""
    words, widths, states = sizes
    end = torch.arange(words, device=lengths.device)[:, None] + torch.arange(1, widths + 1, device=lengths.device)
    inside = (end <= lengths[..., None, None]).unsqueeze(-1)
    return inside.expand(*lengths.shape, words, widths, states)


def real_words(lengths: Int[Tensor, "*batch"], sizes: Sequence[int]) -> Bool[Tensor, "*batch word 2 state"]:
    """True for words within the sentence, as the first of a segment or, but for the first word, as a further one."""
    words, _, states = sizes
    word = torch.arange(words, device=lengths.device)
    inside = torch.stack([word < lengths[..., None], (word > 0) & (word < lengths[..., None])], -1)
    return inside.unsqueeze(-1).expand(*lengths.shape, words, 2, states)


def _family(
    name: str,
    make_chart: Callable[[int, int, int], Chart],
    real: Callable[[Tensor, Sequence[int]], Tensor],
    sizes: Callable[[Scores], tuple[int, ...]],
    shared_axes: tuple[int | None, ...] = (None,),
    rows: int = 0,
) -> Operators:
    """The operators of segmentations with one kind of scores; sizes are words, widths, states, and what is shared."""

    def prepare(scores: Tensor, lengths: Tensor, numbers: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        # Nothing can be subtracted: structures differ in their number of segments.
        is_real = real(lengths, numbers[:3]).flatten(1)
        is_real = torch.cat([is_real, is_real.new_ones(len(scores), scores.shape[1] - is_real.shape[1])], 1)
        return scores.masked_fill(~is_real, -torch.inf), scores.new_zeros(len(scores))

    def sizes_of(scores: Scores, options: Sequence[int]) -> tuple[int, ...]:
        shared = [int(array.dim() == 2) for array in scores[1:]]
        return (*sizes(scores), *shared)

    return Operators(
        Family(
            name=name,
            sizes=sizes_of,
            prepare=prepare,
            program=lambda numbers, lengths, sizes: run(make_chart(*sizes[:3]), numbers, lengths),
            selector=lambda sizes: ChartSelector(make_chart(*sizes[:3])),
            shared_axes=shared_axes,
            row_axes=lambda scores: [rows, *(0 for _ in scores[1:])],
        )
    )


OPERATORS = _family("segments", chart, real_segments, lambda scores: tuple(scores[0].shape[1:4]))
JOINED_OPERATORS = _family(
    "joined_segments", joined_chart, real_joined, lambda scores: tuple(scores[0].shape[1:]), (None, 2)
)
SUMMED_OPERATORS = _family(
    "summed_segments",
    summed_chart,
    real_words,
    lambda scores: (scores[0].shape[1], *scores[2].shape[-2:]),
    (None, 2, 2),
    rows=2,
)
