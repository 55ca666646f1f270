"""How the vectors of one or two sentences become the input of a classifier, in the exact order of each paper.

| name | vector | source |
|---|---|---|
| `single` | `u` | one sentence |
| `product_absolute` | `[u; v; u * v; abs(u - v)]` | MS-SAN, pair classifier |
| `product_signed` | `[u; v; u - v; u * v]` | DiSAN, pair classifier |
| `tai` | `[u * v; abs(u - v)]` | Tai et al. 2015, section 4.2 |
| `together` | `u`, of both sentences read as one text | BERT and HYDRA; for encoders on a backbone that read pairs |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Combination:
    """One way of combining sentence vectors.

    Attributes:
        arity: how many vectors it takes.
        width: how many times wider than one vector its result is.
        function: the combination itself.
        reads_together: whether the encoder reads all sentences of an example as one text, and gives one vector.

    Example:
        >>> u, v = torch.tensor([[1.0]]), torch.tensor([[3.0]])
        >>> COMBINATIONS["product_signed"].function(u, v)
        tensor([[ 1.,  3., -2.,  3.]])
    """

    arity: int
    width: int
    function: Callable[..., Tensor]
    reads_together: bool = False


def combine(name: str, vectors: Sequence[Float[Tensor, "batch dim"]]) -> Float[Tensor, "batch combined"]:
    """Combine sentence vectors.

    Args:
        name: a key of ``COMBINATIONS``.
        vectors: as many as the combination takes.

    Raises:
        ValueError: if there are more or fewer.

    Example:
        >>> combine("tai", [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]])])
        tensor([[3., 2., 2., 1.]])
    """
    combination = COMBINATIONS[name]
    expected = 1 if combination.reads_together else combination.arity
    if len(vectors) != expected:
        raise ValueError(f"combine {name!r} expects {expected} vectors, got {len(vectors)}")
    return combination.function(*vectors)


def _single(u: Tensor) -> Tensor:
    return u


def _product_absolute(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([u, v, u * v, (u - v).abs()], dim=-1)


def _product_signed(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([u, v, u - v, u * v], dim=-1)


def _tai(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([u * v, (u - v).abs()], dim=-1)


COMBINATIONS: Mapping[str, Combination] = {
    "single": Combination(arity=1, width=1, function=_single),
    "product_absolute": Combination(arity=2, width=4, function=_product_absolute),
    "product_signed": Combination(arity=2, width=4, function=_product_signed),
    "tai": Combination(arity=2, width=2, function=_tai),
    "together": Combination(arity=2, width=1, function=_single, reads_together=True),
}
