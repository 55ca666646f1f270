"""The generated treebank: gold trees that are right, and labels that only the structure tells."""

import itertools
import math
from collections import Counter

import pytest

from structattn.data import Example, agreement_treebank

LABELS = ("singular", "plural")


def take(count: int, seed: int = 0, num_attractors: list[int] | None = None) -> list[Example]:
    numbers = range(3) if num_attractors is None else num_attractors
    return list(itertools.islice(agreement_treebank(seed, numbers), count))


def noun_numbers(example: Example) -> list[tuple[int, int]]:
    """Position and number (0 or 1) of each noun."""
    tree = example.sentences[0].constituency
    assert tree is not None
    return [(place, tag == "NNS") for place, tag in enumerate(tree.tags) if tag in ("NN", "NNS")]


def test_seeded_and_endless() -> None:
    assert take(20, seed=3) == take(20, seed=3)
    assert take(20, seed=3) != take(20, seed=4)
    assert [example.id for example in take(3)] == ["0", "1", "2"]


def test_labels_are_balanced() -> None:
    examples = take(400)
    for first, second in zip(examples[::2], examples[1::2], strict=True):
        assert {first.label, second.label} == set(LABELS)


@pytest.mark.parametrize("attractors", range(5))
def test_trees_tell_subject_and_attractors(attractors: int) -> None:
    for example in take(60, num_attractors=[attractors]):
        sentence = example.sentences[0]
        dependency = sentence.dependency
        assert dependency is not None
        assert dependency.is_projective
        (subject,) = dependency.roots
        number = LABELS.index(str(example.label))
        nouns = noun_numbers(example)
        assert dict(nouns)[subject] == number
        assert sum(place > subject and other != number for place, other in nouns) == attractors
        assert sentence.metadata["attractors"] == str(attractors)
        assert sum(other for _, other in nouns) * 2 == len(nouns)


def test_both_trees_agree() -> None:
    """Every phrase is headed by exactly one of its words: only that word's head lies outside."""
    for example in take(100):
        sentence = example.sentences[0]
        assert sentence.dependency is not None
        assert sentence.constituency is not None
        for _, start, end in sentence.constituency.spans:
            heads = sentence.dependency.heads[start:end]
            assert sum(not start < head <= end for head in heads) == 1


def test_labels_and_tags_of_the_trees() -> None:
    phrases: set[str] = set()
    relations: set[str] = set()
    tags: set[str] = set()
    for example in take(300):
        sentence = example.sentences[0]
        assert sentence.dependency is not None
        assert sentence.constituency is not None
        assert sentence.tags is not None
        phrases |= {label for label, _, _ in sentence.constituency.spans}
        relations |= set(sentence.dependency.labels or ())
        tags |= set(sentence.tags)
    assert phrases == {"S", "NP", "PP", "SBAR", "WHNP", "VP", "ADVP"}
    assert relations == {
        *("root", "nsubj", "obj", "obl", "nmod", "det", "amod", "case", "mark"),
        *("acl:relcl", "advcl", "advmod", "punct"),
    }
    assert tags == {"DET", "ADJ", "NOUN", "ADP", "SCONJ", "VERB", "ADV", "PRON", "PUNCT"}


def test_verb_is_the_one_the_label_says() -> None:
    for example in take(50):
        metadata = example.sentences[0].metadata
        forms = (metadata["verb"], metadata["wrong_verb"])
        singular = forms[LABELS.index(str(example.label))]
        assert singular.endswith("s")
        assert forms[0] != forms[1]


def test_a_bag_of_words_is_at_chance() -> None:
    """Naive Bayes over word counts, trained on 1,200 examples, tried on 400."""
    examples = take(1600, seed=11)
    counts: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
    for example in examples[:1200]:
        counts[str(example.label)].update(example.sentences[0].words)

    def score(label: str, words: tuple[str, ...]) -> float:
        total = sum(counts[label].values()) + 200
        return sum(math.log((counts[label][word] + 1) / total) for word in words)

    right = sum(
        max(LABELS, key=lambda label: score(label, example.sentences[0].words)) == example.label
        for example in examples[1200:]
    )
    assert 160 <= right <= 240


def test_neither_the_nearest_nor_the_first_noun_tells() -> None:
    examples = take(500, seed=12)
    for place in (0, -1):
        right = sum(LABELS[noun_numbers(example)[place][1]] == example.label for example in examples)
        assert 150 <= right <= 300


def test_many_attractors_need_no_recursion() -> None:
    (example,) = take(1, num_attractors=[700])
    assert example.sentences[0].metadata["attractors"] == "700"


@pytest.mark.parametrize("numbers", [[], [1, -1]])
def test_bad_numbers_of_attractors(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match=r"numbers of attractors of at least 0, got \["):
        agreement_treebank(0, numbers)
