"""The prior of subtrees: Nguyen et al. 2020 (Tree-Structured Attention), subtree masking."""

from collections.abc import Hashable
from typing import Literal, get_args

import torch

from structattn.data import SentenceBatch
from structattn.priors.prior import AttentionBias, Prior

WordsSee = Literal["all", "own"]


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
