"""Sentences without meaning, for what only takes time, and what a training step is measured by."""

import random
from collections.abc import Iterable

import structattn as sa

WORDS = [f"w{number}" for number in range(1000)]


def random_sentence(generator: random.Random, length: int) -> sa.Sentence:
    """A sentence with a random dependency tree: every word hangs on an earlier one in a random order of the words."""
    order = generator.sample(range(1, length + 1), length)
    heads = [0] * length
    for number, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[generator.randrange(number)]
    return sa.Sentence(generator.choices(WORDS, k=length), dependency=sa.DependencyTree(heads))


def random_batch(generator: random.Random, lengths: Iterable[int], vocabulary: sa.Vocabulary) -> sa.SentenceBatch:
    """A batch of such sentences."""
    return sa.collate([random_sentence(generator, length) for length in lengths], vocabulary)


def lengths_about(generator: random.Random, mean: float, deviation: float, number: int) -> list[int]:
    """Lengths as in a corpus of short sentences: from 3 to 30 words."""
    return [min(30, max(3, round(generator.gauss(mean, deviation)))) for _ in range(number)]
