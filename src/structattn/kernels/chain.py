"""Linear chains: the forward-backward program, with one transition matrix for all positions or one for each.

Separate because two programs stand behind the same names, ``marginals`` and ``hvp``: the chart below, in plain torch,
and the compiled ``native/source/chain.cpp``.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields; Kim et al. (2017), section 3.1.
"""

from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, Rule, Window
from structattn.kernels.operators import register_chart


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
        rules.append(Rule(Window(alpha + i * c, (1,)), (before, transition, here), (c,), (c,)))
    if n:
        rules.append(Rule(Window(total + 1, (1,)), (Window(alpha, (c, 1)),), (n,), (c,)))
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
    """What may be taken out of the scores, and its sum: every sequence has one state for each word.

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


OPERATORS, ENTROPY = register_chart("chain", lambda sizes: chart(sizes[0], sizes[1], bool(sizes[2])), _prepared)


def marginals(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "batch *position state state"],
    lengths: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch word state"], Float[Tensor, "batch *position state state"]]:
    """Log-partition, state marginals and transition marginals; differentiable twice more.

    Args:
        unary: score of each state of each word; ``-inf`` forbids it. What stands beyond the end is not read.
        transition: ``[..., from, to]``, one matrix per position (``word - 1`` of them), or one per sentence; then its
            marginals are expected counts.
        lengths: number of words of each sentence.

    Example:
        >>> log_partition, states, _ = marginals(torch.zeros(1, 3, 2), torch.zeros(1, 2, 2), torch.tensor([3]))
        >>> round(log_partition.exp().item()), states[0, 0].tolist()
        (8, [0.5, 0.5])
    """
    log_partition, parts = OPERATORS.marginals(packed(unary, transition), lengths, sizes_of(unary, transition))
    states, transitions = unpacked(parts, unary, transition)
    return log_partition, states, transitions


def hvp(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "batch *position state state"],
    lengths: Int[Tensor, " batch"],
    *,
    unary_vector: Float[Tensor, "batch word state"],
    transition_vector: Float[Tensor, "batch *position state state"],
) -> tuple[Float[Tensor, "batch word state"], Float[Tensor, "batch *position state state"]]:
    """Hessian of the log-partition times a vector: the exact gradient of ``<marginals, vector>``.

    Args:
        unary: as for `marginals`.
        transition: as for `marginals`.
        lengths: as for `marginals`.
        unary_vector: what the state marginals are contracted with.
        transition_vector: what the transition marginals are contracted with.

    Example:
        >>> scores = torch.zeros(1, 1, 2), torch.zeros(1, 2, 2)
        >>> hvp(*scores, torch.tensor([1]), unary_vector=torch.tensor([[[4.0, 0.0]]]), transition_vector=scores[1])[0]
        tensor([[[ 1., -1.]]])
    """
    vector = packed(unary_vector, transition_vector)
    product = OPERATORS.hvp(packed(unary, transition), lengths, vector, sizes_of(unary, transition))
    return unpacked(product, unary, transition)


def entropy(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "batch *position state state"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        unary: as for `marginals`, but with ``-inf`` beyond the end.
        transition: as for `marginals`, but with ``-inf`` beyond the end.
        lengths: as for `marginals`.

    Example:
        >>> round(entropy(torch.zeros(1, 3, 2), torch.zeros(1, 2, 2), torch.tensor([3])).item(), 4)
        2.0794
    """
    return ENTROPY(packed(unary, transition), lengths, sizes_of(unary, transition))[0]


def packed(
    unary: Float[Tensor, "batch word state"], transition: Float[Tensor, "batch *position state state"]
) -> Float[Tensor, "batch part"]:
    """Both in one row for each sentence, as the operators take them."""
    return torch.cat([unary.flatten(1), transition.flatten(1)], 1)


def unpacked(
    parts: Float[Tensor, "batch part"],
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "batch *position state state"],
) -> tuple[Float[Tensor, "batch word state"], Float[Tensor, "batch *position state state"]]:
    """What `packed` has put together."""
    split = unary.shape[1] * unary.shape[2]
    return parts[:, :split].view(unary.shape), parts[:, split:].reshape(transition.shape)


def sizes_of(
    unary: Float[Tensor, "batch word state"], transition: Float[Tensor, "batch *position state state"]
) -> list[int]:
    """Number of words, number of states, and whether each sentence has one matrix of transitions."""
    return [unary.shape[1], unary.shape[2], int(transition.dim() == 3)]
