"""Weighted counts of how often each phrase meets each row of an embedding table, multiplied by the table.

The full histogram is never materialised. Both embeddings of Nguyen et al. 2020, section 4.2, use this mechanism: counts
by index, where a short phrase has few indices and the whole sentence has many.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from structattn.functional.sparse import SparseMatrix

# Phrases with up to this many indices share a block, then those with up to four times as many, and so on.
_NARROWEST = 4


class TreeHistogram:
    r"""The linear map from leaf weights to ``sum_k met[i, k] table[k]``, with ``met[i, k]`` a constant map of weights.

    Phrases with a similar number of indices share a block of ``met``, so that it has little more than
    ``sum_i widths_i`` rows instead of ``phrases * max_i widths_i``; a block is one product with the table.

    Args:
        phrases: phrase of each entry, numbered over the batch.
        steps: index of each entry, from 0.
        leaves: leaf of each entry, numbered over the batch; preferably in ascending order.
        values: value of each entry.
        widths: for each phrase of the batch, a number greater than all of its steps.
        num_leaves: number of leaves of the batch.

    Example:
        >>> entries = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1])
        >>> met = TreeHistogram(*entries, torch.tensor([0.5, 0.5, 1.0]), widths=torch.tensor([2, 1]), num_leaves=2)
        >>> met(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[10.0], [100.0]])).flatten()
        tensor([105.,  20.])
    """

    def __init__(
        self,
        phrases: Int64[Tensor, " entry"],
        steps: Int64[Tensor, " entry"],
        leaves: Int64[Tensor, " entry"],
        values: Float[Tensor, " entry"],
        *,
        widths: Int64[Tensor, " phrase"],
        num_leaves: int,
    ) -> None:
        block = torch.zeros_like(widths)
        limit, widest = _NARROWEST, int(widths.max()) if len(widths) else 0
        while limit < widest:
            block += widths > limit
            limit *= 4
        order = block.argsort(stable=True)
        #: position of each phrase among those sorted by block.
        self.places = order.argsort()
        #: numbers of phrases and of indices of each block.
        self.blocks: list[tuple[int, int]] = []
        first, base = torch.zeros_like(widths), torch.zeros_like(widths)
        seen = rows = 0
        for size in torch.bincount(block, minlength=1).tolist():
            members = order[seen : seen + size]
            width = int(widths[members].max().clamp(min=1)) if size else 1
            base[members], first[members] = rows - seen, size
            self.blocks.append((size, width))
            seen, rows = seen + size, rows + size * width
        # Steps before phrases: then a block's product with the table needs no copy.
        row = (base + self.places)[phrases] + steps * first[phrases]
        self.matrix = SparseMatrix(row, leaves, values, shape=(rows, num_leaves))

    @property
    def width(self) -> int:
        """Number of rows of a table that can be used; at least 1."""
        return max(width for _, width in self.blocks)

    def __call__(
        self, weights: Float[Tensor, "batch leaf head"], table: Float[Tensor, "step channel"]
    ) -> Float[Tensor, "batch phrase head channel"]:
        """Look up; the table has a row for each of the ``width`` steps."""
        met = self.matrix @ weights.flatten(0, 1)
        parts = met.split([size * width for size, width in self.blocks])
        found = [
            part.reshape(width, size * met.shape[1]).mT @ table[:width]
            for part, (size, width) in zip(parts, self.blocks, strict=True)
        ]
        together: Tensor = torch.cat(found).view(len(self.places), met.shape[1], table.shape[1])[self.places]
        phrases: Tensor = together.unflatten(0, (weights.shape[0], -1))
        return phrases


class PaddedHistogram:
    """The same map with ``met`` as one padded tensor, for graphs: no shape depends on the trees.

    Args:
        met: from leaf weights ``(batch, leaf, head)`` to ``(batch, phrase, width, head)``.
        width: number of indices.
    """

    def __init__(self, met: Callable[[Tensor], Tensor], *, width: int) -> None:
        self.met = met
        self.width = width

    def __call__(
        self, weights: Float[Tensor, "batch leaf head"], table: Float[Tensor, "step channel"]
    ) -> Float[Tensor, "batch phrase head channel"]:
        """Look up; the table has a row for each of the ``width`` steps."""
        found: Tensor = self.met(weights).transpose(2, 3) @ table
        return found
