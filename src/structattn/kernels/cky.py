"""Binary phrase trees over scored spans: the inside-outside algorithm (CKY).

Reference: Baker (1979), Trainable grammars for speech recognition; Stern, Andreas and Klein (2017), A minimal
span-based neural constituency parser.
"""

from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.chart import Chart, ChartSelector, Rule, Window, run
from structattn.kernels.family import Family
from structattn.kernels.operators import Operators
from structattn.kernels.random import choice_id


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
        split = Window(choice_id(0, 0, width), (choice_id(0, 1, 1),))
        rules.append(Rule(target, (left, right_half, score), (size - width,), (width - 1,), split))
    return Chart(spans, 2 * spans, tuple(rules), Window(spans, (1,)))


def real_spans(lengths: Int[Tensor, "*batch"], num_words: int) -> Bool[Tensor, "*batch fencepost fencepost"]:
    """True for spans of at least one word within the sentence."""
    post = torch.arange(num_words + 1, device=lengths.device)
    return (post[:, None] < post) & (post <= lengths[..., None, None])


def _prepare(
    scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], sizes: tuple[int, ...]
) -> tuple[Float[Tensor, "batch part"], Float[Tensor, " batch"]]:
    """Scores minus the best one, and its sum over a tree: every tree has ``2 n - 1`` spans."""
    scores = scores.masked_fill(~real_spans(lengths, sizes[0]).flatten(1), -torch.inf)
    best = scores.detach().amax(-1, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0)
    return scores - best.expand_as(scores), best.squeeze(-1) * (2 * lengths - 1).clamp(min=0)


OPERATORS = Operators(
    Family(
        name="constituency",
        sizes=lambda scores, options: (scores[0].shape[1] - 1,),
        prepare=_prepare,
        program=lambda numbers, lengths, sizes: run(chart(sizes[0]), numbers, lengths),
        selector=lambda sizes: ChartSelector(chart(sizes[0])),
    )
)
