"""Sentences a second of the processor that `collate` makes into batches, by what the sentences carry.

Every sentence has the same number of words, a random dependency tree with labels and the phrases of that tree. Seconds
of the processor are what other programs on the machine change least.

    python -m benchmarks.collate [--words 20] [--sentences 4096] [--batch-sizes 32 128] [--threads 1]
"""

import argparse
import random
import time
from collections.abc import Sequence

import torch

import structattn as sa
from benchmarks import markdown, turns
from benchmarks.sentences import WORDS, random_sentence

LABELS = ("nsubj", "obj", "det", "nmod:poss", "advmod")


def carrying(number: int, words: int) -> dict[str, list[sa.Sentence]]:
    """The same sentences, with more and more of their structures."""
    generator = random.Random(0)
    bare, dependencies, both = [], [], []
    for _ in range(number):
        sentence = random_sentence(generator, words)
        tree = sa.DependencyTree(sentence.dependency.heads, generator.choices(LABELS, k=words))
        bare.append(sa.Sentence(sentence.words))
        dependencies.append(sa.Sentence(sentence.words, dependency=tree))
        phrases = sa.ConstituencyTree.from_dependency(sentence.words, tree)
        both.append(sa.Sentence(sentence.words, dependency=tree, constituency=phrases))
    return {"words": bare, "and labelled dependencies": dependencies, "and phrases": both}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=20)
    parser.add_argument("--sentences", type=int, default=4096)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    vocabulary = sa.Vocabulary(WORDS, labels=LABELS)
    sets = carrying(options.sentences, options.words)

    def batches(sentences: Sequence[sa.Sentence], size: int) -> None:
        for start in range(0, len(sentences), size):
            sa.collate(sentences[start : start + size], vocabulary)

    def work(name: tuple[str, int], turn: int) -> float:
        start = time.process_time()
        batches(sets[name[0]], name[1])
        return time.process_time() - start

    taken = turns.medians([(kind, size) for kind in sets for size in options.batch_sizes], work, turns=options.turns)
    print(f"Sentences of {options.words} words a second of the processor.\n")
    print(markdown.header(["batch", *sets]))
    for size in options.batch_sizes:
        print(markdown.line([size, *(f"{options.sentences / taken[kind, size]:,.0f}" for kind in sets)]))


if __name__ == "__main__":
    main()
