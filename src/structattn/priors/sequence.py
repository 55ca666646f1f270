"""Priors from the order of words alone: directions and linear distance.

They depend on nothing but the number of words, so they are ``(1, 1, n, n)`` and broadcast over batch and heads. Rows
are queries and columns are keys; the papers' index orders differ from this and from each other. DiSAN (Shen et al.
2018) writes ``M_ij`` with ``i`` the key, and forbids a word from attending to itself; MS-SAN (arXiv 2012.14642) prints
the same formula under a product of queries and keys, but its text means ``key <= query`` for forward, as here.
"""

from abc import abstractmethod
from collections.abc import Hashable
from typing import ClassVar

import torch
from jaxtyping import Int64
from torch import Tensor

from structattn.data import SentenceBatch
from structattn.priors.prior import AttentionBias, Prior


class SequencePrior(Prior):
    """A prior that is a function of the offset ``key - query`` only.

    A subclass has a ``name``, which must tell apart instances with different options, and ``offset_bias``.
    """

    scope = "positions"

    @abstractmethod
    def offset_bias(self, offset: Int64[Tensor, "query key"]) -> AttentionBias:
        """The value for a matrix of offsets ``key - query``, in words, shape ``(1, 1, query, key)``."""

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """The value for this batch's number of words, shape ``(1, 1, query, key)``."""
        position = torch.arange(batch.tokens.shape[1], device=batch.device)
        return self.offset_bias(position - position[:, None])

    def cache_key(self) -> Hashable:
        """The class and its options, which determine the value."""
        return type(self), self.name


class _Direction(SequencePrior):
    """A mask of the words on one side."""

    side: ClassVar[str]

    def __init__(self, include_self: bool = True) -> None:
        super().__init__()
        self.include_self = include_self

    def extra_repr(self) -> str:
        """The option."""
        return f"include_self={self.include_self}"

    @property
    def name(self) -> str:
        """The side, with ``strictly`` in front if the word itself is left out."""
        return self.side if self.include_self else f"strictly {self.side}"


class Forward(_Direction):
    """Attention to the word itself and the words before it: ``key <= query`` (MS-SAN), or ``key < query`` (DiSAN).

    MS-SAN, forward mask ``M^f``; Shen et al. 2018, ``M^fw``, there transposed (rows are keys).

    Args:
        include_self: whether a word attends to itself. If not, the first word has no allowed key.

    Example:
        >>> import torch
        >>> offset = torch.tensor([[0, 1], [-1, 0]])
        >>> Forward().offset_bias(offset).allowed[0, 0].tolist()
        [[True, False], [True, True]]
    """

    side = "forward"

    def offset_bias(self, offset: Int64[Tensor, "query key"]) -> AttentionBias:
        """Allowed where the key is not after the query."""
        return AttentionBias(_pairs(offset <= 0 if self.include_self else offset < 0))


class Backward(_Direction):
    """Attention to the word itself and the words after it: ``key >= query`` (MS-SAN), or ``key > query`` (DiSAN).

    MS-SAN, backward mask ``M^b``; Shen et al. 2018, ``M^bw``, there transposed.

    Args:
        include_self: whether a word attends to itself. If not, the last word has no allowed key.

    Example:
        >>> import torch
        >>> offset = torch.tensor([[0, 1], [-1, 0]])
        >>> Backward(include_self=False).offset_bias(offset).allowed[0, 0].tolist()
        [[False, True], [False, False]]
    """

    side = "backward"

    def offset_bias(self, offset: Int64[Tensor, "query key"]) -> AttentionBias:
        """Allowed where the key is not before the query."""
        return AttentionBias(_pairs(offset >= 0 if self.include_self else offset > 0))


class NotSelf(SequencePrior):
    """Attention to every word but the word itself: ``key != query`` (Shen et al. 2018, the diagonal-disabled mask).

    Example:
        >>> import torch
        >>> NotSelf().offset_bias(torch.tensor([[0, 1], [-1, 0]])).allowed[0, 0].tolist()
        [[False, True], [True, False]]
    """

    @property
    def name(self) -> str:
        """``not self``."""
        return "not self"

    def offset_bias(self, offset: Int64[Tensor, "query key"]) -> AttentionBias:
        """Allowed off the diagonal."""
        return AttentionBias(_pairs(offset != 0))


class WordDistance(SequencePrior):
    """Prefers nearby words: the bias is ``-abs(query - key)`` (MS-SAN, ``M^w``; Im and Cho 2017).

    Example:
        >>> import torch
        >>> WordDistance().offset_bias(torch.tensor([[0, 1], [-1, 0]])).bias[0, 0].tolist()
        [[-0.0, -1.0], [-1.0, -0.0]]
    """

    @property
    def name(self) -> str:
        """``word``."""
        return "word"

    def offset_bias(self, offset: Int64[Tensor, "query key"]) -> AttentionBias:
        """Minus the number of steps between the words."""
        return AttentionBias(None, -_pairs(offset.abs()).to(torch.get_default_dtype()))


def alibi_slopes(num_heads: int) -> tuple[float, ...]:
    """ALiBi's slopes (Press et al. 2022), ``2^(-8 t / num_heads)``, as ``alpha`` of every head."""
    return tuple(2.0 ** (-8.0 * number / num_heads) for number in range(1, num_heads + 1))


def _pairs(matrix: Tensor) -> Tensor:
    """Give a matrix of pairs its batch and head axes."""
    return matrix[None, None]
