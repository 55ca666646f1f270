"""collate and the relations: padding, missing structures, and agreement with the trees of `syntax` on every pair."""

import itertools
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from structattn.data import (
    RELATIONS,
    Example,
    SentenceBatch,
    TreeBatch,
    Vocabulary,
    agreement_treebank,
    collate,
    word_relation,
)
from structattn.data.word_relations import same_sentence
from structattn.errors import MissingStructure
from structattn.syntax import ConstituencyTree, DependencyTree, Sentence

KIDS = Sentence(
    ["Two", "kids", "at", "a", "ballgame", "wash", "their", "hands"],
    dependency=DependencyTree([2, 6, 5, 5, 2, 0, 8, 6]),
    constituency=ConstituencyTree.from_brackets(
        "(S (NP (NP (CD Two) (NNS kids)) (PP (IN at) (NP (DT a) (NN ballgame))))"
        " (VP (VBP wash) (NP (PRP$ their) (NNS hands))))"
    ),
)
TWO_ROOTS = Sentence(["Go", "away", "Stay"], dependency=DependencyTree([0, 1, 0]))
PLAIN = Sentence(["hush"])
EMPTY = Sentence([])
VOCABULARY = Vocabulary.from_examples([KIDS, TWO_ROOTS])
GENERATED = [example.sentences[0] for example in itertools.islice(agreement_treebank(4, range(4)), 12)]


def batch_of(*sentences: Sentence) -> SentenceBatch:
    return collate(sentences, VOCABULARY)


def distance(kind: str, batch: SentenceBatch) -> Tensor:
    return -word_relation(f"{kind}_distance", batch)


def tree_path(parents: list[int], node: int) -> list[int]:
    path = [node]
    while parents[path[-1]] != -1:
        path.append(parents[path[-1]])
    return path


def test_tokens_and_mask() -> None:
    batch = batch_of(TWO_ROOTS, PLAIN, EMPTY)
    assert batch.lengths.tolist() == [3, 1, 0]
    assert batch.mask.tolist() == [[True] * 3, [True, False, False], [False] * 3]
    assert batch.tokens[0].tolist() == VOCABULARY.encode(TWO_ROOTS.words)
    assert batch.tokens[1].tolist() == [1, 0, 0]
    assert len(batch) == 3
    assert batch.sentences == (TWO_ROOTS, PLAIN, EMPTY)


def test_only_empty_sentences_still_have_a_column() -> None:
    batch = batch_of(EMPTY, EMPTY)
    assert batch.tokens.shape == (2, 1)
    assert not batch.mask.any()


def test_dependency_agrees_with_floor_zero_on_every_pair() -> None:
    sentences = [KIDS, TWO_ROOTS, EMPTY, *GENERATED]
    distances = distance("dependency", batch_of(*sentences))
    for row, sentence in zip(distances, sentences, strict=True):
        length = len(sentence)
        expected = torch.zeros_like(row)
        if sentence.dependency is not None:
            expected[:length, :length] = torch.tensor(sentence.dependency.distances())
        assert torch.equal(row, expected)


def test_constituency_agrees_with_floor_zero_on_every_pair() -> None:
    sentences = [KIDS, *GENERATED]
    batch = batch_of(*sentences)
    trees = batch.require("constituency", wanted_by="a test")
    width = batch.tokens.shape[1]
    assert trees.num_leaves == width
    for row, sentence in enumerate(sentences):
        tree = sentence.constituency
        assert tree is not None
        length, phrases = len(tree.words), len(tree.spans)
        assert trees.mask[row].sum() == length + phrases
        covers = trees.subtrees()[row, width : width + phrases, :length]
        for (_, start, end), covered in zip(tree.spans, covers, strict=True):
            assert covered.tolist() == [start <= word < end for word in range(length)]
        paths = [
            [*(() if above < 0 else tree_path(list(tree.parents), above)), -2 - word]
            for word, above in enumerate(tree.leaf_parents)
        ]
        expected = [[len(set(first) ^ set(second)) for second in paths] for first in paths]
        assert distance("constituency", batch)[row, :length, :length].tolist() == expected


def test_labels_are_those_of_the_vocabulary() -> None:
    batch = batch_of(KIDS)
    trees = batch.require("constituency", wanted_by="a test")
    assert trees.labels is not None
    assert KIDS.constituency is not None
    found = [VOCABULARY.labels[label - 1] for label in trees.labels[0].tolist()]
    assert found == [*KIDS.constituency.tags, *(label for label, _, _ in KIDS.constituency.spans)]
    dependency = batch.require("dependency", wanted_by="a test")
    assert dependency.labels is not None
    assert dependency.labels.tolist() == [[0] * 8]


def test_a_phrase_tree_without_phrases() -> None:
    batch = batch_of(Sentence(["hush"], constituency=ConstituencyTree.from_brackets("(UH hush)")))
    assert batch.require("constituency", wanted_by="a test").parents.tolist() == [[0]]


def test_links_are_the_arcs_both_ways() -> None:
    links = word_relation("arc", batch_of(KIDS, TWO_ROOTS))
    assert KIDS.dependency is not None
    arcs = {(word, head - 1) for word, head in enumerate(KIDS.dependency.heads) if head}
    assert {tuple(pair) for pair in links[0].nonzero().tolist()} == arcs | {(head, word) for word, head in arcs}
    assert links[1].nonzero().tolist() == [[0, 1], [1, 0]]


