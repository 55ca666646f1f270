"""Poolers: many states become one vector.

Each takes ``(states)``, ``(states, mask)`` or ``(states, batch)`` and returns ``(vector, weights)``, so that any of
them fits any encoder. The weights, of shape ``(batch, key, feature)``, are computed only on request. A sentence without
words gives the zero vector.
"""

from collections.abc import Iterable
from typing import ClassVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from structattn.data import SentenceBatch
from structattn.functional import masked_softmax
from structattn.functional.masked_attention import masked_max, masked_mean, masked_states
from structattn.layers.batch_argument import resolve_mask
from structattn.layers.linear import FeedForward


class ScoredPooling(nn.Module):
    r"""The weighted mean of the states: ``a = softmax_j(scorer(y_j))``, output ``sum_j a_j * y_j``.

    Args:
        scorer: from states to scores of their features, or of whole states.

    Example:
        >>> vector, weights = ScoredPooling(nn.Linear(4, 1))(torch.ones(1, 2, 4), need_weights=True)
        >>> vector.shape, weights.shape
        (torch.Size([1, 4]), torch.Size([1, 2, 4]))
    """

    weights_axes: ClassVar[str] = "key feature"

    def __init__(self, scorer: nn.Module) -> None:
        super().__init__()
        self.scorer = scorer

    def forward(
        self,
        states: Float[Tensor, "batch key feature"],
        mask: SentenceBatch | Shaped[Tensor, "batch key"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch key feature"] | None]:
        """Pool the states of each sentence.

        Args:
            states: states of words or other nodes.
            mask: which of them are real, or the batch; all if ``None``.
            need_weights: also return the weights, which sum to one over the real states, feature by feature.
        """
        mask = resolve_mask(states, mask, wanted_by=self)
        states = masked_states(states, mask)
        weights = masked_softmax(self.scorer(states), mask.unsqueeze(-1), dim=1)
        return (weights * states).sum(1), weights.expand_as(states) if need_weights else None


class AttentivePooling(ScoredPooling):
    r"""Feature-wise attention over the states: ``a = softmax_j(FFN(y_j))``, output ``sum_j a_j * y_j``.

    MS-SAN (arXiv 2012.14642), pooling: the softmax runs over the real states, separately for every feature; the
    network is a :class:`FeedForward` of the paper's form.

    Args:
        dim: width of the states.
        hidden: width of the network's hidden layer; as wide as the states if ``None``.
        dropout: applied to the network's hidden layer.

    Example:
        >>> pooling = AttentivePooling(4)
        >>> vector, weights = pooling(torch.ones(1, 2, 4), torch.tensor([[True, False]]), need_weights=True)
        >>> vector, weights[0, :, 0]
        (tensor([[1., 1., 1., 1.]], grad_fn=...), tensor([1., 0.], grad_fn=...))
    """

    def __init__(self, dim: int, hidden: int | None = None, *, dropout: float = 0.0) -> None:
        super().__init__(FeedForward(dim, dim if hidden is None else hidden, dropout=dropout))


class MaxPooling(nn.Module):
    """The largest value of each feature among the real states.

    The weights are one at the winning state and zero elsewhere.

    Example:
        >>> states = torch.tensor([[[1.0, 5.0], [2.0, 4.0], [9.0, 9.0]]])
        >>> MaxPooling()(states, torch.tensor([[True, True, False]]))
        (tensor([[2., 5.]]), None)
    """

    weights_axes: ClassVar[str] = "key feature"

    def forward(
        self,
        states: Float[Tensor, "batch key feature"],
        mask: SentenceBatch | Shaped[Tensor, "batch key"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch key feature"] | None]:
        """Pool; of equal values the first one is the winner. See :class:`ScoredPooling` for the arguments."""
        mask = resolve_mask(states, mask, wanted_by=self)
        vector = masked_max(states, mask)
        if not need_weights:
            return vector, None
        reaches = (states == vector.unsqueeze(1)) & mask.unsqueeze(-1)
        first = reaches & (reaches.cumsum(1) == 1)
        return vector, first.to(states.dtype)


class MeanPooling(nn.Module):
    """The mean of the real states; every one of ``n`` states has weight ``1 / n``.

    Example:
        >>> MeanPooling()(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
        (tensor([[2.]]), None)
    """

    weights_axes: ClassVar[str] = "key feature"

    def forward(
        self,
        states: Float[Tensor, "batch key feature"],
        mask: SentenceBatch | Shaped[Tensor, "batch key"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch key feature"] | None]:
        """Pool; the weights are equal. See :class:`ScoredPooling` for the arguments."""
        mask = resolve_mask(states, mask, wanted_by=self)
        vector = masked_mean(states, mask)
        if not need_weights:
            return vector, None
        share = mask.to(states.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
        return vector, share.unsqueeze(-1).expand_as(states)


class Concat(nn.Module):
    """The concatenated vectors of several poolers; MS-SAN uses attentive and max pooling.

    Args:
        poolers: modules ``(states, mask, need_weights) -> (vector, weights)``, at least one.

    Raises:
        ValueError: without any pooler.

    Example:
        >>> pooler = Concat([MeanPooling(), MaxPooling()])
        >>> pooler(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[True, True]]))
        (tensor([[2., 3.]]), None)
    """

    def __init__(self, poolers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.poolers = nn.ModuleList(poolers)
        if not self.poolers:
            raise ValueError("Concat expects at least one pooler, got none")

    def forward(
        self,
        states: Float[Tensor, "batch key dim"],
        mask: SentenceBatch | Shaped[Tensor, "batch key"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch key feature"] | None]:
        """Pool with each, see :class:`ScoredPooling`; the weights, too, are concatenated along the features."""
        pooled = [pooler(states, mask, need_weights=need_weights) for pooler in self.poolers]
        vector = torch.cat([vector for vector, _ in pooled], dim=-1)
        weights = [weights for _, weights in pooled if weights is not None]
        return vector, torch.cat(weights, dim=-1) if len(weights) == len(pooled) else None
