"""Facts about pairs of words: plain functions from a batch to a ``(batch, query, key)`` tensor.

Priors turn them into attention biases; HYDRA's heads learn them as targets. Rows are queries, columns are keys; where
either is padding the entry is 0 or ``False``.
"""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from structattn.data.batch import SentenceBatch


def word_distance(batch: SentenceBatch) -> Int64[Tensor, "batch query key"]:
    """Number of steps between two words in the sentence: ``abs(q - k)`` (word mask of Qi et al. 2020, MS-SAN).

    Example:
        >>> from structattn.data import Vocabulary, collate
        >>> from structattn.syntax import Sentence
        >>> word_distance(collate([Sentence(["a", "b", "c"])], Vocabulary([])))[0].tolist()
        [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    """
    position = torch.arange(batch.tokens.shape[1], device=batch.device)
    return (position[:, None] - position).abs() * _real_pairs(batch)


def dependency_distance(batch: SentenceBatch) -> Int64[Tensor, "batch query key"]:
    """Length of the path between two words in the dependency tree (dependency mask of Qi et al. 2020, MS-SAN).

    Two roots are 2 apart.

    Raises:
        MissingStructure: if a sentence has no dependency tree.
    """
    return batch.require("dependency", wanted_by="dependency_distance").distances()


def constituency_distance(batch: SentenceBatch) -> Int64[Tensor, "batch query key"]:
    """Length of the path between two words in the phrase tree; two words of one flat phrase are 2 apart.

    Raises:
        MissingStructure: if a sentence has no phrase tree.
    """
    return batch.require("constituency", wanted_by="constituency_distance").leaf_distances()


def dependency_link(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether one word is the head of the other: symmetric, no word is linked to itself (HYDRA's arc relation).

    Raises:
        MissingStructure: if a sentence has no dependency tree.
    """
    tree = batch.require("dependency", wanted_by="dependency_link")
    columns = torch.arange(tree.parents.shape[1], device=batch.device)
    upward = (tree.parents[:, :, None] == columns) & (tree.parents != columns)[:, :, None]
    return upward | upward.mT


def is_ancestor(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether the key lies above the query in the dependency tree, or is the query itself (SG-Net's relation).

    Raises:
        MissingStructure: if a sentence has no dependency tree.
    """
    return batch.require("dependency", wanted_by="is_ancestor").ancestors()


def same_sentence(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether two words hang below the same root: the sentences of a document whose dependency tree has several roots.

    Raises:
        MissingStructure: if a sentence has no dependency tree.
    """
    tree = batch.require("dependency", wanted_by="same_sentence")
    root = (tree.ancestors() & (tree.depths() == 0)[:, None, :]).int().argmax(-1)
    return (root[:, :, None] == root[:, None, :]) & _real_pairs(batch)


def _real_pairs(batch: SentenceBatch) -> Tensor:
    return batch.mask[:, :, None] & batch.mask[:, None, :]