def test_word_distance_is_zero_at_padding() -> None:
    distances = distance("word", batch_of(TWO_ROOTS, Sentence(["a", "b"])))
    assert distances[0].tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    assert distances[1].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_same_sentence_follows_the_roots() -> None:
    same = same_sentence(batch_of(TWO_ROOTS, EMPTY))
    assert same[0].tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    assert not same[1].any()


def test_ancestors_include_the_word_itself() -> None:
    assert word_relation("ancestor", batch_of(TWO_ROOTS))[0].bool().tolist() == [
        [True, False, False],
        [True, True, False],
        [False, False, True],
    ]


def test_relations_are_padded() -> None:
    first = Sentence(["a", "b"], relations={"coreference": [[0.0, 0.5], [1.0, 0.0]]})
    batch = batch_of(first, PLAIN, EMPTY)
    assert batch.relations["coreference"].tolist() == [[[0, 0.5], [1, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]]
    assert batch.has["coreference"].tolist() == [True, False, True]
    with pytest.raises(MissingStructure, match=r"Relation needs relation 'coreference' .* sentence 1 \('hush'\)"):
        batch.require("coreference", wanted_by="Relation")
    whole = batch_of(first, EMPTY)
    assert torch.equal(whole.require("coreference", wanted_by="Relation"), whole.relations["coreference"])


@pytest.mark.parametrize("structure", ["dependency", "constituency"])
def test_missing_structure_names_sentence_and_asker(structure: str) -> None:
    batch = batch_of(KIDS, EMPTY, PLAIN, PLAIN)
    assert not batch.available(structure)
    with pytest.raises(MissingStructure, match=rf"Subtree needs {structure} .* sentence 2 \('hush'\) has none"):
        batch.require(structure, wanted_by="Subtree")


def test_partly_missing_trees_make_every_word_a_root() -> None:
    batch = batch_of(KIDS, PLAIN, EMPTY)
    assert batch.has_dependency.tolist() == batch.has_constituency.tolist() == [True, False, True]
    assert batch.dependency is not None
    assert batch.constituency is not None
    assert batch.dependency.depths()[1:].sum() == 0
    assert batch.constituency.mask[1:].sum() == 1


def test_nobody_has_a_tree() -> None:
    batch = batch_of(PLAIN, EMPTY)
    assert batch.dependency is None
    assert batch.constituency is None
    assert batch.has_dependency.tolist() == [False, True]
    with pytest.raises(MissingStructure, match="sentence 0"):
        batch.require("dependency", wanted_by="DependencyDistance")


@pytest.mark.parametrize("structure", ["dependency", "constituency", "coreference"])
def test_sentences_without_words_lack_nothing(structure: str) -> None:
    batch = batch_of(EMPTY, EMPTY)
    assert batch.available(structure)
    found = batch.require(structure, wanted_by="a test")
    if isinstance(found, TreeBatch):
        assert found.distances().sum() == 0
        assert not found.mask.any()
    else:
        assert found.tolist() == [[[0.0]], [[0.0]]]


def test_padding_changes_no_relation() -> None:
    facts = [same_sentence, *(partial(word_relation, name) for name in RELATIONS)]
    long = GENERATED[1]
    together, alone = batch_of(KIDS, long), batch_of(KIDS)
    for fact in facts:
        padded = fact(together)[0]
        assert torch.equal(padded[:8, :8], fact(alone)[0])
        assert not padded[8:].any()
        assert not padded[:, 8:].any()


def test_to_moves_everything(device: str) -> None:
    sentence = Sentence(
        ["a"],
        dependency=DependencyTree([0]),
        constituency=ConstituencyTree(["a"], [("X", 0, 1)]),
        relations={"self": [[1.0]]},
    )
    batch = batch_of(sentence).to(device)
    kind = torch.device(device).type
    assert batch.device.type == kind
    tensors = [batch.mask, batch.lengths, batch.relations["self"], batch.has["self"], distance("word", batch)]
    assert {tensor.device.type for tensor in tensors} == {kind}
    assert {distance(name, batch).device.type for name in ("dependency", "constituency")} == {kind}
    assert batch.sentences == (sentence,)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="at least one sentence, got none"):
        collate([], VOCABULARY)
    with pytest.raises(ValueError, match="not to be named like a tree, got 'dependency'"):
        batch_of(Sentence(["a"], relations={"dependency": [[1.0]]}))


def test_examples_sentences_and_texts_are_collated_alike() -> None:
    words = Sentence(["It", "is", "n't", "."])
    vocabulary = Vocabulary(["it", "is"])
    expected = collate([words], vocabulary)
    for item in (words, Example(words), Example([words], "x"), "It isn't.", Example("It isn't.")):
        batch = collate([item], vocabulary)
        assert batch.tokens.tolist() == expected.tokens.tolist()
        assert batch.sentences[0].words == words.words


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ("a dog", TypeError, r"collate expects a list of sentences, got one str; write \['a dog'\]"),
        (Sentence(["a"]), TypeError, "collate expects a list of sentences, got one Sentence"),
        (Example("a"), TypeError, "collate expects a list of sentences, got one Example"),
        ([Example(("a", "b"))], ValueError, "collate expects one sentence for each row, got a pair at 0"),
        ([3], TypeError, "expected an Example, a Sentence or a text, got int 3"),
        ([["a", "dog"]], TypeError, r"expected an Example, a Sentence or a text, got list \['a', 'dog'\]"),
        ([], ValueError, "collate expects at least one sentence, got none"),
    ],
)
def test_what_cannot_be_collated(items: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        collate(items, Vocabulary([]))
