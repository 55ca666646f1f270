"""Priors from syntax trees: short paths, subtrees.

MS-SAN (arXiv 2012.14642), dependency distance mask ``M^dp``; Nguyen et al. 2020 (Tree-Structured Attention), subtree
masking.
"""

from collections.abc import Hashable
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Int64
from torch import Tensor

from structattn.data import SentenceBatch, TreeBatch
from structattn.priors.prior import AttentionBias, Prior

# For a sentence without a tree: an error, no bias, or a bias by word distance.
Missing = Literal["error", "none", "word"]
WordsSee = Literal["all", "own"]


class _TreeDistance(Prior):
    """Prefers words that are close in a tree."""

    structure: ClassVar[Literal["dependency", "constituency"]]

    def __init__(self, missing: Missing = "error") -> None:
        super().__init__()
        if missing not in get_args(Missing):
            choices = ", ".join(get_args(Missing))
            raise ValueError(f"{type(self).__name__} expects missing to be one of {choices}, got {missing!r}")
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
        # If no sentence has a tree, and that is not an error, there are no trees at all.
        trees: TreeBatch | None = getattr(batch, self.structure)
        if self.missing == "error":
            trees = batch.require(self.structure, wanted_by=type(self).__name__)
        position = torch.arange(batch.tokens.shape[1], device=batch.device)
        substitute = (position - position[:, None]).abs()[None]
        if self.missing != "word":
            substitute = torch.zeros_like(substitute)
        has_tree = batch.has_dependency if self.structure == "dependency" else batch.has_constituency
        distance = substitute if trees is None else self._distances(trees)
        distance = torch.where(has_tree[:, None, None], distance, substitute)
        return AttentionBias(None, -distance[:, None].to(torch.get_default_dtype()))

    def _distances(self, trees: TreeBatch) -> Int64[Tensor, "batch word word"]:
        return trees.distances()


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

    def _distances(self, trees: TreeBatch) -> Int64[Tensor, "batch word word"]:
        return trees.leaf_distances()


class Subtree(Prior):
    r"""A phrase attends to its subtree, itself included; a word attends to all words.

    Nodes are words first, then phrases. Nguyen et al. 2020, the mask ``mu``: ``allowed(q, k)`` is "``k`` is a word" for
    a word ``q``, and "``k`` lies in the subtree of ``q``" for a phrase ``q``.

    Args:
        words_see: ``"all"`` words, as in the paper, or only their ``"own"`` subtree, which is the word itself: then the
            state of a phrase depends on the nodes below it and on no other word, as in a Tree-LSTM.

    Raises:
        ValueError: for another value of ``words_see``.
        MissingStructure: in ``forward``, if a sentence has no phrase tree.

    Example:
        >>> import structattn as sa
        >>> tree = sa.ConstituencyTree.from_brackets("(S (D the) (VP (V barks)))")
        >>> sentence = sa.Sentence(tree.words, constituency=tree)
        >>> batch = sa.collate([sentence], sa.Vocabulary.from_examples([sa.Example((sentence,))]))
        >>> Subtree()(batch).allowed[0, 0].int().tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]]
        >>> Subtree("own")(batch).allowed[0, 0].int().tolist()
        [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]]
    """

    def __init__(self, words_see: WordsSee = "all") -> None:
        super().__init__()
        if words_see not in get_args(WordsSee):
            raise ValueError(f"Subtree expects words_see to be one of all, own; got {words_see!r}")
        self.words_see: WordsSee = words_see

    def extra_repr(self) -> str:
        """The option."""
        return f"words_see={self.words_see!r}"

    @property
    def name(self) -> str:
        """``subtree``."""
        return "subtree"

    def cache_key(self) -> Hashable:
        """The class and its option: two of a kind are one."""
        return type(self), self.words_see

    def forward(self, batch: SentenceBatch) -> AttentionBias:
        """The mask, shape ``(batch, 1, node, node)``."""
        tree = batch.require("constituency", wanted_by="Subtree")
        if self.words_see == "own":
            return AttentionBias(tree.subtrees()[:, None])
        leaf = torch.arange(tree.mask.shape[1], device=tree.mask.device) < tree.num_leaves
        among_leaves = (tree.mask & leaf)[:, :, None] & (tree.mask & leaf)[:, None, :]
        return AttentionBias(torch.where(leaf[:, None], among_leaves, tree.subtrees())[:, None])
