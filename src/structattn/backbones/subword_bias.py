"""The value of priors over words as one over the subwords that a model's attention reads."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from structattn.priors import AttentionBias


@dataclass(frozen=True, eq=False)
class WordPositions:
    """The word of each token of a text, of which the last ``num_queries`` are queries; all are if that is ``None``."""

    words: Int64[Tensor, "batch subword"]
    is_word: Bool[Tensor, "batch subword"]
    num_queries: int | None = None


def spread(value: AttentionBias, positions: WordPositions) -> AttentionBias:
    """A value over words as one over subwords; special tokens are free."""
    allowed = None if value.allowed is None else _spread(value.allowed, positions, True)
    return AttentionBias(allowed, None if value.bias is None else _spread(value.bias, positions, 0.0))


def _spread(value: Tensor, positions: WordPositions, elsewhere: bool | float) -> Tensor:
    """A matrix over words as one over subwords; ``elsewhere`` where one of the two belongs to no word."""
    words, is_word = positions.words, positions.is_word
    value = value.expand(words.shape[0], -1, -1, -1)
    heads, length = value.shape[1], words.shape[1]
    start = 0 if positions.num_queries is None else length - positions.num_queries
    # A prior that depends on nothing may be one number for all pairs. Rows and columns are gathered one after the
    # other: unlike with one index of both, the gradient of a learnt prior then adds up in a fixed order.
    height, width = (words.clamp(max=size - 1) for size in value.shape[2:])
    result = value.gather(2, height[:, None, start:, None].expand(-1, heads, -1, value.shape[3]))
    result = result.gather(3, width[:, None, None, :].expand(-1, heads, length - start, -1))
    both = (is_word[:, start:, None] & is_word[:, None, :])[:, None]
    return torch.where(both, result, elsewhere)
