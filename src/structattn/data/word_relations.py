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
    if name.structure is not None:
        required = batch.require(name.structure, wanted_by=wanted_by or f"relation {relation!r}")
    if name.kind == "matrix":
        matrix: Tensor = required  # type: ignore[assignment]  # what is no tree is a matrix
    else:
        matrix = name.function(batch, name.labels) if name.labels else name.function(batch)
        _check_matrix(matrix, batch, name.kind)
        matrix = torch.where(_real_pairs(batch), matrix, 0)
    matrix = matrix.to(torch.get_default_dtype())
    if name.with_self:
        diagonal = torch.eye(batch.mask.shape[1], dtype=torch.bool, device=matrix.device) & batch.mask[:, :, None]
        matrix = torch.where(diagonal, 1.0, matrix)
    return matrix


def same_sentence(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether two words have the same root: in a document, whose tree has several roots, the same sentence."""
    tree = batch.require("dependency", wanted_by="same_sentence")
    root = (tree.ancestors() & tree.roots()[:, None, :]).int().argmax(-1)
    return (root[:, :, None] == root[:, None, :]) & _real_pairs(batch)


def forward(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether the key is the query, or comes before it."""
    position = torch.arange(batch.tokens.shape[1], device=batch.device)
    return (position <= position[:, None]) & _real_pairs(batch)


def backward(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether the key is the query, or comes after it."""
    return forward(batch).mT


def nearness_of_words(batch: SentenceBatch) -> Int64[Tensor, "batch query key"]:
    """Minus the number of words from one to the other."""
    position = torch.arange(batch.tokens.shape[1], device=batch.device)
    return -(position[:, None] - position).abs().expand(len(batch), -1, -1)


def nearness_in_dependencies(batch: SentenceBatch) -> Int64[Tensor, "batch query key"]:
    """Minus the number of arcs between them in the dependency tree; two roots are 2 apart."""
    return -batch.require("dependency", wanted_by="dependency_distance").distances()


def nearness_in_phrases(batch: SentenceBatch) -> Int64[Tensor, "batch query key"]:
    """Minus the number of edges between them in the phrase tree; two words of one flat phrase are 2 apart."""
    return -batch.require("constituency", wanted_by="constituency_distance").leaf_distances()


def ancestors(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether the key lies above the query in the dependency tree, or is the query."""
    return batch.require("dependency", wanted_by="ancestor").ancestors()


def heads(batch: SentenceBatch, labels: Sequence[str] = ()) -> Bool[Tensor, "batch query key"]:
    """Whether the key is the head of the query; a root has none. With labels, only by an arc with one of these."""
    tree = batch.require("dependency", wanted_by="head")
    columns = torch.arange(tree.parents.shape[1], device=tree.parents.device)
    arcs = (tree.parents[:, :, None] == columns) & (tree.parents != columns)[:, :, None]
    return arcs & _labelled(tree, labels)[:, :, None]


def children(batch: SentenceBatch, labels: Sequence[str] = ()) -> Bool[Tensor, "batch query key"]:
    """Whether the query is the head of the key."""
    return heads(batch, labels).mT


def arcs(batch: SentenceBatch, labels: Sequence[str] = ()) -> Bool[Tensor, "batch query key"]:
    """Whether one is the head of the other."""
    upward = heads(batch, labels)
    return upward | upward.mT


def spans(batch: SentenceBatch) -> Bool[Tensor, "batch query key"]:
    """Whether the row lies between the first and the last word of the column's subtree, both included.

    In a projective tree these are exactly the words of the subtree.
    """
    tree = batch.require("dependency", wanted_by="span")
    below = tree.subtrees()
    columns = torch.arange(below.shape[1], device=below.device)
    first = torch.where(below, columns, below.shape[1]).amin(-1)
    last = torch.where(below, columns, -1).amax(-1)
    inside = (columns >= first[..., None]) & (columns <= last[..., None])
    return (inside & tree.mask[:, :, None]).mT


def _check_matrix(matrix: object, batch: SentenceBatch, name: str) -> None:
    shape = (*batch.tokens.shape, batch.tokens.shape[1])
    if not isinstance(matrix, Tensor) or matrix.shape != shape:
        came = tuple(matrix.shape) if isinstance(matrix, Tensor) else type(matrix).__name__
        raise ValueError(f"relation {name!r}: expected a matrix of shape {shape}, a row for each query, got {came}")


def _labelled(tree: TreeBatch, labels: Sequence[str]) -> Bool[Tensor, "batch word"]:
    """Words whose arc has one of these labels; ``nsubj`` also matches ``nsubj:pass``. Without labels, all words."""
    if not labels:
        return tree.mask
    has_label = torch.zeros_like(tree.mask)
    if tree.label_codes is None:
        return has_label
    for label in labels:
        code = label_code(label)
        # A main label and its subtypes share the upper half of the code.
        same = tree.label_codes == code if ":" in label else tree.label_codes >> 31 == code >> 31
        has_label = has_label | same
    return has_label


def _real_pairs(batch: SentenceBatch) -> Tensor:
    return batch.mask[:, :, None] & batch.mask[:, None, :]
