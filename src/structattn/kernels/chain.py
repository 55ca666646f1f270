"""Linear chains: the forward-backward program, with one transition matrix for all positions or one for each.

Separate because a compiled kernel for the same chains can stand behind the same two names, ``marginals`` and ``hvp``.

Reference: Lafferty, McCallum and Pereira (2001), Conditional random fields; Kim et al. (2017), section 3.1.
"""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
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


_OPERATORS, _ENTROPY = register_chart("chain", lambda sizes: chart(sizes[0], sizes[1], bool(sizes[2])))


def marginals(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "batch *position state state"],
    lengths: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch word state"], Float[Tensor, "batch *position state state"]]:
    """Log-partition, state marginals and transition marginals; differentiable twice more.

    Args:
        unary: score of each state of each word; ``-inf`` forbids it.
        transition: ``[..., from, to]``, one matrix per position (``word - 1`` of them), or one per sentence; then its
            marginals are expected counts.
        lengths: number of words of each sentence.

    Example:
        >>> import torch
        >>> log_partition, states, _ = marginals(torch.zeros(1, 3, 2), torch.zeros(1, 2, 2), torch.tensor([3]))
        >>> round(log_partition.exp().item()), states[0, 0].tolist()
        (8, [0.5, 0.5])
    """
    log_partition, parts = _OPERATORS.marginals(_packed(unary, transition), lengths, _sizes(unary, transition))
    states, transitions = _unpacked(parts, unary, transition)
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
        >>> import torch
        >>> scores = torch.zeros(1, 1, 2), torch.zeros(1, 2, 2)
        >>> hvp(*scores, torch.tensor([1]), unary_vector=torch.tensor([[[4.0, 0.0]]]), transition_vector=scores[1])[0]
        tensor([[[ 1., -1.]]])
    """
    vector = _packed(unary_vector, transition_vector)
    product = _OPERATORS.hvp(_packed(unary, transition), lengths, vector, _sizes(unary, transition))
    return _unpacked(product, unary, transition)


def entropy(
    unary: Float[Tensor, "batch word state"],
    transition: Float[Tensor, "batch *position state state"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        unary: as for `marginals`.
        transition: as for `marginals`.
        lengths: as for `marginals`.

    Example:
        >>> import torch
        >>> round(entropy(torch.zeros(1, 3, 2), torch.zeros(1, 2, 2), torch.tensor([3])).item(), 4)
        2.0794
    """
    return _ENTROPY(_packed(unary, transition), lengths, _sizes(unary, transition))[0]


def _packed(unary: Tensor, transition: Tensor) -> Tensor:
    return torch.cat([unary.flatten(1), transition.flatten(1)], 1)


def _unpacked(parts: Tensor, unary: Tensor, transition: Tensor) -> tuple[Tensor, Tensor]:
    split = unary.shape[1] * unary.shape[2]
    return parts[:, :split].view(unary.shape), parts[:, split:].reshape(transition.shape)


def _sizes(unary: Tensor, transition: Tensor) -> list[int]:
    return [unary.shape[1], unary.shape[2], int(transition.dim() == 3)]
