"""Arcs between words: which arcs exist, and which shift to subtract from their scores.

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem, section 2.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def sizes_of(scores: Sequence[Tensor], options: Sequence[int]) -> tuple[int, ...]:
    """Number of words, and whether exactly one word has the root as its head.

    Args:
        scores: one array ``(batch, word, head_id)``.
        options: whether there is a single root.

    Example:
        >>> sizes_of([torch.zeros(2, 3, 4)], [1])
        (3, 1)
    """
    return (scores[0].shape[1], *options)


def real_arcs(lengths: Int[Tensor, "*batch"], num_words: int) -> Bool[Tensor, "*batch word head_id"]:
    """True for arcs between words and from the root; False on padding and from a word to itself.

    Example:
        >>> real_arcs(torch.tensor(1), 2).int().tolist()
        [[1, 0, 0], [0, 0, 0]]
    """
    head = torch.arange(num_words + 1, device=lengths.device)
    word, length = head[1:, None], lengths[..., None, None]
    return (word <= length) & (head <= length) & (word != head)


def best_heads(
    scores: Float[Tensor, "batch word head_id"], *, single_root: bool
) -> tuple[Float[Tensor, "batch word head_id"], Float[Tensor, " batch"]]:
    """The shift to subtract from the scores, and its sum over a tree, the same for every tree.

    Every tree has one head for each word, and a single root has one child: their best scores can be subtracted.

    Args:
        scores: row = word, column = id of its head; ``-inf`` forbids an arc.
        single_root: whether exactly one word has the root as its head.

    Example:
        >>> scores = torch.tensor([[[1.0, -torch.inf, 3.0], [1.0, 5.0, -torch.inf]]])
        >>> shift, total = best_heads(scores, single_root=True)
        >>> shift.tolist(), total.tolist()
        ([[[1.0, 3.0, 3.0], [3.0, 5.0, 5.0]]], [6.0])
    """
    best = scores.amax(-1, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0)
    shift, total = best.expand_as(scores), best.sum((-1, -2))
    if single_root and scores.shape[-2]:
        root = (scores - best)[..., 0].amax(-1, keepdim=True)
        root = root.masked_fill(root == -torch.inf, 0)
        shift = torch.cat([shift[..., :1] + root.unsqueeze(-1), shift[..., 1:]], -1)
        total = total + root.squeeze(-1)
    return shift, total


def prepared(
    scores: Float[Tensor, "batch part"], lengths: Int[Tensor, " batch"], sizes: tuple[int, ...]
) -> tuple[Float[Tensor, "batch part"], Float[Tensor, " batch"]]:
    """Scores, ``-inf`` where there is no arc, minus the shift of `best_heads`, and the sum of that shift over a tree.

    Args:
        scores: row = word, column = id of its head, flat.
        lengths: number of words of each sentence.
        sizes: number of words, and whether exactly one word has the root as its head.

    Example:
        >>> prepared(torch.tensor([[3.0, 9.0]]), torch.tensor([1]), (1, 0))
        (tensor([[0., -inf]]), tensor([3.]))
    """
    num_words, single_root = sizes
    arcs = scores.unflatten(-1, (num_words, num_words + 1)).masked_fill(~real_arcs(lengths, num_words), -torch.inf)
    shift, total = best_heads(arcs, single_root=bool(single_root))
    return (arcs - shift).flatten(1), total
