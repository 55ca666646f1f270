"""Sentences become tensors: examples and their readers, vocabulary and vectors, batches, trees, relations."""

from structattn.data.batch import SentenceBatch, collate
from structattn.data.example import Example
from structattn.data.readers import read_examples
from structattn.data.relations import (
    constituency_distance,
    dependency_distance,
    dependency_link,
    is_ancestor,
    same_sentence,
    word_distance,
)
from structattn.data.trees import TreeBatch
from structattn.data.vocabulary import Vocabulary

__all__ = [
    "Example",
    "SentenceBatch",
    "TreeBatch",
    "Vocabulary",
    "collate",
    "constituency_distance",
    "dependency_distance",
    "dependency_link",
    "is_ancestor",
    "read_examples",
    "same_sentence",
    "word_distance",
]
