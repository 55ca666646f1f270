"""Words and subwords: alignment by characters, against loops over single characters; words without subwords."""

import random

import pytest

from structattn.syntax import align_words
from structattn.syntax.word_alignment import contract_heads


def test_words_in_a_text():
    text = '  He said: "(It  isn\'t)"'
    words = ["He", "said", ":", "``", "-LRB-", "It", "is", "n't", "-RRB-", "''"]
    places = align_words(words, text)
    assert [text[start:end] for start, end in places] == ["He", "said", ":", '"', "(", "It", "is", "n't", ")", '"']


@pytest.mark.parametrize(
    "words", [["a", "\xa0", "b"], ["\xa0Who"], ["a", "\u3000b"], ["x", "\u2028", "y"], ["\t``", "a"]]
)
def test_words_may_begin_with_white_space(words):
    text = "  ".join(words)
    assert [text[start:end] for start, end in align_words(words, text)] == words
    # White space that no word begins with is passed over as ever.
    assert align_words(["Who", "came"], "\xa0Who\xa0 came") == [(1, 4), (6, 10)]


def test_a_word_that_does_not_come_next_is_named():
    with pytest.raises(ValueError, match="expected word 1 'dog' at character 4 of the text, got 'cat sat'"):
        align_words(["the", "dog"], "the cat sat")


@pytest.mark.parametrize(
    ("words", "offsets", "text", "expected"),
    [
        (["a", "bcd"], [(0, 1), (2, 3), (3, 5)], None, [0, 1, 1]),
        (["a", "bcd"], [None, (0, 0), (0, 1), (1, 5), (5, 5)], None, [None, None, 0, 1, None]),
        (["do", "n't"], [(0, 5)], "don't", [0]),
        (["do", "n't"], [(0, 3), (3, 5)], "don't", [0, 1]),
        (["a", "bcd"], [(0, 3)], "abcd", [1]),
        (["ab", "cd"], [(1, 3)], "abcd", [0]),
        (["ab", "c"], [(0, 5), (4, 5)], "ab  c", [0, 1]),
        (["a"], [(1, 2)], "a ", [None]),
        (["\xa0Who", "came"], [(0, 4), (5, 9)], None, [0, 1]),
        (["a", "\u3000b"], [(0, 1), (2, 4)], None, [0, 1]),
        ([], [(0, 0)], None, [None]),
    ],
)
def test_the_word_of_a_subword(words, offsets, text, expected):
    assert align_words(words, offsets, text=text) == expected


def test_subwords_inside_words_belong_to_them():
    generator = random.Random(4)
    for _ in range(100):
        words = ["".join(generator.choices("abc", k=generator.randrange(1, 6))) for _ in range(generator.randrange(6))]
        joiner = generator.choice(["", " "])
        text = joiner.join(words)
        owner = [number for number, word in enumerate(words) for _ in word + joiner][: len(text)]
        offsets, expected = [], []
        for start in range(len(text)):
            end = start + 1
            while end < len(text) and owner[end] == owner[start] and generator.random() < 0.5:
                end += 1
            letters = [owner[k] for k in range(start, end) if not text[k].isspace()]
            offsets.append((start, end))
            expected.append(letters[0] if letters else None)
        assert align_words(words, offsets, text=text) == expected


def test_offsets_outside_the_text_are_refused():
    for offsets in ((0, 4), (-1, 2), (2, 1)):
        with pytest.raises(ValueError, match="offsets must lie in a text of 3 characters, got"):
            align_words(["abc"], [offsets])


def test_a_word_without_subwords_is_contracted():
    # 1 <- 2 <- 3 <- 4 with words 2 and 3 gone: 1 is the child of 4.
    assert contract_heads([2, 3, 4, 0], {0, 3}) == [4, 0, 0, 0]
    assert contract_heads([2, 0, 2], {0, 2}) == [0, 0, 0]  # the root gone: two roots
    with pytest.raises(ValueError, match="must not form a cycle"):
        contract_heads([2, 1], {0, 1})
