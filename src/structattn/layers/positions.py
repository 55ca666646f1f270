"""Positions of words: sinusoids added to the states, and terms for offsets inside attention scores and values.

Both published forms of relative positions need one number (or one vector) per *offset* between query and key, of which
there are only ``2n - 1``. Shifting rows against each other turns an ``(n, 2n - 1)`` table of offsets into ``(n, n)``
pairs and back without copying more than that, so no ``(n, n, dim)`` tensor ever exists.
"""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from structattn.functional.products import take_rows
from structattn.layers.linear import glorot_linear


class SinusoidalPositions(nn.Module):
    """``states_i + sinusoid(i)``: positions as Vaswani et al. (2017), section 3.5."""

    def forward(self, states: Float[Tensor, "batch word dim"]) -> Float[Tensor, "batch word dim"]:
        """Add the positions to states; padding receives them too and must be masked afterwards."""
        positions = torch.arange(states.shape[1], device=states.device)
        return states + sinusoids(positions, states.shape[2], dtype=states.dtype)


def sinusoids(positions: Int64[Tensor, " position"], dim: int, *, dtype: torch.dtype) -> Float[Tensor, "position dim"]:
    """``PE(t, 2i) = sin(t / 10000^(2i / dim))`` and ``PE(t, 2i + 1)`` the cosine; positions may be negative."""
    # Half precision cannot tell large positions apart: bfloat16 rounds 257 to 256.
    wide = positions.to(torch.promote_types(dtype, torch.float32))
    exponent = torch.arange(0, dim, 2, device=positions.device, dtype=wide.dtype) / dim
    angle = wide[:, None] * torch.exp(-math.log(10000.0) * exponent)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :dim].to(dtype)


