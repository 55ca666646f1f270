"""Distributions over dependency trees, and those over projective trees (Eisner's algorithm).

Parts are arcs: row = word, column = CoNLL id of its head, 0 for the root. The papers index scores ``[head, modifier]``;
here the row is the modifier.

Reference: Eisner (2000), Bilexical grammars; Kim et al. (2017), section 3.2.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from structattn.distributions.distribution import StructuredDistribution
from structattn.distributions.validation import (
    align_lengths,
    check_integers,
    check_parts,
    check_scores,
    is_missing,
    refuse_first,
    should_check_values,
)
from structattn.kernels.eisner import OPERATORS, real_arcs

_SQUARE_LAYOUTS = (
    ", word by head with the root in column 0. From torch-struct (head by word, the root on the diagonal): "
    "torch.cat([scores.diagonal(dim1=-2, dim2=-1)[..., None], scores.mT], -1). From SuPar (word by head, the root in "
    "front of both): scores[..., 1:, :]"
)


class HeadDistribution(StructuredDistribution):
    """Trees as one head for each word, with a score for every arc and one or several words attached to the root."""

    structures: ClassVar[str] = "heads (..., n)"

    def __init__(
        self,
        scores: Float[Tensor, "*batch word head_id"],
        lengths: Tensor | Sequence[int] | int | None = None,
        single_root: bool = False,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name = type(self).__name__
        (scores,) = check_scores(name, scores=scores)
        if not isinstance(single_root, bool):
            raise ValueError(f"{name}: single_root of {single_root!r}: expected True or False")
        if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2] + 1:
            square = scores.dim() >= 2 and scores.shape[-1] == scores.shape[-2]
            layouts = _SQUARE_LAYOUTS if square else ""
            raise ValueError(f"{name}: scores of shape {tuple(scores.shape)}: expected (..., n, n + 1){layouts}")
        self.single_root = single_root
        super().__init__(
            {"scores": scores},
            lengths=lengths,
            axes=((2, 1),),
            kernel_options=(int(single_root),),
            mask=mask,
            validate_args=validate_args,
        )

    def to_structure(self, parts: Float[Tensor, "*shape word head_id"]) -> Int[Tensor, "*shape word"]:
        """Heads as CoNLL ids, 0 beyond the end of a sentence; -1 everywhere if there is no tree.

        Args:
            parts: 0/1 parts, with any axes in front that fit the batch.

        Raises:
            ValueError: if this is not a tensor of parts, or does not fit the batch.
        """
        lengths = check_parts(parts, self._event_shape, self.lengths, caller="to_structure")
        return parts.argmax(-1).masked_fill(is_missing(parts, 2, lengths), -1)

    def _find_parts(self, structure: Tensor) -> Int[Tensor, "*_ word"]:
        words = self._event_shape[0]
        heads = check_integers(structure, f"heads (..., {words})", self._is_structure_shape)
        _, lengths = align_lengths(self.lengths, heads.shape[:-1], name="heads")
        length, position = lengths.unsqueeze(-1), torch.arange(words, device=heads.device)
        real = position < length
        if should_check_values(self._checks_values, heads):
            none = ((heads == -1) | ~real).all(-1, keepdim=True)
            wrong = real & ~none & ((heads < 0) | (heads > length))
            refuse_first(
                wrong,
                lambda *index: (
                    f"word {index[-1] + 1} has head {int(heads.expand_as(wrong)[index])}: expected 0 (the "
                    f"root) to {int(lengths[index[:-1]])}, the number of words; or -1 at every word for no tree"
                ),
            )
        return (position * (words + 1) + heads).where(real & (heads >= 0) & (heads <= words), -1)

    def _is_structure_shape(self, shape: tuple[int, ...]) -> bool:
        return bool(shape) and shape[-1] == self._event_shape[0]

    def _real_parts(self) -> list[Bool[Tensor, "*batch word head_id"]]:
        return [real_arcs(self.lengths, self._event_shape[0])]

    def _explain_invalid(self, parts: Tensor, length: int) -> str:
        count = parts.sum(-1)
        if count[length:].any():
            return f"word {length + 1} lies beyond the end and has a head"
        for word in range(length):
            if count[word] != 1:
                return f"word {word + 1} has {int(count[word])} heads"
        heads = [0, *parts[:length].argmax(-1).tolist()]
        for word in range(1, length + 1):
            if heads[word] > length:
                return f"the head of word {word} is {heads[word]}, beyond the end"
            ancestor, seen = word, set()
            while ancestor:
                if ancestor in seen:
                    return f"word {word} is its own head" if heads[word] == word else f"word {word} is below a cycle"
                seen.add(ancestor)
                ancestor = heads[ancestor]
        roots = [word for word in range(1, length + 1) if heads[word] == 0]
        if self.single_root and len(roots) > 1:
            return f"words {roots[0]} and {roots[1]} are both attached to the root; single_root=False allows such trees"
        # Any other tree that is refused is non-projective, in a distribution over projective trees.
        first, second = _crossing_arcs(heads)
        return (
            f"it is non-projective, the arcs into words {first} and {second} cross; "
            "NonProjectiveDependencyCRF allows such trees"
        )


class DependencyCRF(HeadDistribution):
    r"""Projective dependency trees: Eisner (2000); Kim et al. (2017), section 3.2.

    ``p(z) = exp( sum over arcs of scores[m, h] - A )``. Row ``m`` is a word, column ``h`` the CoNLL id of its head: 0
    is the root, ``k`` is word ``k - 1``. Column ``m + 1`` of row ``m``, a word as its own head, is ignored. Each row of
    the marginals sums to one, so ``marginals @ states`` (with the root state first) is a soft head.

    Args:
        scores: score of each head of each word.
        lengths: number of words of each sentence, as a tensor or as lists; all ``n`` if None.
        single_root: whether exactly one word has the root as its head; otherwise any number may.
        mask: True where an arc is allowed, a shape that broadcasts against the scores; None allows all.
        validate_args: whether values are checked, see `StructuredDistribution`.

    Raises:
        ValueError: if shapes, types or lengths do not fit, or a score is nan or ``+inf``.

    Example:
        >>> from structattn.distributions import DependencyCRF
        >>> scores = torch.zeros(3, 4)
        >>> scores[1, 1], scores[2, 1] = 1.0, 2.0
        >>> trees = DependencyCRF(scores, single_root=True)
        >>> round(trees.log_count().exp().item()), trees.to_structure(trees.topk(2)).tolist()
        (7, [[0, 1, 1], [0, 3, 1]])
    """

    _operators = OPERATORS


def _crossing_arcs(heads: Sequence[int]) -> tuple[int, int]:
    """The first two words whose arcs cross, in a tree with crossing arcs; ``heads`` starts with the root."""
    spans = [(min(heads[word], word), max(heads[word], word), word) for word in range(1, len(heads))]
    return next(
        (first, second)
        for start, end, first in spans
        for second_start, second_end, second in spans
        if start < second_start < end < second_end
    )
