"""Binary phrase trees over scored spans: the inside-outside program (CKY).

Separate because a compiled kernel for the same trees can stand behind the same two names, ``marginals`` and ``hvp``.

Reference: Baker (1979), Trainable grammars for speech recognition; Stern, Andreas and Klein (2017), A minimal
span-based parser.
"""

from functools import lru_cache

from jaxtyping import Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, Rule, Window
from structattn.kernels.operators import register_chart


@lru_cache(maxsize=64)
def chart(num_words: int) -> Chart:
    """Half-open spans: ``B[i,i+1] = S[i,i+1]``; ``B[i,k] = S[i,k] plus_j B[i,j] B[j,k]``; goal ``B[0,n]``."""
    size = num_words + 1
    spans = size * size
    diagonal, down, right = size + 1, size, 1
    rules = [Rule(Window(spans, (1,)), (), (1,))]
    if num_words:
        rules.append(Rule(Window(spans + 1, (diagonal,)), (Window(1, (diagonal,)),), (num_words,)))
    for width in range(2, size):
        left = Window(spans + 1, (diagonal, right))
        right_half = Window(spans + size + width, (diagonal, down))
        score = Window(width, (diagonal, 0))
        target = Window(spans + width, (diagonal,))
        rules.append(Rule(target, (left, right_half, score), (size - width,), (width - 1,)))
    return Chart(spans, 2 * spans, tuple(rules), Window(spans, (1,)))


_OPERATORS, _ENTROPY = register_chart("constituency", lambda sizes: chart(sizes[0]))


def marginals(
    scores: Float[Tensor, "batch fence fence"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch fence fence"]]:
    """Log-partition and span marginals over all binary trees; differentiable twice more.

    Args:
        scores: ``[i, j]`` scores the span of words ``i..j-1``; ``-inf`` forbids it.
        lengths: number of words of each sentence.

    Example:
        >>> import torch
        >>> log_partition, spans = marginals(torch.zeros(1, 4, 4), torch.tensor([3]))
        >>> round(log_partition.exp().item()), spans[0, 0].tolist()
        (2, [0.0, 1.0, 0.5, 1.0])
    """
    log_partition, parts = _OPERATORS.marginals(scores.flatten(1), lengths, [scores.shape[1] - 1])
    return log_partition, parts.view_as(scores)


def hvp(
    scores: Float[Tensor, "batch fence fence"],
    lengths: Int[Tensor, " batch"],
    vector: Float[Tensor, "batch fence fence"],
) -> Float[Tensor, "batch fence fence"]:
    """Hessian of the log-partition times a vector: the exact gradient of ``<marginals, vector>``.

    Args:
        scores: as for `marginals`.
        lengths: as for `marginals`.
        vector: what the marginals are contracted with.

    Example:
        >>> import torch
        >>> hvp(torch.zeros(1, 2, 2), torch.tensor([1]), torch.ones(1, 2, 2)).abs().sum().item()
        0.0
    """
    return _OPERATORS.hvp(scores.flatten(1), lengths, vector.flatten(1), [scores.shape[1] - 1]).view_as(scores)


def entropy(scores: Float[Tensor, "batch fence fence"], lengths: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        scores: as for `marginals`.
        lengths: as for `marginals`.

    Example:
        >>> import torch
        >>> round(entropy(torch.zeros(1, 4, 4), torch.tensor([3])).item(), 4)
        0.6931
    """
    return _ENTROPY(scores.flatten(1), lengths, [scores.shape[1] - 1])[0]
