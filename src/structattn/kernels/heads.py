"""What all kernels over dependency trees share: which arcs there are, what may be taken out of scores, and their names.

Separate because projective trees and all trees differ in their programs only.

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem, section 2.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.kernels.operators import Operators


@dataclass(frozen=True)
class HeadKernel:
    """The two names behind which a family of dependency trees stands.

    Attributes:
        operators: the same over any number of axes, with sizes.
    """

    operators: Operators

    def marginals(
        self,
        scores: Float[Tensor, "batch word head_id"],
        lengths: Int[Tensor, " batch"],
        *,
        single_root: bool = False,
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch word head_id"]]:
        """Log-partition and arc marginals over all trees of the family; differentiable twice more.

        Args:
            scores: row = word, column = id of its head (0 is the root); ``-inf`` forbids an arc. Rows and columns of
                padding, and a word's own column, are not read.
            lengths: number of words of each sentence.
            single_root: whether exactly one word hangs from the root.

        Example:
            >>> from structattn.kernels import dependency, spanning_tree
            >>> for family in (dependency, spanning_tree):
            ...     log_partition, arcs = family.marginals(torch.zeros(1, 2, 3), torch.tensor([2]))
            ...     print(round(log_partition.exp().item()), round(arcs[0, 0, 0].item(), 4))
            3 0.6667
            3 0.6667
        """
        return self.operators.marginals(scores, lengths, [scores.shape[1], int(single_root)])

    def hvp(
        self,
        scores: Float[Tensor, "batch word head_id"],
        lengths: Int[Tensor, " batch"],
        vector: Float[Tensor, "batch word head_id"],
        *,
        single_root: bool = False,
    ) -> Float[Tensor, "batch word head_id"]:
        """Hessian of the log-partition times a vector: the exact gradient of ``<marginals, vector>``.

        Args:
            scores: as for `marginals`.
            lengths: as for `marginals`.
            vector: what the marginals are contracted with.
            single_root: as for `marginals`.

        Example:
            >>> from structattn.kernels import dependency, spanning_tree
            >>> one = torch.zeros(1, 1, 2), torch.tensor([1]), torch.ones(1, 1, 2)
            >>> [family.hvp(*one).abs().max().item() < 1e-15 for family in (dependency, spanning_tree)]
            [True, True]
        """
        return self.operators.hvp(scores, lengths, vector, [scores.shape[1], int(single_root)])


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
    """What may be taken out of the scores, and its sum, the same in every tree.

    Every tree has one head for each word, and a single root has one word: their best scores may be taken out.

    Args:
        scores: row = word, column = id of its head; ``-inf`` forbids an arc.
        single_root: whether exactly one word hangs from the root.

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
    """Scores with ``-inf`` on what is no arc and without `best_heads`, and the sum of those.

    Args:
        scores: row = word, column = id of its head, flat.
        lengths: number of words of each sentence.
        sizes: number of words, and whether exactly one word hangs from the root.

    Example:
        >>> prepared(torch.tensor([[3.0, 9.0]]), torch.tensor([1]), (1, 0))
        (tensor([[0., -inf]]), tensor([3.]))
    """
    num_words, single_root = sizes
    arcs = scores.unflatten(-1, (num_words, num_words + 1)).masked_fill(~real_arcs(lengths, num_words), -torch.inf)
    shift, total = best_heads(arcs, single_root=bool(single_root))
    return (arcs - shift).flatten(1), total