class RelativePosition(nn.Module, ABC):
    """The interface of relative positions: a term of the scores and, for some, a term of the values.

    Example:
        >>> class Nearness(RelativePosition):
        ...     def scores(self, queries, keys):
        ...         position = torch.arange(queries.shape[2], device=queries.device)
        ...         return -(position[:, None] - position).abs().to(queries.dtype).expand(*queries.shape[:2], -1, -1)
        >>> Nearness().scores(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)).tolist()
        [[[[-0.0, -1.0], [-1.0, -0.0]]]]
    """

    @abstractmethod
    def scores(
        self, queries: Float[Tensor, "batch head query dim"], keys: Float[Tensor, "batch head key dim"]
    ) -> Float[Tensor, "batch head query key"]:
        """The term added to ``queries @ keys^T`` before scaling.

        Args:
            queries: queries of each head.
            keys: keys of each head.
        """

    def values(self, weights: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query dim"] | None:
        """The term added to ``weights @ values``; ``None`` for no term.

        Args:
            weights: the attention weights.
        """
        return None

    @property
    def needs_weights(self) -> bool:
        """Whether ``values`` returns a term, so that the weights must be computed."""
        return False


class ShawPosition(RelativePosition):
    r"""Relative position vectors on keys and values (Shaw et al. 2018, equations 3 and 4), shared by the heads.

    ``S_ij = q_i . (k_j + a^K_c) / sqrt(dim)`` and ``O_i = sum_j P_ij (v_j + a^V_c)`` with ``c = clip(j - i, -k, k)``.

    Args:
        head_dim: width of a head.
        clip: offsets are clipped to this, ``k``; each table has ``2 k + 1`` rows.

    Raises:
        ValueError: for a negative ``clip``.

    Example:
        >>> position = ShawPosition(50, clip=16)
        >>> sum(parameter.numel() for parameter in position.parameters())
        3300
        >>> queries = torch.ones(1, 6, 4, 50)
        >>> position.scores(queries, queries).shape
        torch.Size([1, 6, 4, 4])
    """

    def __init__(self, head_dim: int, clip: int = 16) -> None:
        super().__init__()
        if clip < 0:
            raise ValueError(f"ShawPosition expects clip to be at least 0, got {clip}")
        self.clip = clip
        self.key_table = nn.Parameter(torch.empty(2 * clip + 1, head_dim))
        self.value_table = nn.Parameter(torch.empty(2 * clip + 1, head_dim))
        nn.init.xavier_uniform_(self.key_table)
        nn.init.xavier_uniform_(self.value_table)

    def scores(
        self, queries: Float[Tensor, "batch head query dim"], keys: Float[Tensor, "batch head key dim"]
    ) -> Float[Tensor, "batch head query key"]:
        """``q_i . a^K_c``, computed once for every query and offset."""
        return offsets_to_pairs(queries @ self._select_rows(self.key_table, queries.shape[2]).mT)

    def values(self, weights: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query dim"]:
        """``sum_j P_ij a^V_c``."""
        return pairs_to_offsets(weights) @ self._select_rows(self.value_table, weights.shape[2])

    @property
    def needs_weights(self) -> bool:
        """Always: the values have a term."""
        return True

    def _select_rows(self, table: Tensor, length: int) -> Tensor:
        """The rows for the offsets ``1 - n .. n - 1``."""
        offset = torch.arange(1 - length, length, device=table.device)
        return take_rows(table, offset.clamp(-self.clip, self.clip) + self.clip)


class XLPosition(RelativePosition):
    r"""Sinusoidal relative positions in the scores (Dai et al. 2019, Transformer-XL, equation in section 3.3).

    ``S_ij = (q_i . k_j + q_i . W_R R_{i-j} + u . k_j + v . W_R R_{i-j}) / sqrt(dim)`` with the sinusoid ``R``; the sign
    of ``i - j`` is kept, as attention is bidirectional here.

    Args:
        num_heads: number of heads.
        head_dim: width of a head; ``R`` is ``num_heads * head_dim`` wide.

    Example:
        >>> position = XLPosition(6, 50)
        >>> sum(parameter.numel() for parameter in position.parameters())
        90600
        >>> queries = torch.ones(1, 6, 4, 50)
        >>> position.scores(queries, queries).shape
        torch.Size([1, 6, 4, 4])
    """

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.project = glorot_linear(num_heads * head_dim, num_heads * head_dim, bias=False)
        self.content_bias = nn.Parameter(torch.empty(num_heads, head_dim))
        self.position_bias = nn.Parameter(torch.empty(num_heads, head_dim))
        nn.init.xavier_uniform_(self.content_bias)
        nn.init.xavier_uniform_(self.position_bias)

    def scores(
        self, queries: Float[Tensor, "batch head query dim"], keys: Float[Tensor, "batch head key dim"]
    ) -> Float[Tensor, "batch head query key"]:
        """``(q_i + v) . W_R R_{i-j} + u . k_j``."""
        length = queries.shape[2]
        # Column c of the table of offsets stands for j - i = c - (n - 1), so R is read from n - 1 down to 1 - n.
        distance = torch.arange(length - 1, -length, -1, device=queries.device)
        width = self.num_heads * self.head_dim
        table = self.project(sinusoids(distance, width, dtype=self.project.weight.dtype))
        table = table.view(-1, self.num_heads, self.head_dim).permute(1, 2, 0)
        by_position = offsets_to_pairs((queries + self.position_bias[:, None]) @ table)
        by_content = (keys * self.content_bias[:, None]).sum(-1)
        return by_position + by_content[:, :, None]


def offsets_to_pairs(table: Float[Tensor, "*batch query offset"]) -> Float[Tensor, "*batch query key"]:
    """The relative shift: ``pairs[i, j] = table[i, n - 1 + j - i]``, where a table has ``2n - 1`` columns.

    Dai et al. 2019, appendix B, here for offsets of both signs.
    """
    batch, length, offsets = table.shape[:-2], table.shape[-2], table.shape[-1]
    # With one more column, reading rows of 2n entries as rows of 2n - 1 entries shifts each row by one more step.
    flat = F.pad(table, (0, 1)).flatten(-2)
    return flat[..., length - 1 : length - 1 + length * offsets].view(*batch, length, offsets)[..., :length]


def pairs_to_offsets(pairs: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query offset"]:
    """The shift back: ``table[i, n - 1 + j - i] = pairs[i, j]``, zero where no key has that offset."""
    batch, length = pairs.shape[:-2], pairs.shape[-1]
    flat = F.pad(F.pad(pairs, (0, length - 1)).flatten(-2), (length - 1, 1))
    return flat.view(*batch, length, 2 * length)[..., :-1]
