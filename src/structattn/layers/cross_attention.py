"""Decoder attention with a key-value cache: causal attention to the target so far, and cross-attention to a source.

Vaswani et al. 2017, section 3.2.3.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from structattn.functional import attention, masked_states
from structattn.layers.linear import glorot_linear


@dataclass(frozen=True, eq=False)
class CrossSource:
    """The source side of one attention module: keys, values and the mask; computed once per sentence."""

    keys: Float[Tensor, "batch head node channel"]
    values: Float[Tensor, "batch head node channel"]
    mask: Bool[Tensor, "batch node"]


class CrossAttention(nn.Module):
    r"""Multi-head attention to a source: ``O = softmax(Q_t K_s^T / sqrt(head_dim)) V_s W^O``.

    Args:
        dim: width of the states.
        num_heads: number of heads.
        dropout: applied to the weights.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads``.

    Example:
        >>> attention = CrossAttention(8, 2)
        >>> source = attention.source(torch.ones(1, 3, 8), torch.tensor([[True, True, False]]))
        >>> output, weights = attention(torch.ones(1, 5, 8), source, need_weights=True)
        >>> output.shape, weights[0, 0, 0]
        (torch.Size([1, 5, 8]), tensor([0.5000, 0.5000, 0.0000], grad_fn=...))
    """

    weights_axes: ClassVar[str] = "head query key"
    attends_to_phrases: ClassVar[str] = "cross"

    def __init__(self, dim: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if num_heads < 1 or dim % num_heads:
            raise ValueError(f"CrossAttention expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        self.num_heads = num_heads
        self.of_queries = glorot_linear(dim, dim)
        self.of_source = glorot_linear(dim, 2 * dim, blocks=2)
        self.output = glorot_linear(dim, dim)
        self.dropout = dropout

    def source(self, states: Float[Tensor, "batch node dim"], mask: Bool[Tensor, "batch node"]) -> CrossSource:
        """The keys, values and mask of a source, computed once for all targets."""
        keys, values = _heads(self.of_source(masked_states(states, mask)), 2, self.num_heads)
        return CrossSource(keys, values, mask)

    def forward(
        self, targets: Float[Tensor, "batch target dim"], source: CrossSource, *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "batch target dim"], Float[Tensor, "batch head target node"] | None]:
        """Attend; the weights are those before dropout, or ``None`` if not requested."""
        (queries,) = _heads(self.of_queries(targets), 1, self.num_heads)
        heads, weights = attention(
            queries,
            source.keys,
            source.values,
            source.mask[:, None, None, :],
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return output, weights


class CausalAttention(nn.Module):
    """Multi-head attention from each step to itself and all earlier steps, including those of earlier calls.

    Args:
        dim: width of the states.
        num_heads: number of heads.
        dropout: applied to the weights.

    Raises:
        ValueError: if ``dim`` is not a multiple of ``num_heads``.

    Example:
        >>> attention, states = CausalAttention(8, 2), torch.randn(1, 3, 8)
        >>> whole, _ = attention(states, attention.nothing(1))
        >>> first, before = attention(states[:, :2], attention.nothing(1))
        >>> last, _ = attention(states[:, 2:], before)
        >>> torch.allclose(whole, torch.cat([first, last], 1), atol=1e-6)
        True
    """

    def __init__(self, dim: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if num_heads < 1 or dim % num_heads:
            raise ValueError(f"CausalAttention expects dim to be a multiple of num_heads, got {dim} and {num_heads}")
        self.num_heads = num_heads
        self.project = glorot_linear(dim, 3 * dim, blocks=3)
        self.output = glorot_linear(dim, dim)
        self.dropout = dropout

    def nothing(self, rows: int) -> Float[Tensor, "row 2 head 0 channel"]:
        """The empty cache before the first step: keys and values of no step."""
        weight = self.output.weight
        return weight.new_zeros(rows, 2, self.num_heads, 0, weight.shape[0] // self.num_heads)

    def forward(
        self, states: Float[Tensor, "row step dim"], before: Float[Tensor, "row 2 head before channel"]
    ) -> tuple[Float[Tensor, "row step dim"], Float[Tensor, "row 2 head total channel"]]:
        """Attend, and add the keys and values of these steps to the cache."""
        queries, *own = _heads(self.project(states), 3, self.num_heads)
        remembered = torch.cat((before, torch.stack(own, 1)), dim=3)
        total, new = remembered.shape[3], states.shape[1]
        allowed = torch.ones(new, total, dtype=torch.bool, device=states.device).tril(total - new)
        heads, _ = attention(
            queries,
            remembered[:, 0],
            remembered[:, 1],
            allowed[None, None],
            dropout=self.dropout if self.training else 0.0,
        )
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return output, remembered


def _heads(projected: Tensor, parts: int, num_heads: int) -> tuple[Tensor, ...]:
    """Split concatenated projections, each into ``(batch, head, position, channel)``."""
    divided: Tensor = projected.unflatten(-1, (parts, num_heads, -1)).permute(2, 0, 3, 1, 4)
    return divided.unbind(0)
