"""Linear chains: the forward-backward algorithm, with one transition matrix for all positions or one for each.

Compiled programs read unaries and transitions as two arrays: copying them into one would take longer than computing a
short sentence.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields; Kim et al. (2017), section 3.1.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, Rule, Window, run
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.random import place
from structattn.kernels.selection import ChartSelector

# The random choices of a sequence, see `kernels.random.place`: the state before another, and the last state.
_BEFORE, _LAST = range(2)


@lru_cache(maxsize=64)
def chart(num_words: int, num_states: int, shared: bool) -> Chart:
    """Rules of the forward algorithm; the scores are the unaries, then the transitions (once, if they are shared).

    ``alpha[0,c] = U[0,c]``; ``alpha[i,c] = plus_b alpha[i-1,b] T[i-1,b,c] U[i,c]``; ``total[i] = plus_c alpha[i-1,c]``.
    """
    n, c = num_words, num_states
    transitions = n * c
    alpha = transitions + c * c * (1 if shared else max(n - 1, 0))
    total = alpha + n * c
    rules = [Rule(Window(total, (1,)), (), (1,))]
    if n:
        rules.append(Rule(Window(alpha, (1,)), (Window(0, (1,)),), (c,)))
    for i in range(1, n):
        before = Window(alpha + (i - 1) * c, (0, 1))
        transition = Window(transitions + (0 if shared else (i - 1) * c * c), (1, c))
        here = Window(i * c, (1, 0))
        choice = Window(place(_BEFORE, 0, i), (place(0, 1, 0),))
        rules.append(Rule(Window(alpha + i * c, (1,)), (before, transition, here), (c,), (c,), choice))
    if n:
        last = Window(place(_LAST, 0, 1), (place(0, 0, 1),))
        rules.append(Rule(Window(total + 1, (1,)), (Window(alpha, (c, 1)),), (n,), (c,), last))
    return Chart(alpha, total + n + 1, tuple(rules), Window(total, (1,)), num_counted=c * c if shared else 0)


def real_parts(
    lengths: Int[Tensor, "*batch"], *, num_words: int, num_states: int, shared: bool
) -> Bool[Tensor, "*batch part"]:
    """True for the unaries and the transitions that a sentence has.

    Args:
        lengths: number of words of each sentence.
        num_words: the longest possible sentence.
        num_states: number of states.
        shared: whether there is one matrix of transitions.

    Example:
        >>> real_parts(torch.tensor(1), num_words=2, num_states=1, shared=False).tolist()
        [True, False, False]
    """
    word = torch.arange(num_words, device=lengths.device)
    real = word < lengths[..., None]
    unary = real.repeat_interleave(num_states, -1)
    square = num_states * num_states
    if shared:
        return torch.cat([unary, unary.new_ones(*lengths.shape, square)], -1)
    return torch.cat([unary, real[..., 1:].repeat_interleave(square, -1)], -1)


def best_states(
    scores: Float[Tensor, "batch part"], sizes: tuple[int, ...]
) -> tuple[Float[Tensor, "batch part"], Float[Tensor, " batch"]]:
    """The shift to subtract from the scores, and its sum over a sequence: every sequence has one state for each word.

    Args:
        scores: unaries and transitions, flat; ``-inf`` where there is no word.
        sizes: number of words, number of states, and whether the transitions are shared.

    Example:
        >>> shift, total = best_states(torch.tensor([[1.0, 4.0, 9.0, 9.0, 9.0, 9.0]]), (1, 2, 1))
        >>> shift.tolist(), total.tolist()
        ([[4.0, 4.0, 0.0, 0.0, 0.0, 0.0]], [4.0])
    """
    words, states = sizes[:2]
    unary, transition = scores.split([words * states, scores.shape[-1] - words * states], -1)
    best = unary.unflatten(-1, (words, states)).amax(-1)
    best = best.masked_fill(best == -torch.inf, 0)
    return torch.cat([best.repeat_interleave(states, -1), torch.zeros_like(transition)], -1), best.sum(-1)


def _prepared(scores: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    real = real_parts(lengths, num_words=sizes[0], num_states=sizes[1], shared=bool(sizes[2]))
    scores = scores.masked_fill(~real, -torch.inf)
    shift, total = best_states(scores, sizes)
    return scores - shift, total


def _sizes(scores: Sequence[Tensor], options: Sequence[int]) -> tuple[int, ...]:
    """Numbers of words and states, and 0 for one matrix per position, 1 for one per sentence, 2 for one in all."""
    unary, transition = scores
    return unary.shape[1], unary.shape[2], 4 - transition.dim()


OPERATORS = Operators(
    Family(
        name="chain",
        sizes=_sizes,
        prepare=_prepared,
        program=lambda numbers, lengths, sizes: run(chart(*sizes[:2], bool(sizes[2])), numbers, lengths),
        selector=lambda sizes: ChartSelector(chart(*sizes[:2], bool(sizes[2]))),
        shared_axes=(None, 2),
        # If all positions share a matrix, its parts count how often each transition is used.
        row_axes=lambda scores: [1, 2 if scores[1].dim() == 4 else 0],
    )
)
