"""Named relations between words, as matrices: priors prefer or allow them, and HYDRA's heads learn them.

All names share one grammar, see `parse_relation`. Rows are queries, columns are keys; an entry is 0 where either is
padding. A relation is computed from the tensors of a batch, never from its sentences.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from structattn.data.relation_names import RelationName, parse_relation
from structattn.data.sentence_batch import SentenceBatch
from structattn.data.tree_batch import TreeBatch, label_code


def word_relation(
    relation: str | RelationName, batch: SentenceBatch, *, wanted_by: str | None = None
) -> Float[Tensor, "batch word word"]:
    """One relation between the words of a batch; zero at padding.

    Args:
        relation: its name, see `parse_relation`.
        batch: sentences with the structure that it needs.
        wanted_by: what needs the relation, named in the error; the relation itself if ``None``.

    Raises:
        ConfigError: for an unknown relation.
        MissingStructure: if a sentence lacks the tree or the matrix.

    Example:
        >>> from structattn.data import Vocabulary, collate
        >>> from structattn.syntax import DependencyTree, Sentence
        >>> tree = DependencyTree([2, 0, 2], ["nsubj", "root", "obj"])
        >>> batch = collate([Sentence(["kids", "wash", "hands"], dependency=tree)], Vocabulary([]))
        >>> word_relation("head:nsubj", batch)[0].int().tolist()
        [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    """
    name = parse_relation(relation) if isinstance(relation, str) else relation
    found = _matrix(name, batch, wanted_by or f"relation {relation!r}").to(torch.get_default_dtype())
    if name.with_self:
        own = torch.eye(batch.mask.shape[1], dtype=torch.bool, device=found.device) & batch.mask[:, :, None]
        found = torch.where(own, 1.0, found)
    return found


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


def same_sentence(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether two words have the same root: in a document, whose tree has several roots, the same sentence.

    Raises:
        MissingStructure: if a sentence has no dependency tree.
    """
    tree = batch.require("dependency", wanted_by="same_sentence")
    root = (tree.ancestors() & (tree.depths() == 0)[:, None, :]).int().argmax(-1)
    return (root[:, :, None] == root[:, None, :]) & _real_pairs(batch)


def _matrix(name: RelationName, batch: SentenceBatch, wanted_by: str) -> Tensor:
    if name.structure is not None:
        found = batch.require(name.structure, wanted_by=wanted_by)
        if isinstance(found, Tensor):
            return found
        tree: TreeBatch = found
    match name.kind:
        case "forward" | "backward":
            position = torch.arange(batch.tokens.shape[1], device=batch.device)
            before = position <= position[:, None]
            return (before if name.kind == "forward" else before.mT) & _real_pairs(batch)
        case "word_distance":
            return -word_distance(batch)
        case "dependency_distance":
            return -dependency_distance(batch)
        case "constituency_distance":
            return -constituency_distance(batch)
        case "same_sentence":
            return same_sentence(batch)
        case "ancestor":
            return tree.ancestors()
        case "span":
            return _spans(tree)
    upward = _arcs(tree) & _labelled(tree, name.labels)[:, :, None]
    return {"head": upward, "child": upward.mT, "arc": upward | upward.mT}[name.kind]


def _arcs(tree: TreeBatch) -> Bool[Tensor, "batch word word"]:
    """Whether the column is the head of the row; a root has none."""
    columns = torch.arange(tree.parents.shape[1], device=tree.parents.device)
    return (tree.parents[:, :, None] == columns) & (tree.parents != columns)[:, :, None]


def _spans(tree: TreeBatch) -> Bool[Tensor, "batch word word"]:
    """Whether the row lies between the first and the last word of the column's subtree, both included.

    In a projective tree these are exactly the words of the subtree.
    """
    below = tree.subtrees()
    columns = torch.arange(below.shape[1], device=below.device)
    first = torch.where(below, columns, below.shape[1]).amin(-1)
    last = torch.where(below, columns, -1).amax(-1)
    inside = (columns >= first[..., None]) & (columns <= last[..., None])
    return (inside & tree.mask[:, :, None]).mT


def _labelled(tree: TreeBatch, labels: Sequence[str]) -> Bool[Tensor, "batch word"]:
    """Words whose arc has one of these labels; ``nsubj`` also matches ``nsubj:pass``. Without labels, all words."""
    if not labels:
        return tree.mask
    found = torch.zeros_like(tree.mask)
    if tree.label_codes is None:
        return found
    for label in labels:
        code = label_code(label)
        # A main label and its subtypes share the upper half of the code.
        same = tree.label_codes == code if ":" in label else tree.label_codes >> 31 == code >> 31
        found = found | same
    return found


def _real_pairs(batch: SentenceBatch) -> Tensor:
    return batch.mask[:, :, None] & batch.mask[:, None, :]
