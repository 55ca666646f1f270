"""Distributions over monotone alignments and warpings of two sequences, queries and keys.

Reference: Needleman and Wunsch (1970), A general method applicable to the search for similarities; Sakoe and Chiba
(1978), Dynamic programming algorithm optimization for spoken word recognition; Cuturi and Blondel (2017), Soft-DTW.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.validation import (
    align_lengths,
    check_integers,
    check_lengths,
    check_parts,
    check_scores,
    refuse_first,
    should_check_values,
)
from structattn.kernels.alignment import ALIGNMENT, WARPING, encode, real_pairs


class PairCRF(StructuredDistribution):
    """A distribution over sets of pairs of a query and a key, in whose order neither decreases.

    Attributes:
        lengths: numbers of queries and of keys as one, ``queries * (m + 1) + keys``; see `query_lengths`.
    """

    structures: ClassVar[str] = "pairs (..., rows, 2)"

    def __init__(
        self,
        scores: Float[Tensor, "*batch query key"],
        lengths: Tensor | Sequence[int] | int | None = None,
        key_lengths: Tensor | Sequence[int] | int | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name = type(self).__name__
        (scores,) = check_scores(name, scores=scores)
        if scores.dim() < 2:
            raise ValueError(f"{name}: scores of shape {tuple(scores.shape)}: expected (..., queries, keys)")
        *batch, queries, keys = scores.shape
        counts = []
        for prefix, values, size in (("", lengths, queries), ("key_", key_lengths, keys)):
            try:
                counts.append(
                    check_lengths(values, torch.Size(batch), num_words=size, like=scores, validate_args=validate_args)
                )
            except ValueError as error:
                raise ValueError(f"{name}: {prefix}{error}") from None
        super().__init__(
            {"scores": scores},
            lengths=encode(counts[0], counts[1], keys),
            axes=((2, 0),),
            num_words=encode(queries, keys, keys),
            mask=mask,
            validate_args=validate_args,
        )

    @property
    def query_lengths(self) -> Int[Tensor, "*batch"]:
        """The number of queries of each item."""
        return self.lengths // (self._event_shape[-1] + 1)

    @property
    def key_lengths(self) -> Int[Tensor, "*batch"]:
        """The number of keys of each item."""
        return self.lengths % (self._event_shape[-1] + 1)

    def to_structure(self, parts: Float[Tensor, "*shape query key"]) -> Int[Tensor, "*shape row 2"]:
        """Pairs ``(query, key)`` in order, padded with ``(-1, -1)``.

        Args:
            parts: 0/1 parts, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is not a tensor of parts, or does not fit the batch.
        """
        check_parts(parts, self._event_shape, self.lengths, caller="to_structure")
        keys, unused = self._event_shape[-1], self._event_shape.numel()
        order = torch.arange(unused, device=parts.device).where(parts.flatten(-2) > 0, unused).sort(-1).values
        pair = order[..., : self._num_rows()]
        pairs = torch.stack([pair // max(keys, 1), pair % max(keys, 1)], -1)
        return pairs.masked_fill((pair == unused).unsqueeze(-1), -1)

    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ row"]:
        # Pairs are in any order; (-1, -1) is not a pair.
        pairs = check_integers(structure, self.structures, self._is_structure_shape)
        shape, lengths = align_lengths(self.lengths, pairs.shape[:-2], name="pairs")
        query, key = pairs.expand(*shape, *pairs.shape[-2:]).unbind(-1)
        keys = self._event_shape[-1]
        last_query, last_key = (lengths // (keys + 1)).unsqueeze(-1), (lengths % (keys + 1)).unsqueeze(-1)
        real = (query >= 0) & (query < last_query) & (key >= 0) & (key < last_key)
        if should_check_values(self._checks_values, pairs):
            refuse_first(
                ~real & ~((query == -1) & (key == -1)),
                lambda *index: (
                    f"row {index[-1]} is the pair ({int(query[index])}, {int(key[index])}) of "
                    f"{self._describe(int(lengths[index[:-1]]))}: expected numbers from 0 on; or (-1, -1) for no pair"
                ),
            )
        return (query * keys + key).where(real, -1)

    def _num_rows(self) -> int:
        """How many pairs a structure has at most."""
        return min(self._event_shape)

    def _describe(self, length: int) -> str:
        queries, keys = divmod(length, self._event_shape[-1] + 1)
        return f"{queries} queries and {keys} keys"

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return len(shape) >= 2 and shape[-1] == 2

    def _real_parts(self) -> list[Bool[Tensor, "*batch query key"]]:
        return [real_pairs(self.lengths, *self._event_shape)]

    def _evaluate_parts(self, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Fewer parts may be a structure, too, so parts are compared with the largest one that has no others."""
        value, largest = self._operators.topk([scores + 1], lengths, self._kernel_options, 1)
        return torch.where(value[0] == -torch.inf, value[0], 0.0), largest[0]

    def _align(self, q: Any) -> tuple[Self, Self]:
        is_like = type(q) is type(self) and q.lengths.shape == self.lengths.shape
        if is_like and should_check_values(None, self.lengths) and not torch.equal(self.lengths, q.lengths):
            raise ValueError(f"{type(self).__name__}: items with other numbers of queries or keys cannot be compared")
        return super()._align(q)


