"""Base noun phrases of a dependency treebank, labelled by the tag of their head: reading, learning, scoring."""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

import structattn as sa
from structattn.data.readers.treebanks import find_noun_phrases

LABELS = ("NOUN", "PROPN", "PRON")
Phrase = tuple[int, int, int]  # start, end (half-open), label from 1 on


def phrases(sentence: sa.Sentence) -> list[Phrase]:
    """The base noun phrases of a sentence with tags and a dependency tree, from left to right."""
    return [(start, end, LABELS.index(tag) + 1) for start, end, tag in find_noun_phrases(sentence)]


def read(path: Path) -> list[sa.Sentence]:
    """The sentences of a CoNLL-U file (``.gz``, too) with up to 60 words."""
    return [sentence for sentence in sa.read_conllu(path) if 0 < len(sentence.words) <= 60]


def f1(predicted: Sequence[Sequence[Phrase]], gold: Sequence[Sequence[Phrase]]) -> float:
    """Harmonic mean of precision and recall of labelled phrases, in percent."""
    right = sum(len(set(ours) & set(theirs)) for ours, theirs in zip(predicted, gold, strict=True))
    return 200 * right / max(1, sum(map(len, predicted)) + sum(map(len, gold)))


def learn(tagger: nn.Module, loss: Callable[..., Tensor], sentences: Sequence[sa.Sentence], epochs: int) -> None:
    """Adam on batches of 32 sentences of similar length, in random order."""
    generator = random.Random(0)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=5e-3)
    ordered = sorted(sentences, key=lambda sentence: len(sentence.words))
    batches = [ordered[i : i + 32] for i in range(0, len(ordered), 32)]
    tagger.train()
    for epoch in range(epochs):
        total, start = 0.0, time.perf_counter()
        for batch in generator.sample(batches, len(batches)):
            optimizer.zero_grad()
            value = loss(batch, [phrases(sentence) for sentence in batch])
            value.backward()
            optimizer.step()
            total += value.item() / len(batches)
        print(f"  epoch {epoch + 1}: loss {total:.3f}, {time.perf_counter() - start:.0f} s", flush=True)


def compare(
    description: str | None,
    build: Callable[[sa.Vocabulary, bool], nn.Module],
    arguments: Sequence[str] | None,
) -> dict[str, float]:
    """Train the structured and the independent tagger on one treebank; print and return F1 on the development data.

    A tagger has ``loss(sentences, phrases)`` and ``predict(sentences)``; ``arguments`` are those of the command line.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, help="treebank in CoNLL-U")
    parser.add_argument("dev", type=Path, help="treebank in CoNLL-U")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="train on this many only")
    options = parser.parse_args(arguments)
    train, dev = read(options.train)[: options.sentences], read(options.dev)
    vocabulary = sa.Vocabulary.from_examples(train, min_count=2)
    gold, scores = [phrases(sentence) for sentence in dev], {}
    for name, structured in (("structured", True), ("independent", False)):
        torch.manual_seed(1)
        print(name)
        tagger = build(vocabulary, structured)
        learn(tagger, tagger.loss, train, options.epochs)
        tagger.eval()
        with torch.no_grad():
            predicted = [tagger.predict(dev[i : i + 64]) for i in range(0, len(dev), 64)]
        scores[name] = f1([sentence for batch in predicted for sentence in batch], gold)
        print(f"  F1 {scores[name]:.1f} on {len(dev)} sentences with {sum(map(len, gold))} phrases", flush=True)
    return scores
