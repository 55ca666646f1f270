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

from structattn.kernels.chart import Chart, ChartSelector, Rule, Window, run
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.random import choice_id

# The kinds of random choices: the state before a state, and the last state.
_PREVIOUS, _LAST = range(2)


@lru_cache(maxsize=64)
def chart(num_words: int, num_states: int, is_shared: bool) -> Chart:
    """Rules of the forward algorithm; the scores are the unaries, then the transitions (once, if they are shared).

    ``alpha[0,c] = U[0,c]``; ``alpha[i,c] = plus_b alpha[i-1,b] T[i-1,b,c] U[i,c]``; ``total[i] = plus_c alpha[i-1,c]``.
    """
    n, c = num_words, num_states
    transitions = n * c
    alpha = transitions + c * c * (1 if is_shared else max(n - 1, 0))
    total = alpha + n * c
    rules = [Rule(Window(total, (1,)), (), (1,))]
    if n:
        rules.append(Rule(Window(alpha, (1,)), (Window(0, (1,)),), (c,)))
    for i in range(1, n):
        previous = Window(alpha + (i - 1) * c, (0, 1))
        transition = Window(transitions + (0 if is_shared else (i - 1) * c * c), (1, c))
        unary = Window(i * c, (1, 0))
        choices = Window(choice_id(_PREVIOUS, 0, i), (choice_id(0, 1, 0),))
        rules.append(Rule(Window(alpha + i * c, (1,)), (previous, transition, unary), (c,), (c,), choices))
    if n:
        last = Window(choice_id(_LAST, 0, 1), (choice_id(0, 0, 1),))
        rules.append(Rule(Window(total + 1, (1,)), (Window(alpha, (c, 1)),), (n,), (c,), last))
    return Chart(alpha, total + n + 1, tuple(rules), Window(total, (1,)), num_counted=c * c if is_shared else 0)


def real_parts(
    lengths: Int[Tensor, "*batch"], *, num_words: int, num_states: int, is_shared: bool
) -> Bool[Tensor, "*batch part"]:
    """True for the unaries and the transitions that a sentence has; one matrix of transitions if it is shared."""
    word = torch.arange(num_words, device=lengths.device)
    real = word < lengths[..., None]
    unary = real.repeat_interleave(num_states, -1)
    square = num_states * num_states
    if is_shared:
        return torch.cat([unary, unary.new_ones(*lengths.shape, square)], -1)
    return torch.cat([unary, real[..., 1:].repeat_interleave(square, -1)], -1)


def _prepare(
    scores: Float[Tensor, "batch part"], lengths: Tensor, sizes: tuple[int, ...]
) -> tuple[Float[Tensor, "batch part"], Float[Tensor, " batch"]]:
    """Scores minus the best state of each word and the best transition at each position, and the sum of those."""
    words, states, kind = sizes
    real = real_parts(lengths, num_words=words, num_states=states, is_shared=bool(kind))
    scores = scores.masked_fill(~real, -torch.inf)
    unary, transition = scores.split([words * states, scores.shape[-1] - words * states], -1)
    best = unary.detach().unflatten(-1, (words, states)).amax(-1)
    best = best.masked_fill(best == -torch.inf, 0)
    steps = transition.detach().unflatten(-1, (-1, states * states)).amax(-1) if transition.shape[-1] else transition
    steps = steps.masked_fill(steps == -torch.inf, 0)
    shift = torch.cat([best.repeat_interleave(states, -1), steps.repeat_interleave(states * states, -1)], -1)
    times = (lengths - 1).clamp(min=0) if kind else 1
    return scores - shift, best.sum(-1) + steps.sum(-1) * times


def _sizes(scores: Sequence[Tensor], options: Sequence[int]) -> tuple[int, ...]:
    """Numbers of words and states, and 0 for one matrix per position, 1 for one per sentence, 2 for one in all."""
    unary, transition = scores
    return unary.shape[1], unary.shape[2], 4 - transition.dim()


OPERATORS = Operators(
    Family(
        name="chain",
        sizes=_sizes,
        prepare=_prepare,
        program=lambda numbers, lengths, sizes: run(chart(*sizes[:2], bool(sizes[2])), numbers, lengths),
        selector=lambda sizes: ChartSelector(chart(*sizes[:2], bool(sizes[2]))),
        shared_axes=(None, 2),
        # If all positions share a matrix, its parts count how often each transition is used.
        row_axes=lambda scores: [1, 2 if scores[1].dim() == 4 else 0],
    )
)
