"""Tree structure for hierarchical accumulation: constant tensors, independent of heads, channels and layers.

Integers and counts only, made once per batch. Nguyen et al. 2020, "Tree-structured Attention with Hierarchical
Accumulation", section 4.1.
"""

import copy
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from structattn.functional.torch_state import is_exporting
from structattn.functional.tree_histogram import PaddedHistogram, TreeHistogram

# Count as in the published equations, or as in the published code; see ``hierarchical_accumulation``.
MODES = ("paper", "ref")


class TreeOperator:
    r"""The trees of a batch as the matrices of a linear map.

    With ``M[i, j]`` "phrase ``i`` covers leaf ``j``", ``D[i, t]`` "phrase ``t`` lies in the subtree of phrase ``i``",
    and ``V_ij = sum_t D[i, t] M[t, j]`` the number of phrases from ``i`` down to ``j``, the operator of one leaf weight
    is ``A[i, j] = M[i, j] / (len_i (V_ij + 1))``.

    Args:
        cover: ``M``; the leaves of a phrase are contiguous; of two phrases over one leaf, one is below the other.
        below: ``D``; each real phrase counts as below itself.
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
        #: ``D`` without its diagonal, transposed: the phrases above each one.
        self.above: Tensor = (self.below - torch.diag_embed(self.below.diagonal(dim1=1, dim2=2))).mT
        #: ``V``: the number of phrases over a leaf, minus those above the phrase.
        self.counts: Tensor = (self.cover.sum(1, keepdim=True) - self.above.sum(2, keepdim=True)) * self.cover
        divisor = self.counts + 1 if mode == "paper" else self.counts
        self._by_height: TreeHistogram | None = None
        self._by_place: TreeHistogram | None = None
        self.operator: Tensor = self.cover / (self.cover.sum(-1, keepdim=True) * divisor).clamp(min=1)

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
        """Build the operator from phrases in any order.

        Args:
            spans: half-open leaf intervals; padding is an empty interval.
            parents: index of each phrase's parent; a root is its own parent, or has -1.
            num_leaves: number of leaves, padding included.
            mode: ``"paper"``, or ``"ref"`` to divide by ``len_i V_ij``.
            dtype: type of the tensors.

        Raises:
            ValueError: for a span outside of the leaves, a parent that does not exist, does not cover its child or is
                below it, or two phrases over the same leaf of which neither is below the other. Values are checked on
                the CPU only, where reading them does not stall a device.

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
        # Pointer doubling: a phrase's ancestors within 2s steps are those within s steps of it or of its s-th ancestor.
        for _ in range(max(phrases - 1, 0).bit_length()):
            ancestors = ancestors | ancestors.gather(1, above[..., None].expand(-1, -1, phrases))
            above = above.gather(1, above)
        real = cover.any(-1)
        trees = cls(cover, ancestors.mT & real[:, None, :] & real[:, :, None], mode=mode, dtype=dtype)
        if spans.device.type == "cpu":
            trees._check_nesting()
        return trees

    def to(self, device: torch.device | str) -> "TreeOperator":
        """The same operator on another device, without the histograms that are cached on the CPU.

        Args:
            device: where its tensors are needed.
        """
        if self.cover.device == torch.device(device):
            return self
        moved = copy.copy(self)
        for name in ("cover", "below", "above", "counts", "operator"):
            setattr(moved, name, getattr(self, name).to(device))
        moved._by_height = moved._by_place = None
        return moved

    def _check_nesting(self) -> None:
        # All ancestors of a phrase over a leaf cover the leaf too, so the phrases over a leaf form a chain if the depth
        # of the deepest is their number.
        if self.cover.numel():
            deepest = (self.cover * (self.above.sum(2) + 1)[..., None]).amax(1)
            bad = deepest != self.cover.sum(1)
            if bad.any():
                row, leaf = (int(index) for index in bad.nonzero()[0])
                raise ValueError(f"spans must nest: phrases over leaf {leaf} of tree {row} cross")

    @property
    def depths(self) -> Int64[Tensor, "batch phrase"]:
        """Number of phrases from the root down to this one; 0 at padding."""
        return self.below.sum(1).long()

    @property
    def by_height(self) -> TreeHistogram | PaddedHistogram:
        """From leaf weights to sums by ``V``: an entry ``A[i, j]`` at step ``V_ij - 1`` of phrase ``i``."""
        if self._is_traced:
            return PaddedHistogram(self._met_by_height, width=self.cover.shape[1])
        if self._by_height is None:
            self._by_height = self._sparse_by_height()
        return self._by_height

    @property
    def by_place(self) -> TreeHistogram | PaddedHistogram:
        """From leaf weights to sums by place: an entry ``A[i, j]`` at step ``h - 1`` of phrase ``i`` for each phrase
        below ``i`` whose ``h``-th leaf is ``j``."""
        if self._is_traced:
            return PaddedHistogram(self._met_by_place, width=self.cover.shape[2])
        if self._by_place is None:
            self._by_place = self._sparse_by_place()
        return self._by_place

    @property
    def _is_traced(self) -> bool:
        """Whether shapes must not depend on the trees: in a graph, and on an accelerator, which would wait for them."""
        return torch.compiler.is_compiling() or not self.cover.is_cpu

    def _met_by_height(self, weights: Tensor) -> Tensor:
        """``met[i, v, h]``: the sum of ``A[i, j] w[j, h]`` over the leaves with ``V_ij = v + 1``."""
        shares = self.operator.unsqueeze(-1) * weights.unsqueeze(1)
        step = (self.counts.long() - 1).clamp(min=0).unsqueeze(-1).expand_as(shares)
        batch, phrases, _ = self.cover.shape
        return shares.new_zeros(batch, phrases, phrases, shares.shape[-1]).scatter_add(2, step, shares)

    def _met_by_place(self, weights: Tensor) -> Tensor:
        """``met[i, p, h]``: for each phrase below ``i`` the ``A[i, j] w[j, h]`` of leaf ``j``, its leaf ``p + 1``."""
        # The phrases below ``i`` that cover a leaf are all that cover it minus those above ``i``. The latter cover all
        # leaves of ``i``, so only their first leaf matters, and the sum over leaves is a correlation.
        shares = self.operator.unsqueeze(-1) * weights.unsqueeze(1)
        batch, phrases, leaves, heads = shares.shape
        leaf = torch.arange(leaves, device=shares.device)
        first = (self.cover.cumsum(2) == 0).sum(2)
        starts = (first.unsqueeze(-1) == leaf).to(shares.dtype)
        # How many of the phrases over leaf j have it at place p, that is, start at leaf j - p.
        start = leaf[:, None] - leaf
        covering = (self.cover.mT @ starts).gather(2, start.clamp(min=0).expand(batch, -1, -1)) * (start >= 0)
        every = (shares.transpose(2, 3).flatten(1, 2) @ covering).view(batch, phrases, heads, leaves).transpose(2, 3)
        above = correlate((self.above @ starts).flatten(0, 1), shares.flatten(0, 1))
        return every - above.view_as(shares)

    def _sparse_by_height(self) -> TreeHistogram:
        with torch.inference_mode(False), torch.no_grad():
            batch, leaf, phrase = self.cover.mT.nonzero().unbind(1)
            step = self.counts[batch, phrase, leaf].long() - 1
            widths = self.counts.amax(2) if self.counts.numel() else self.depths
            return self._histogram(batch, phrase, leaf, step=step, widths=widths)

    def _sparse_by_place(self) -> TreeHistogram:
        with torch.inference_mode(False), torch.no_grad():
            phrases = self.cover.shape[1]
            # Each phrase over each leaf, and then all phrases from the root down to it.
            batch, leaf, lower = self.cover.mT.nonzero().unbind(1)
            lower = batch * phrases + lower
            depth = self.depths.flatten()
            upper = self.below.mT.nonzero()[:, 2]
            number, first = depth[lower], (depth.cumsum(0) - depth)[lower]
            # The shift from the index of an entry to its index among all pairs of a phrase and one above it.
            shift = first - (number.cumsum(0) - number)
            start = (self.cover.cumsum(2) == 0).sum(2).flatten()[lower]
            batch, leaf, step, shift = torch.stack([batch, leaf, leaf - start, shift]).repeat_interleave(number, dim=1)
            phrase = upper[shift + torch.arange(len(shift), device=shift.device)]
            return self._histogram(batch, phrase, leaf, step=step, widths=self.cover.sum(2))

    def _histogram(self, batch: Tensor, phrase: Tensor, leaf: Tensor, *, step: Tensor, widths: Tensor) -> TreeHistogram:
        num, phrases, leaves = self.cover.shape
        row = batch * phrases + phrase
        return TreeHistogram(
            row,
            step,
            batch * leaves + leaf,
            self.operator.flatten()[row * leaves + leaf],
            widths=widths.flatten().long(),
            num_leaves=num * leaves,
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


def correlate(
    rows: Float[Tensor, "batch length"], values: Float[Tensor, "batch length dim"]
) -> Float[Tensor, "batch length dim"]:
    """``out[p] = sum_{j >= p} rows[j - p] values[j]``, for each row of constants; differentiable in the values."""
    # A plain convolution would have as many groups as there are rows, and ``torch.compile`` would make one graph per
    # number of rows. The correlation is therefore one node of a graph there.
    if is_exporting():
        return _convolve(rows, values)
    sums: Tensor = _correlate(rows, values)
    return sums


def _convolve(rows: Tensor, values: Tensor) -> Tensor:
    batch, length, dim = values.shape
    # A row after length - 1 zeros, multiplied with its values at every offset: the last offset is p = 0.
    padded = F.pad(rows, (length - 1, 0)).view(1, batch, 2 * length - 1)
    sums = F.conv1d(padded, values.mT.reshape(batch * dim, 1, length), groups=batch)
    return sums.view(batch, dim, length).flip(-1).mT


@torch.library.custom_op("structattn::correlate", mutates_args=())
def _correlate(rows: Tensor, values: Tensor) -> Tensor:
    # A convolution without groups is an error: there are none if a batch has no phrases.
    return _convolve(rows, values).contiguous() if values.numel() else torch.empty_like(values)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
    # The adjoint is a convolution, which is a correlation read from the other end.
    (rows,) = ctx.saved_tensors
    return None, correlate(rows, gradient.flip(1)).flip(1)


_correlate.register_fake(lambda rows, values: torch.empty_like(values, memory_format=torch.contiguous_format))
_correlate.register_autograd(_backward, setup_context=_save)
