"""Head rules: hand-made phrases, the laws of percolation, and trees whose labels say nothing."""

import random

import pytest
from test_syntax_constituency import some_trees

from structattn.syntax import ConstituencyTree
from structattn.syntax.head_rules import find_head_child, guess_head_child, word_class


def heads_of(text):
    tree = ConstituencyTree.from_brackets(text)
    heads = tree.to_dependency().heads
    return {word: tree.words[head - 1] if head else None for word, head in zip(tree.words, heads, strict=True)}


@pytest.mark.parametrize(
    ("label", "children", "head"),
    [
        ("S", "NP VP .", 1),
        ("S", "S , CC S", 3),
        ("NP", "DT JJ NN", 2),
        ("NP", "NP CC NP", 2),
        ("NP", "NP PP", 0),
        ("NP", "DT NN POS", 2),
        ("VP", "MD VP", 0),
        ("VP", "TO VP", 1),
        ("VP", "VBD NP PP", 0),
        ("PP", "IN NP", 0),
        ("SBAR", "IN S", 0),
        ("SBAR", "WHNP S", 0),
        ("QP", "RB CD NN", 2),
        ("ADJP", "RB JJ", 1),
        ("WHNP", "WDT NN", 0),
        ("FRAG", "`` NP VP", 1),
        ("WHATEVER", "AA BB .", 1),
        ("WHATEVER", ". ,", 1),
    ],
)
def test_penn_phrases(label, children, head):
    assert find_head_child(label, children.split()) == head


def test_a_penn_sentence():
    text = "(S (NP-SBJ (PRP She)) (VP (MD will) (VP (VB eat) (NP (DT the) (JJ red) (NN fish)))) (. .))"
    assert heads_of(text) == {
        "She": "will",
        "will": None,
        "eat": "will",
        "the": "fish",
        "red": "fish",
        "fish": "eat",
        ".": "will",
    }


def test_a_sentence_whose_labels_say_nothing():
    assert heads_of("(3 (2 (2 The) (2 film)) (3 (2 is) (3 (2 very) (3 good))))") == {
        "The": "film",
        "film": "is",
        "is": None,
        "very": "good",
        "good": "is",
    }
    assert heads_of("(3 (2 It) (3 (3 delights) (2 (2 with) (2 (2 a) (2 smile)))))")["with"] == "delights"


def test_rough_classes_of_words():
    words = ["They", "can", "not", "quickly", "walked", "walking", "walk", "to", "into", "7", "%", "?!", "and", "which"]
    assert [word_class(word) for word in words] == [
        "noun phrase",
        "auxiliary",
        "adverb",
        "adverb",
        "verb",
        "participle",
        "noun",
        "to",
        "preposition",
        "noun",
        "noun",
        "punctuation",
        "conjunction",
        "complementizer",
    ]


def test_rough_heads_of_neighbours():
    assert guess_head_child(["noun phrase", "verb"]) == (1, "clause")
    assert guess_head_child(["verb", "noun phrase", "prepositional phrase"]) == (0, "verb")


def test_every_phrase_hangs_together():
    for tree in some_trees():
        heads = tree.to_dependency()
        assert heads.is_projective
        for label, start, end in tree.spans:
            if label.startswith("@"):
                continue  # a part of a phrase that was split in two need not have one head
            outside = [w for w in range(start, end) if not start <= heads.heads[w] - 1 < end]
            assert len(outside) == 1


def test_binarising_from_the_left_does_not_move_heads():
    for tree in some_trees():
        # Chains and phrases over one word are what binarising removes; without them nothing else may change.
        spans = [span for span in tree.collapsed().spans if span[2] - span[1] > 1 and not span[0].startswith("@")]
        plain = ConstituencyTree(tree.words, spans, tags=tree.tags)
        assert plain.binarised().to_dependency() == plain.to_dependency()


def test_words_outside_every_phrase_are_roots():
    tree = ConstituencyTree(["a", "b", "c", "d"], [("NP", 1, 3)], tags=["X", "DT", "NN", "X"])
    assert tree.to_dependency().heads == (0, 3, 0, 0)
    assert ConstituencyTree([]).to_dependency().heads == ()


def test_random_labels_always_give_a_tree():
    generator = random.Random(1)
    for _ in range(200):
        children = generator.choices(["NP", "VP", ",", ".", "X", "", "-LRB-"], k=generator.randrange(1, 6))
        assert 0 <= find_head_child(generator.choice(["NP", "S", "VP", "Q", ""]), children) < len(children)
