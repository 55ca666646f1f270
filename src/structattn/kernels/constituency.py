"""Binary phrase trees over scored spans: the inside-outside program (CKY).

Separate because two programs stand behind the same names, ``marginals`` and ``hvp``: the chart below, in plain torch,
and the compiled ``native/source/constituency.cpp``.

Reference: Baker (1979), Trainable grammars for speech recognition; Stern, Andreas and Klein (2017), A minimal
span-based parser.
"""

from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
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


def real_spans(lengths: Int[Tensor, "*batch"], num_words: int) -> Bool[Tensor, "*batch fence fence"]:
    """True for spans of at least one word within the sentence.

    Example:
        >>> real_spans(torch.tensor(1), 2).int().tolist()
        [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    """
    fence = torch.arange(num_words + 1, device=lengths.device)
    return (fence[:, None] < fence) & (fence <= lengths[..., None, None])


def best_span(
    scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, "batch part"], Float[Tensor, " batch"]]:
    """What may be taken out of the scores, and its sum: every tree has ``2 n - 1`` spans.

    Args:
        scores: score of each span, flat.
        lengths: number of words of each sentence.

    Example:
        >>> shift, total = best_span(torch.tensor([[1.0, 4.0, 2.0]]), torch.tensor([2]))
        >>> shift.tolist(), total.tolist()
        ([[4.0, 4.0, 4.0]], [12.0])
    """
    best = scores.amax(-1, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0)
    return best.expand_as(scores), best.squeeze(-1) * (2 * lengths - 1).clamp(min=0)


def _prepared(scores: Tensor, lengths: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    scores = scores.masked_fill(~real_spans(lengths, sizes[0]).flatten(1), -torch.inf)
    shift, total = best_span(scores, lengths)
    return scores - shift, total


OPERATORS, ENTROPY = register_chart("constituency", lambda sizes: chart(sizes[0]), _prepared)


def marginals(
    scores: Float[Tensor, "batch fence fence"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch fence fence"]]:
    """Log-partition and span marginals over all binary trees; differentiable twice more.

    Args:
        scores: ``[i, j]`` scores the span of words ``i..j-1``; ``-inf`` forbids it. Entries that are no span of the
            sentence are not read.
        lengths: number of words of each sentence.

    Example:
        >>> log_partition, spans = marginals(torch.zeros(1, 4, 4), torch.tensor([3]))
        >>> round(log_partition.exp().item()), spans[0, 0].tolist()
        (2, [0.0, 1.0, 0.5, 1.0])
    """
    return OPERATORS.marginals(scores, lengths, [scores.shape[1] - 1])


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
        >>> hvp(torch.zeros(1, 2, 2), torch.tensor([1]), torch.ones(1, 2, 2)).abs().sum().item()
        0.0
    """
    return OPERATORS.hvp(scores, lengths, vector, [scores.shape[1] - 1])


def entropy(scores: Float[Tensor, "batch fence fence"], lengths: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Entropy, as a sum of surprisals without cancellation; differentiable twice.

    Args:
        scores: as for `marginals`, but with ``-inf`` where there is no span.
        lengths: as for `marginals`.

    Example:
        >>> round(entropy(torch.zeros(1, 4, 4), torch.tensor([3])).item(), 4)
        0.6931
    """
    return ENTROPY(scores.flatten(1), lengths, [scores.shape[1] - 1])[0]