class AlignmentCRF(PairCRF):
    r"""Monotone partial matchings of queries and keys: Needleman and Wunsch (1970), as a distribution.

    ``p(z) = exp( sum over matches of scores[i, j] - A )``. Each query and each key has at most one match, and matches
    do not cross: ``(i, j)`` and ``(k, l)`` with ``i < k`` have ``j < l``. What has no match is skipped at no cost: give
    a match the score ``match - skip of i - skip of j`` where skips have costs. A matching counts once, in whatever
    order its gaps are read: there are ``(n + m)! / (n! m!)`` for ``n`` queries and ``m`` keys, and the empty one is
    always allowed, so ``A >= 0``.

    Args:
        scores: score of each match; parts have this shape.
        lengths: number of queries of each item, as a tensor or as lists; all if None.
        key_lengths: number of keys of each item; all if None.
        mask: True where a pair is allowed, a shape that broadcasts against the scores; None allows all.
        validate_args: whether values are checked, see `StructuredDistribution`.

    Raises:
        ValueError: if shapes, types or lengths do not fit, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import AlignmentCRF
        >>> scores = torch.tensor([[1.0, 2.0, 0.0], [2.5, -1.0, 1.0]])
        >>> alignments = AlignmentCRF(scores)
        >>> alignments.to_structure(alignments.topk(2)).tolist()
        [[[0, 1], [1, 2]], [[1, 0], [-1, -1]]]
        >>> round(alignments.log_count().exp().item())
        10
    """

    _operators = ALIGNMENT

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        queries, keys = divmod(length, self._event_shape[-1] + 1)
        pairs = parts.nonzero().tolist()
        for query, key in pairs:
            if query >= queries or key >= keys:
                return f"({query}, {key}) is not a pair of a query and a key"
        for (query, key), (later, later_key) in pairwise(pairs):
            if query == later or key >= later_key:
                return f"the matches ({query}, {key}) and ({later}, {later_key}) cross, or share a query or a key"
        return "its matches are not an alignment"


class WarpingCRF(PairCRF):
    r"""Warping paths through a matrix of queries and keys: Sakoe and Chiba (1978); Cuturi and Blondel (2017).

    ``p(z) = exp( sum over cells of scores[i, j] - A )`` over the paths from the first query and key to the last of
    both, by steps to the next query, the next key, or the next of both; there are as many as Delannoy numbers say. With
    ``scores = -cost / gamma``, the soft-DTW of Cuturi and Blondel is ``-gamma A``, and its gradient by the costs are
    the marginals. No queries and no keys have one path, without cells; no queries, or no keys, have none.

    Args:
        scores: score of each cell; parts have this shape.
        lengths: number of queries of each item, as a tensor or as lists; all if None.
        key_lengths: number of keys of each item; all if None.
        mask: True where a pair is allowed, a shape that broadcasts against the scores; None allows all.
        validate_args: whether values are checked, see `StructuredDistribution`.

    Raises:
        ValueError: if shapes, types or lengths do not fit, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import WarpingCRF
        >>> x, y, gamma = torch.tensor([0.0, 1.2, 2.0]), torch.tensor([0.0, 2.0]), 0.1
        >>> paths = WarpingCRF(-(x[:, None] - y).square() / gamma)
        >>> paths.to_structure(paths.argmax()).tolist()
        [[0, 0], [1, 1], [2, 1], [-1, -1]]
        >>> soft_dtw = -gamma * paths.log_partition()
        >>> round(soft_dtw.item(), 3)
        0.64
    """

    _operators = WARPING

    def _num_rows(self) -> int:
        return max(sum(self._event_shape) - 1, 0)

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        queries, keys = divmod(length, self._event_shape[-1] + 1)
        pairs = [tuple(pair) for pair in parts.nonzero().tolist()]
        if not pairs or pairs[0] != (0, 0) or pairs[-1] != (queries - 1, keys - 1):
            return f"expected a path from (0, 0) to ({queries - 1}, {keys - 1})"
        for (query, key), (later, later_key) in pairwise(pairs):
            if (later - query, later_key - key) not in ((0, 1), (1, 0), (1, 1)):
                return f"({query}, {key}) is followed by ({later}, {later_key}), which is not the next cell"
        return "its cells are not a path"
