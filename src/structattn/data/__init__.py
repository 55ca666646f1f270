"""From sentences to tensors: examples and their readers, vocabulary and vectors, batches, trees, relations."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.data.collation import collate
    from structattn.data.example import Example
    from structattn.data.generated import agreement_treebank
    from structattn.data.joining import join_sentences
    from structattn.data.model_card import CARDS, ModelCard
    from structattn.data.phrase_trees import PhraseTrees
    from structattn.data.readers import read_examples
    from structattn.data.relation_names import RELATIONS, RelationKind, parse_relation
    from structattn.data.sentence_batch import SentenceBatch
    from structattn.data.subword_batch import SubwordBatch, collate_subwords
    from structattn.data.tree_batch import TreeBatch
    from structattn.data.treebank.word_arrays import read_arrays
    from structattn.data.treebank.writing import write_examples
    from structattn.data.vocabulary import Vocabulary
    from structattn.data.word_relations import word_relation
    from structattn.data.word_vectors import load_vectors

__all__ = [
    "CARDS",
    "RELATIONS",
    "Example",
    "ModelCard",
    "PhraseTrees",
    "RelationKind",
    "SentenceBatch",
    "SubwordBatch",
    "TreeBatch",
    "Vocabulary",
    "agreement_treebank",
    "collate",
    "collate_subwords",
    "join_sentences",
    "load_vectors",
    "parse_relation",
    "read_arrays",
    "read_examples",
    "word_relation",
    "write_examples",
]

load_lazily(__name__)
