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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True)
class Combination:
    """One way of combining sentence vectors.

    Attributes:
        arity: how many vectors it takes.
        width: how many times wider than one vector its result is.
        parts: the vectors that are concatenated.
        reads_together: whether the encoder reads all sentences of an example as one text, and gives one vector.

    Example:
        >>> COMBINATIONS["product_signed"].parts(1.0, 3.0)
        (1.0, 3.0, -2.0, 3.0)
    """

    arity: int
    width: int
    parts: "Callable[..., tuple[Tensor, ...]]"
    reads_together: bool = False


def combine(name: str, vectors: "Sequence[Float[Tensor, 'batch dim']]") -> "Float[Tensor, 'batch combined']":
    """Combine sentence vectors.

    Args:
        name: a key of ``COMBINATIONS``.
        vectors: as many as the combination takes.

    Raises:
        ValueError: if there are more or fewer.

    Example:
        >>> import torch
        >>> combine("tai", [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]])])
        tensor([[3., 2., 2., 1.]])
    """
    import torch

    combination = COMBINATIONS[name]
    expected = 1 if combination.reads_together else combination.arity
    if len(vectors) != expected:
        raise ValueError(f"combine {name!r} expects {expected} vectors, got {len(vectors)}")
    return torch.cat(combination.parts(*vectors), dim=-1)


#: From the name of a combination of sentence vectors to the combination.
COMBINATIONS: Mapping[str, Combination] = {
    "single": Combination(arity=1, width=1, parts=lambda u: (u,)),
    "product_absolute": Combination(arity=2, width=4, parts=lambda u, v: (u, v, u * v, abs(u - v))),
    "product_signed": Combination(arity=2, width=4, parts=lambda u, v: (u, v, u - v, u * v)),
    "tai": Combination(arity=2, width=2, parts=lambda u, v: (u * v, abs(u - v))),
    "together": Combination(arity=2, width=1, parts=lambda u: (u,), reads_together=True),
}
