"""Sentences: values whose parts agree about the number of words."""

import dataclasses
import pickle

import pytest

from structattn.syntax import ConstituencyTree, DependencyTree, Sentence


def test_any_sequence_becomes_a_tuple():
    sentence = Sentence(["kids", "wash"], ["NOUN", "VERB"], DependencyTree([2, 0]))
    assert sentence == Sentence(("kids", "wash"), ("NOUN", "VERB"), DependencyTree((2, 0)))
    assert hash(sentence) == hash(Sentence(("kids", "wash"), ("NOUN", "VERB"), DependencyTree((2, 0))))
    assert (sentence.words, sentence.tags, len(sentence)) == (("kids", "wash"), ("NOUN", "VERB"), 2)


def test_equal_means_equal_in_everything():
    plain = Sentence(["a"])
    others = [
        Sentence(["b"]),
        Sentence(["a"], ["X"]),
        Sentence(["a"], dependency=DependencyTree([0])),
        Sentence(["a"], constituency=ConstituencyTree(["a"])),
        Sentence(["a"], relations={"r": [[1.0]]}),
        Sentence(["a"], metadata={"label": "1"}),
        Sentence(["a"], comments=["# label = 1"]),
    ]
    assert all(plain != other for other in others)
    assert len({plain, *others}) == len(others) + 1


def test_frozen_copied_and_pickled():
    relations = {"r": [[1.0]]}
    sentence = Sentence(["a"], relations=relations, metadata={"label": "1"})
    relations["s"] = [[2.0]]
    assert set(sentence.relations) == {"r"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        sentence.words = ("b",)
    assert pickle.loads(pickle.dumps(sentence)) == sentence
    assert dataclasses.replace(sentence, metadata={}).metadata == {}


def test_no_words():
    assert len(Sentence([], [], DependencyTree([]), ConstituencyTree([]), {"r": []})) == 0


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"tags": ["X"]}, "the sentence has 2 words but its tags has 1 entries"),
        ({"dependency": DependencyTree([0])}, "the sentence has 2 words but its dependency has 1 entries"),
        ({"constituency": ConstituencyTree(["a"])}, "the sentence has 2 words but its constituency has 1 entries"),
        ({"relations": {"r": [[1], [1]]}}, r"relation 'r' must be 2 x 2 .*, got 2 rows of lengths \[1\]"),
        ({"relations": {"r": [[1, 0]]}}, r"relation 'r' must be 2 x 2 .*, got 1 rows of lengths \[2\]"),
        ({"rows": [["1", *"abcdefghi"]]}, "the sentence has 2 words but its rows have 1"),
        ({"rows": [["1", "a"]]}, r"rows must have 10 columns, got rows of \[2\]"),
    ],
)
def test_parts_that_do_not_fit_name_both_numbers(parts, message):
    with pytest.raises(ValueError, match=message):
        Sentence(["a", "b"], **parts)


def test_words_are_strings_and_not_one_string():
    with pytest.raises(TypeError, match="got one string 'two words'"):
        Sentence("two words")
    with pytest.raises(TypeError):
        Sentence([1, 2])


def test_from_text():
    text = "They're here."
    assert Sentence.from_text(text) == Sentence(["They", "'re", "here", "."], metadata={"text": text})
    assert Sentence.from_text("  ").words == ()
