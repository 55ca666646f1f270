"""Seconds per training step: structured attention against simple attention in the same model, in one run.

Kim et al. (2017) report that structured models train about five times more slowly. Models and batches are those of the
paper, but for a narrower translation: tree transduction (formulas of depth 2 to 4, batch of 20, width 50), translation
(two-layer LSTMs of width 256, a chain over the source for each step of the target, 64 sentences of about 12 words), and
inference (decomposable attention, width 300, 32 pairs). A step is collating, forward, loss, backward, clipping and the
update. Models take turns.

    python -m benchmarks.structured_step [--tasks transduction translation inference] [--turns 7] [--threads 1]
"""

import argparse
import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import structattn as sa
from benchmarks import markdown
from benchmarks.sentences import WORDS, lengths_about, random_sentence
from benchmarks.turns import medians
from structattn.data.text_vocabulary import TextVocabulary
from structattn.encoders import build
from structattn.tasks import ClassifierConfig, SentenceModel, get_task
from structattn.tasks.decoding import build_decoder
from structattn.tasks.sequence_model import SequenceModel, TextProcessor
from structattn_papers.formulas import formulas


@dataclass(frozen=True)
class Contest:
    """One task: the attentions that are compared, what they are compared with, and the examples of a batch."""

    attentions: tuple[str, ...]
    simple: str
    model: Callable[[str], Any]
    batches: Callable[[], Iterator[Sequence[sa.Example]]]


def transduction_model(attention: str) -> SequenceModel:
    examples = list(itertools.islice(formulas(0), 500))
    source = sa.Vocabulary.from_examples(examples)
    target = TextVocabulary.from_texts([str(example.label) for example in examples])
    encoder = build("structured", vocab_size=len(source), attention=attention, dim=50)
    decoder = build_decoder("lstm", encoder, len(target), attention="simple", initial="zero")
    return SequenceModel(encoder, decoder, get_task("transduction"), texts=TextProcessor(source, target))


def transduction_batches() -> Iterator[Sequence[sa.Example]]:
    stream = formulas(1)
    while True:
        yield list(itertools.islice(stream, 20))


def translation_model(attention: str) -> SequenceModel:
    source, target = sa.Vocabulary(WORDS), TextVocabulary.from_texts([" ".join(WORDS)])
    encoder = build("lstm", vocab_size=len(source), dim=256)
    decoder = build_decoder("lstm", encoder, len(target), attention=attention, num_layers=2, dropout=0.3)
    return SequenceModel(encoder, decoder, get_task("translation"), texts=TextProcessor(source, target))


def translation_batches() -> Iterator[Sequence[sa.Example]]:
    generator = random.Random(1)
    while True:
        lengths = lengths_about(generator, 12, 4, 64)
        yield [
            sa.Example([random_sentence(generator, length)], " ".join(generator.choices(WORDS, k=length)))
            for length in lengths
        ]


def inference_model(inside: str) -> SentenceModel:
    vocabulary = sa.Vocabulary(WORDS)
    encoder = build("decomposable", vocab_size=len(vocabulary), inside=inside)
    task = dataclasses.replace(get_task("snli"), combine="together")
    return SentenceModel(encoder, task, vocabulary=vocabulary, classifier=ClassifierConfig(hidden=300))


def inference_batches() -> Iterator[Sequence[sa.Example]]:
    generator = random.Random(2)
    while True:
        pairs = zip(lengths_about(generator, 14, 6, 32), lengths_about(generator, 8, 3, 32), strict=True)
        yield [
            sa.Example([random_sentence(generator, length) for length in pair], generator.choice(LABELS))
            for pair in pairs
        ]


LABELS = ("entailment", "neutral", "contradiction")
CONTESTS = {
    "transduction": Contest(
        ("none", "simple", "projective", "nonprojective", "constituency"),
        "simple",
        transduction_model,
        transduction_batches,
    ),
    "translation": Contest(("simple", "sigmoid", "segmentation"), "simple", translation_model, translation_batches),
    "inference": Contest(
        ("none", "simple", "projective", "nonprojective"), "simple", inference_model, inference_batches
    ),
}


class Learner:
    """A model and what it learns with."""

    def __init__(self, model: Any) -> None:
        self.model = model.train()
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters)

    def step(self, examples: Sequence[sa.Example]) -> float:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        self.model.loss(examples).backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return time.perf_counter() - start


def compare(name: str, turns: int) -> None:
    """The lines of one task."""
    contest = CONTESTS[name]
    learners = {}
    for attention in contest.attentions:
        torch.manual_seed(0)
        learners[attention] = Learner(contest.model(attention))
    warm = 2
    batches = dict(zip(range(-warm, turns), contest.batches(), strict=False))
    times = medians(contest.attentions, lambda name, turn: learners[name].step(batches[turn]), turns=turns, warm=warm)
    for attention, taken in times.items():
        parameters = sum(parameter.numel() for parameter in learners[attention].parameters)
        ratio = f"{taken / times[contest.simple]:.2f}x"
        print(markdown.line([name, attention, f"{parameters:,}", f"{1000 * taken:.1f}", ratio]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{options.threads} threads, median of {options.turns} training steps\n")
    print(markdown.header(["task", "attention", "parameters", "step, ms", "to simple"]), flush=True)
    for name in options.tasks:
        compare(name, options.turns)


if __name__ == "__main__":
    main()
