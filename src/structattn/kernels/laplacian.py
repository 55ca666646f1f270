"""The matrix-tree theorem by a matrix inverse: fast, and told apart from where it would lose digits.

Separate from the elimination of ``kernels.spanning_tree``, which is exact everywhere and steps in where this is not
safe.

Reference: Koo et al. (2007), Structured prediction models via the matrix-tree theorem, sections 3.1 and 3.2; Kim et al.
(2017).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# Largest bound on the rounding error of a marginal with which the inverse is trusted.
_TRUSTED = 1e-9


@dataclass(frozen=True)
class Inverse:
    """What the inverse of the Laplacian says about one batch.

    Attributes:
        log_partition: log-determinant of the Laplacian.
        marginals: ``(batch, head, word)``.
        product: Hessian times the direction, ``(batch, head, word)``; None without a direction.
        safe: whether the rounding errors of an item are bounded by a negligible number.
    """

    log_partition: Float[Tensor, " batch"]
    marginals: Float[Tensor, "batch head word"]
    product: Float[Tensor, "batch head word"] | None
    safe: Bool[Tensor, " batch"]


def by_inverse(
    weights: Float[Tensor, "batch head word"],
    direction: Float[Tensor, "batch head word"] | None,
    lengths: Int[Tensor, " batch"],
    *,
    single_root: bool,
) -> Inverse:
    """Marginals, and the Hessian times a direction, from one inverse.

    With ``A`` the weights among words, ``r`` those of the root and ``B`` the inverse of
    ``L = diag(r + sum_h A[h]) - A``: ``p(h -> m) = A[h,m] (B[m,m] - B[m,h])``, ``p(0 -> m) = r[m] B[m,m]``. For a
    single root ``r`` leaves the diagonal and becomes the first row of ``L``; then ``p(0 -> m) = r[m] B[m,1]``,
    ``p(h -> m) = A[h,m] ((m != 1) B[m,m] - (h != 1) B[m,h])``. The derivative of ``B`` along ``dL`` is ``-B dL B``.

    Args:
        weights: log-weights, row = head (0 is the root), column = word; ``-inf`` forbids.
        direction: direction of derivation, or None.
        lengths: number of words of each sentence.
        single_root: whether exactly one word hangs from the root.
    """
    words = weights.shape[-1]
    padding = torch.arange(words, device=weights.device) >= lengths[:, None]
    # Every tree has one head for each word, and with a single root one arc from it: both scales can be taken out.
    top = weights.amax(-2, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0)
    weights = weights - top
    scale = top.sum((-1, -2))
    if single_root and words:
        root = weights[:, 0].amax(-1, keepdim=True)
        root = root.masked_fill(root == -torch.inf, 0)
        weights = torch.cat([weights[:, :1] - root.unsqueeze(-1), weights[:, 1:]], 1)
        scale = scale + root.squeeze(-1)
    raised = weights.exp()
    laplacian = _laplacian(raised, single_root=single_root)
    laplacian = laplacian + torch.diag_embed(padding.to(laplacian.dtype))
    factors, pivots, _ = torch.linalg.lu_factor_ex(laplacian)
    identity = torch.eye(words, dtype=weights.dtype, device=weights.device).expand_as(laplacian)
    inverse = torch.linalg.lu_solve(factors, pivots, identity)
    log_partition = factors.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1) + scale
    gaps = _gaps(inverse, single_root=single_root)
    marginals = raised * gaps
    product = None
    if direction is not None:
        change = raised * direction
        inverse_change = -(inverse @ _laplacian(change, single_root=single_root) @ inverse)
        product = change * gaps + raised * _gaps(inverse_change, single_root=single_root)
    return Inverse(log_partition, marginals, product, _is_safe(laplacian, inverse, raised))


def _laplacian(weights: Tensor, *, single_root: bool) -> Tensor:
    root, arcs = weights[:, :1], weights[:, 1:]
    if not single_root:
        return torch.diag_embed(weights.sum(-2)) - arcs
    return torch.cat([root, (torch.diag_embed(arcs.sum(-2)) - arcs)[:, 1:]], 1)


def _gaps(inverse: Tensor, *, single_root: bool) -> Tensor:
    """What a weight is multiplied with to give its probability."""
    own = inverse.diagonal(dim1=-2, dim2=-1)
    if not single_root:
        return torch.cat([own.unsqueeze(-2), own.unsqueeze(-2) - inverse.transpose(-1, -2)], -2)
    first = torch.arange(own.shape[-1], device=own.device) == 0
    own = own.masked_fill(first, 0).unsqueeze(-2)
    others = inverse.transpose(-1, -2).masked_fill(first[:, None], 0)
    return torch.cat([inverse[..., :1].transpose(-1, -2), own - others], -2)


def _is_safe(laplacian: Tensor, inverse: Tensor, weights: Tensor) -> Bool[Tensor, " batch"]:
    """First-order bound ``|A| |B| |L| |B| n eps`` on the error of a marginal; infinities and nan are not safe."""
    words = laplacian.shape[-1]
    if not words:
        return torch.ones(len(laplacian), dtype=torch.bool, device=laplacian.device)
    size = inverse.abs().sum(-2).amax(-1)
    condition = size * laplacian.abs().sum(-2).amax(-1)
    largest = inverse.abs().amax((-1, -2)) * weights.amax((-1, -2))
    return condition * largest * words * torch.finfo(laplacian.dtype).eps < _TRUSTED
