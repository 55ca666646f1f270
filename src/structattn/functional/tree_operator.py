"""What hierarchical accumulation needs to know of trees: constant tensors, independent of heads, channels and layers.

Separate from the accumulation because it is integers and counts only, built once per batch, while the accumulation is
linear algebra. Nguyen et al. 2020, "Tree-structured Attention with Hierarchical Accumulation", section 4.1.
"""

from functools import cached_property

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from structattn.functional.sparse import SparseMatrix

# How the published equations or the published code count; see ``hierarchical_accumulation``.
MODES = ("paper", "ref")


class TreeOperator:
    r"""The trees of a batch as the matrices of a linear map.

    With ``M[i, j]`` "phrase ``i`` covers leaf ``j``", ``D[i, t]`` "phrase ``t`` lies in the subtree of phrase ``i``",
    and ``V_ij = sum_t D[i, t] M[t, j]`` the number of phrases from ``i`` down to ``j``, the operator of one leaf weight
    is ``A[i, j] = M[i, j] / (len_i (V_ij + 1))``.

    Args:
        cover: ``M``; the leaves of a phrase are neighbours.
        below: ``D``, each real phrase below itself.
        mode: with ``"ref"`` the divisor is ``len_i V_ij``.
        dtype: type of the tensors.

    Raises:
        ValueError: for an unknown mode.

    Example:
        >>> cover = torch.tensor([[[True, True, True], [False, True, True]]])  # g over 0..2, h over 1..2
        >>> below = torch.tensor([[[True, True], [False, True]]])
        >>> TreeOperator(cover, below).operator
        tensor([[[0.1667, 0.1111, 0.1111],
                 [0.0000, 0.2500, 0.2500]]])
    """

    def __init__(
        self,
        cover: Bool[Tensor, "batch phrase leaf"],
        below: Bool[Tensor, "batch phrase phrase"],
        *,
        mode: str = "paper",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode expects one of {', '.join(MODES)}; got {mode!r}")
        self.mode = mode
        #: ``M`` and ``D`` as numbers.
        self.cover: Tensor = cover.to(dtype)
        self.below: Tensor = below.to(dtype)
        self.counts: Tensor = (self.below @ self.cover) * self.cover
        divisor = self.counts + 1 if mode == "paper" else self.counts
        self.operator: Tensor = self.cover / (cover.sum(-1, keepdim=True) * divisor).clamp(min=1)

    @classmethod
    def from_spans(
        cls,
        spans: Int64[Tensor, "batch phrase 2"],
        parents: Int64[Tensor, "batch phrase"],
        num_leaves: int,
        *,
        mode: str = "paper",
        dtype: torch.dtype = torch.float32,
    ) -> "TreeOperator":
        """The operator of phrases in any order.

        Args:
            spans: half-open leaf intervals; padding is an empty one.
            parents: index of each phrase's parent; a root is its own parent, or has -1.
            num_leaves: number of leaves, padding included.
            mode: as above.
            dtype: as above.

        Raises:
            ValueError: for a span outside of the leaves, or a parent that does not exist, does not cover its child or
                is below it. Contents are checked on the CPU only, where looking at them does not stall a device.

        Example:
            >>> operator = TreeOperator.from_spans(torch.tensor([[[0, 3], [1, 3]]]), torch.tensor([[0, 0]]), 3)
            >>> operator.below[0].tolist(), operator.counts[0].tolist()
            ([[1.0, 1.0], [0.0, 1.0]], [[1.0, 2.0, 2.0], [0.0, 1.0, 1.0]])
        """
        batch, phrases = parents.shape
        number = torch.arange(phrases, device=parents.device)
        above = torch.where(parents < 0, number, parents)
        if spans.device.type == "cpu":
            _check(spans, above, num_leaves)
        leaf = torch.arange(num_leaves, device=spans.device)
        cover = (spans[..., :1] <= leaf) & (leaf < spans[..., 1:])
        ancestors = torch.eye(phrases, dtype=torch.bool, device=spans.device).expand(batch, -1, -1)
        # Pointer doubling: within 2s steps above me lies what is within s steps of me or of my s-th parent.
        for _ in range(max(phrases - 1, 0).bit_length()):
            ancestors = ancestors | ancestors.gather(1, above[..., None].expand(-1, -1, phrases))
            above = above.gather(1, above)
        real = cover.any(-1)
        return cls(cover, ancestors.mT & real[:, None, :] & real[:, :, None], mode=mode, dtype=dtype)

    @property
    def depths(self) -> Int64[Tensor, "batch phrase"]:
        """Number of phrases from the root down to this one; 0 at padding."""
        return self.below.sum(1).long()

    @cached_property
    def by_height(self) -> SparseMatrix:
        """From leaf weights to sums by ``V``: row ``(b, i, v - 1)``, column ``(b, j)``, entry ``A[i, j]``."""
        with torch.inference_mode(False), torch.no_grad():
            batch, phrase, leaf = self.cover.nonzero().unbind(1)
            height = self.counts[batch, phrase, leaf].long() - 1
            return self._histogram(batch, phrase, leaf, step=height, num_steps=self.num_heights)

    @cached_property
    def by_place(self) -> SparseMatrix:
        """From leaf weights to sums by place: row ``(b, i, h - 1)``, column ``(b, j)``; an entry ``A[i, j]`` for each
        phrase below ``i`` whose ``h``-th leaf is ``j``."""
        with torch.inference_mode(False), torch.no_grad():
            batch, phrase, lower = self.below.nonzero().unbind(1)
            length = self.cover.sum(-1).long()[batch, lower]
            start = (self.cover.cumsum(-1) == 0).sum(-1)[batch, lower]
            place = torch.arange(int(length.sum()), device=length.device)
            place = place - (length.cumsum(0) - length).repeat_interleave(length)
            batch, phrase, start = (part.repeat_interleave(length) for part in (batch, phrase, start))
            return self._histogram(batch, phrase, start + place, step=place, num_steps=self.num_places)

    @cached_property
    def num_heights(self) -> int:
        """The largest ``V``."""
        return int(self.counts.max()) if self.counts.numel() else 0

    @cached_property
    def num_places(self) -> int:
        """Length of the longest phrase."""
        return int(self.cover.sum(-1).max()) if self.cover.numel() else 0

    def _histogram(self, batch: Tensor, phrase: Tensor, leaf: Tensor, *, step: Tensor, num_steps: int) -> SparseMatrix:
        num, phrases, leaves = self.cover.shape
        return SparseMatrix(
            (batch * phrases + phrase) * num_steps + step,
            batch * leaves + leaf,
            self.operator[batch, phrase, leaf],
            shape=(num * phrases * num_steps, num * leaves),
        )


def _check(spans: Tensor, parents: Tensor, num_leaves: int) -> None:
    phrases = parents.shape[1]
    start, end = spans.unbind(-1)
    bad = (start < 0) | (end < start) | (end > num_leaves)
    if bad.any():
        row, phrase = (int(index) for index in bad.nonzero()[0])
        raise ValueError(
            f"spans expect 0 <= start <= end <= {num_leaves} leaves, "
            f"got {tuple(spans[row, phrase].tolist())} for phrase {phrase} of tree {row}"
        )
    bad = parents >= phrases
    if not bad.any():
        above = spans.gather(1, parents[..., None].expand(-1, -1, 2))
        bad = (start < end) & ((above[..., 0] > start) | (above[..., 1] < end))
        top = parents
        for _ in range(max(phrases - 1, 0).bit_length()):
            top = top.gather(1, top)
        bad |= parents.gather(1, top) != top
    if bad.any():
        row, phrase = (int(index) for index in bad.nonzero()[0])
        raise ValueError(
            f"parents expect, for each phrase, one of {phrases} that covers it and is not below it (a root: itself), "
            f"got {int(parents[row, phrase])} for phrase {phrase} of tree {row}"
        )
