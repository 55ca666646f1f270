"""What is said of data before a run: counts by hand, and warnings that real data never raise."""

import re
from collections import Counter

import pytest

from structattn.data import Example
from structattn.data.data_summary import looks_like_words, summarise
from structattn.syntax import DependencyTree, Sentence

TREE = Sentence(["a", "Dog"], dependency=DependencyTree([2, 0]))


def test_counts_by_hand() -> None:
    examples = [Example(TREE, "x"), Example("one two three", "y"), Example("", "y"), Example("Dog", None)]
    found = summarise(examples, "train", format="csv", known_words={"a", "dog", "one"}, lowercase=True)
    assert (found.examples, found.labels, found.unlabelled) == (4, {"y": 2, "x": 1}, 1)
    assert (found.lengths, found.words, found.unknown_words) == ((1, 3), 6, 2)
    assert (found.sentences, found.without_trees) == (4, 3)
    assert found.warnings == ("train: 1 of 4 texts is empty",)
    assert str(found) == (
        "train: 4 examples (csv); 2 labels (y 2, x 1); 1 without a label; 1 words (median; at most 3); "
        "33.3% of the words without a vector; 3 sentences without a tree"
    )


def test_scores_and_pairs() -> None:
    found = summarise([Example((TREE, TREE), 1.5), Example((TREE, TREE), 4.0)], "dev")
    assert (found.scores, found.labels, found.sentences, found.without_trees) == ((1.5, 4.0), {}, 4, 0)
    assert "scores 1.5 to 4;" in str(found)


def test_empty_texts_are_counted() -> None:
    assert summarise([Example(("a", text), text or "x") for text in ("", "b", " ")], "dev").warnings == (
        "dev: 2 of 6 texts are empty",
    )


def test_long_labels_are_cut() -> None:
    found = str(summarise([Example("a", "a\nb " * 99), Example("b", "c")]))
    assert "2 labels (" + "a b " * 9 + "a b... 1, c 1);" in found


def test_many_labels_are_cut() -> None:
    found = summarise([Example("a", f"c{number}") for number in range(9)], "dev")
    assert "9 labels (c0 1, c1 1, c2 1, c3 1, c4 1, c5 1, 3 more)" in str(found)


@pytest.mark.parametrize(
    ("labels", "known", "format", "warning"),
    [
        ("ab", None, "csv", None),
        ("aa", None, "csv", "train: every example has the same label 'a'; there is nothing to learn"),
        ("aa", "ab", "csv", "train: every example has the same label 'a', so accuracy says little"),
        ("aa", "a", "csv", None),
        ("abcc", "ab", "csv", "train: 2 of 4 examples have labels that are not among the 2 of the training data: 'c'"),
        ([f"word{n}" for n in range(12)] * 2, None, "csv", None),
        ([f"word{n}" for n in range(12)], [f"word{n}" for n in range(99)], "csv", None),
        ([f"{n} 7" for n in range(12)], None, "csv", None),
        (
            [f"word{n} " * 99 for n in range(12)],
            None,
            "csv",
            r"train: 12 examples have 12 labels .('word[\w ]{36}'..., ){6}...., which look like texts",
        ),
        (
            [f"word{n}" for n in range(12)],
            None,
            "labelled",
            "train: the 12 labels .'word0', .* look like the first words",
        ),
    ],
)
def test_warnings(labels: list[str], known: str | None, format: str, warning: str | None) -> None:
    found = summarise([Example("a", label) for label in labels], "train", format=format, known_labels=known).warnings
    assert len(found) == (warning is not None)
    assert all(re.match(warning or "", one) for one in found)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (Counter({"What": 900, "How": 400} | {f"Word{n}": 1 for n in range(60)}), True),
        (Counter({f"{kind}:{n}": 1 + 3 * n for kind in ("ENTY", "DESC") for n in range(25)}), False),  # TREC, fine
        (Counter({"What": 226, "How": 55, "Who": 47, "Where": 22, "Name": 3}), True),
        (Counter({"is": 226, "are": 55, "was": 47}), False),  # agreement
        (Counter({str(n): 1 for n in range(50)}), False),
        (Counter({f"class{n}": 40 for n in range(150)}), False),  # intents
    ],
)
def test_first_words_and_real_labels(labels: Counter[str], expected: bool) -> None:
    assert looks_like_words(labels) is expected
