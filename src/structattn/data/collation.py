"""Sentences become a batch of tensors: words and structures are joined into one array and scattered into its rows.

Nothing here loops over words in Python: the words of a batch are looked up in one pass, and so are its labels.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from structattn.data.example import Example, list_sentences
from structattn.data.sentence_batch import TREES, SentenceBatch
from structattn.data.tree_batch import TreeBatch, label_code
from structattn.data.vocabulary import PADDING_ID, Vocabulary
from structattn.errors import shown
from structattn.syntax.constituency_tree import ConstituencyTree
from structattn.syntax.dependency_tree import DependencyTree
from structattn.syntax.sentence import Sentence

_Tree = TypeVar("_Tree", DependencyTree, ConstituencyTree)


def collate(sentences: Sequence[Sentence | Example | str], vocabulary: Vocabulary) -> SentenceBatch:
    """Turn sentences into one padded batch.

    Args:
        sentences: at least one; each is a sentence, an example of one sentence, or a text, which ``Sentence.from_text``
            splits. Sentences may have no words.
        vocabulary: maps words and labels to ids.

    Raises:
        ValueError: without sentences, for an example of two, or for a relation named like a tree.
        TypeError: for anything else, such as one text instead of a list.

    Example:
        >>> collate(["a dog", Sentence(["a"])], Vocabulary(["a"])).tokens.tolist()
        [[2, 1], [2, 0]]
        >>> collate([Sentence(["a"]), Sentence([])], Vocabulary(["a"])).tokens.tolist()
        [[2], [0]]
    """
    sentences = _sentences(sentences)
    lengths = np.array([len(sentence.words) for sentence in sentences])
    mask = np.arange(max(1, lengths.max())) < lengths[:, None]
    tokens = np.full(mask.shape, PADDING_ID, dtype=np.int64)
    tokens[mask] = vocabulary.encode([*chain.from_iterable(sentence.words for sentence in sentences)])
    has: dict[str, list[bool]] = {}
    relations = _relations(sentences, mask.shape[1], has)
    dependency = _dependency(sentences, mask, vocabulary, has)
    constituency = _constituency(sentences, mask, vocabulary, has)
    return SentenceBatch(
        torch.from_numpy(tokens),
        torch.from_numpy(mask),
        torch.from_numpy(lengths),
        dependency=dependency,
        constituency=constituency,
        relations=relations,
        has={structure: torch.tensor(present) for structure, present in has.items()},
        complete=frozenset(structure for structure, present in has.items() if all(present)),
        is_empty=not lengths.any(),
        sentences=sentences,
    )


def _sentences(items: Sequence[Sentence | Example | str]) -> tuple[Sentence, ...]:
    if isinstance(items, Sentence | Example | str):
        raise TypeError(f"collate expects a list of sentences, got one {type(items).__name__}; write [{shown(items)}]")
    sentences: list[Sentence] = []
    for index, item in enumerate(items):
        parts = list_sentences(item)
        if len(parts) != 1:
            raise ValueError(
                f"collate expects one sentence for each row, got a pair at {index}; collate the first and the second "
                "sentences separately"
            )
        sentences += parts
    if not sentences:
        raise ValueError("collate expects at least one sentence, got none")
    return tuple(sentences)


def _dependency(
    sentences: Sequence[Sentence], mask: np.ndarray, vocabulary: Vocabulary, has: dict[str, list[bool]]
) -> TreeBatch | None:
    trees = [sentence.dependency for sentence in sentences]
    present_trees = _collect_trees(sentences, trees, "dependency", has)
    if present_trees is None:
        return None
    parents, labels = _make_roots(mask.shape)
    codes = np.zeros_like(labels)
    words = mask & np.array([tree is not None for tree in trees])[:, None]
    heads = _join(tree.heads for tree in present_trees)
    parents[words] = np.where(heads == 0, parents[words], heads - 1)
    words &= np.array([tree is not None and tree.labels is not None for tree in trees])[:, None]
    names = [*chain.from_iterable(tree.labels for tree in present_trees if tree.labels is not None)]
    labels[words] = vocabulary.encode_labels(names)
    codes[words] = [*map(label_code, names)]
    return TreeBatch(*map(torch.from_numpy, (parents, mask.copy(), labels, codes)), num_leaves=mask.shape[1])


def _constituency(
    sentences: Sequence[Sentence], mask: np.ndarray, vocabulary: Vocabulary, has: dict[str, list[bool]]
) -> TreeBatch | None:
    trees = [sentence.constituency for sentence in sentences]
    present_trees = _collect_trees(sentences, trees, "constituency", has)
    if present_trees is None:
        return None
    width = mask.shape[1]
    numbers = np.array([0 if tree is None else len(tree.spans) for tree in trees])
    phrases = np.arange(numbers.max()) < numbers[:, None]
    is_word = np.hstack([mask & np.array([tree is not None for tree in trees])[:, None], np.zeros_like(phrases)])
    is_phrase = np.hstack([np.zeros_like(mask), phrases])
    parents, labels = _make_roots(is_phrase.shape)
    for nodes, above in (
        (is_word, _join(tree.leaf_parents for tree in present_trees)),
        (is_phrase, _join(tree.parents for tree in present_trees)),
    ):
        # A span's parent is the index of a span, -1 for a root; here it is a column, and a root is its own parent.
        parents[nodes] = np.where(above < 0, parents[nodes], above + width)
    labels[is_word] = vocabulary.encode_labels(chain.from_iterable(tree.tags for tree in present_trees))
    spans = chain.from_iterable(tree.spans for tree in present_trees)
    labels[is_phrase] = vocabulary.encode_labels(map(itemgetter(0), spans))
    return TreeBatch(*map(torch.from_numpy, (parents, np.hstack([mask, phrases]), labels)), num_leaves=width)


def _relations(sentences: Sequence[Sentence], width: int, has: dict[str, list[bool]]) -> dict[str, Tensor]:
    relations: dict[str, Tensor] = {}
    for name in sorted({name for sentence in sentences for name in sentence.relations}):
        if name in TREES:
            raise ValueError(f"collate expects relations not to be named like a tree, got {name!r}")
        matrices = np.zeros((len(sentences), width, width), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            if name in sentence.relations and len(sentence.words):
                length = len(sentence.words)
                matrices[row, :length, :length] = np.asarray(sentence.relations[name], dtype=np.float32)
        relations[name] = torch.from_numpy(matrices)
        has[name] = _mark_present(sentences, [name in sentence.relations for sentence in sentences])
    return relations


def _collect_trees(
    sentences: Sequence[Sentence], trees: Sequence[_Tree | None], name: str, has: dict[str, list[bool]]
) -> list[_Tree] | None:
    """The existing trees; records in ``has`` which rows have one. ``None`` if there are words but no tree."""
    present = _mark_present(sentences, [tree is not None for tree in trees])
    present_trees = [tree for tree in trees if tree is not None]
    if not present_trees and not all(present):
        return None
    has[name] = present
    return present_trees


def _make_roots(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Parents and labels of a batch in which every node is a root, its own parent."""
    parents = np.empty(shape, dtype=np.int64)
    parents[:] = np.arange(shape[1])
    return parents, np.zeros(shape, dtype=np.int64)


def _join(numbers: Iterable[Iterable[int]]) -> np.ndarray:
    return np.array([*chain.from_iterable(numbers)], dtype=np.int64)


def _mark_present(sentences: Sequence[Sentence], has_structure: Sequence[bool]) -> list[bool]:
    return [has or not sentence.words for sentence, has in zip(sentences, has_structure, strict=True)]
