"""Priors from syntax trees: short paths. MS-SAN (arXiv 2012.14642), dependency distance mask ``M^dp``."""

from collections.abc import Hashable
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Int64
from torch import Tensor

from structattn.data import SentenceBatch, TreeBatch
from structattn.priors.prior import AttentionBias, Prior

# For a sentence without a tree: an error, no bias, or a bias by word distance.
Missing = Literal["error", "none", "word"]
Structure = Literal["dependency", "constituency"]


def check_missing(missing: str, prior: str) -> None:
    """Refuse another way to treat a sentence without a tree."""
    if missing not in get_args(Missing):
        raise ValueError(f"{prior} expects missing to be one of {', '.join(get_args(Missing))}, got {missing!r}")


def climb(
    batch: SentenceBatch, structure: Structure, missing: Missing, *, wanted_by: str
) -> Int64[Tensor, "batch query key"]:
    """``TreeBatch.climbs``; without a tree 0, or as if each word hung from the one in front of it."""
    # If no sentence has a tree, and that is not an error, there are no trees at all.
    trees: TreeBatch | None = getattr(batch, structure)
    if missing == "error":
        trees = batch.require(structure, wanted_by=wanted_by)
    position = torch.arange(batch.tokens.shape[1], device=batch.device)
    substitute = (position[:, None] - position).clamp(min=0)[None]
    if missing != "word":
        substitute = torch.zeros_like(substitute)
    has_tree = getattr(batch, f"has_{structure}")[:, None, None]
    return torch.where(has_tree, substitute if trees is None else trees.climbs(), substitute)


class _TreeDistance(Prior):
    """Prefers words that are close in a tree."""

    structure: ClassVar[Structure]

    def __init__(self, missing: Missing = "error") -> None:
        super().__init__()
        check_missing(missing, type(self).__name__)
        self.missing = missing

    def extra_repr(self) -> str:
        """The option."""
        return f"missing={self.missing!r}"

    @property
    def name(self) -> str:
        """The kind of tree."""
        return self.structure

    def cache_key(self) -> Hashable:
        """The class and its option: two of a kind are one."""
        return type(self), self.missing

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """Minus the path lengths, shape ``(batch, 1, query, key)``."""
        up = climb(batch, self.structure, self.missing, wanted_by=type(self).__name__)
        return AttentionBias(None, -(up + up.mT)[:, None].to(torch.get_default_dtype()))


class DependencyDistance(_TreeDistance):
    r"""Prefers words that are close in the dependency tree: the bias is ``-D`` for ``D`` arcs between them.

    MS-SAN, ``M^dp``. Several roots share one virtual root that is not a word, so two roots are 2 apart.

    Args:
        missing: what to do with a sentence without a tree: ``"error"`` raises, ``"none"`` adds no bias there,
            ``"word"`` uses the word distance there.

    Raises:
        ValueError: for another value of ``missing``.
        MissingStructure: in ``forward``, if a sentence has no tree and ``missing`` is ``"error"``.

    Example:
        >>> import structattn as sa
        >>> sentence = sa.Sentence(["dogs", "bark", "loudly"], dependency=sa.DependencyTree([2, 0, 2]))
        >>> batch = sa.collate([sentence], sa.Vocabulary.from_examples([sa.Example((sentence,))]))
        >>> DependencyDistance()(batch).bias[0, 0, 0].tolist()
        [-0.0, -1.0, -2.0]
    """

    structure = "dependency"


class ConstituencyDistance(_TreeDistance):
    r"""Prefers words that are close in the phrase tree: the bias is minus the number of edges between two words.

    The phrase-tree counterpart of MS-SAN's ``M^dp``; two words of one flat phrase are 2 apart, as each is one edge
    below it.

    Args:
        missing: what to do with a sentence without a tree: ``"error"`` raises, ``"none"`` adds no bias there,
            ``"word"`` uses the word distance there.

    Raises:
        ValueError: for another value of ``missing``.
        MissingStructure: in ``forward``, if a sentence has no tree and ``missing`` is ``"error"``.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (NP (D the) (N dog)) (V barks))")
        >>> sentence = sa.Sentence(tree.words, constituency=tree)
        >>> batch = sa.collate([sentence], sa.Vocabulary.from_examples([sa.Example((sentence,))]))
        >>> ConstituencyDistance()(batch).bias[0, 0, 0].tolist()
        [-0.0, -2.0, -3.0]
    """

    structure = "constituency"
