"""Splitting text into words: Penn conventions on English, and laws on anything."""

import random

import pytest

from structattn.syntax import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's good, isn't it?", "It 's good , is n't it ?"),
        ("I can't, won't and cannot.", "I ca n't , wo n't and can not ."),
        ("They’re John’s", "They ’re John ’s"),
        ("the dogs' O'Neill", "the dogs ' O'Neill"),
        ("He'd've gone", "He 'd 've gone"),
        ('"Well-made" (50%) films...', '" Well-made " ( 50 % ) films ...'),
        ("Mr. J. Smith of Acme Inc. (etc.)", "Mr. J. Smith of Acme Inc. ( etc. )"),
        ("The U.S. won at 3:30 on 1/2/99.", "The U.S. won at 3:30 on 1/2/99 ."),
        ("plan B.", "plan B ."),
        ("$1,000.50 and €5", "$ 1,000.50 and € 5"),
        ("see https://a.b/c?d=e, or me@b.org", "see https://a.b/c?d=e , or me@b.org"),
        ("no--yes – no…", "no -- yes – no …"),
        ("``so'' -LRB- and\\/or \\*", "`` so '' -LRB- and\\/or \\ *"),
        ("naïve cafe\u0301 हिन्दी", "naïve cafe\u0301 हिन्दी"),
        ("good :) bad", "good :) bad"),
        ("", ""),
    ],
)
def test_words(text, words):
    assert split_words(text) == words.split()


def test_splitting_again_changes_nothing_and_no_character_is_lost():
    generator = random.Random(2)
    parts = [
        "don",
        "n't",
        "'s",
        "'",
        "’t",
        ".",
        "...",
        "..",
        "-",
        "--",
        "$",
        "%",
        "3",
        "1/2",
        "Mr",
        "U.S",
        "J",
        "(",
        ")",
    ]
    parts += [":", "can", "not", "@", "b.org", "http://", "www.", "``", "''", '"', "é", "\u0301", " ", "\u00a0", "\\*"]
    for _ in range(3000):
        text = "".join(generator.choices(parts, k=generator.randrange(1, 9)))
        words = split_words(text)
        assert split_words(" ".join(words)) == words
        assert "".join(words) == "".join(text.split())
        assert all(words)
