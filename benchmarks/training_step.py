"""Seconds per training step: MS-SAN, DiSAN, BiLSTM and the plain Transformer at equal width, in one run.

A step is word vectors, encoder, linear classifier, cross entropy, backward and Adam, on sentences of exactly this many
words with random dependency trees. Models take turns step by step, so that a busy machine slows all of them alike.

    python -m benchmarks.training_step [--words 20 50] [--steps 7] [--batch-size 32] [--dim 300] [--threads 2]
"""

import argparse
import random
import time

import torch
from torch import nn

import structattn as sa
from benchmarks import markdown
from benchmarks.sentences import WORDS, random_batch
from benchmarks.turns import medians

NAMES = ("transformer", "ms_san", "disan", "bilstm")
VOCABULARY = sa.Vocabulary(WORDS)


class Learner:
    def __init__(self, name: str, dim: int) -> None:
        torch.manual_seed(0)
        self.encoder = sa.encoders.build(name, vocab_size=len(VOCABULARY), dim=dim).train()
        self.classifier = nn.Linear(self.encoder.output_dim, 3)
        parameters = [*self.encoder.parameters(), *self.classifier.parameters()]
        self.optimizer = torch.optim.Adam(parameters)
        words = sum(parameter.numel() for parameter in self.encoder.embedder.parameters())
        self.size = sum(parameter.numel() for parameter in self.encoder.parameters()) - words

    def step(self, batch: sa.SentenceBatch) -> float:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        logits = self.classifier(self.encoder(batch).vector)
        nn.functional.cross_entropy(logits, torch.zeros(len(batch), dtype=torch.long)).backward()
        self.optimizer.step()
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    learners = {name: Learner(name, options.dim) for name in NAMES}
    print(f"batch of {options.batch_size}, width {options.dim}, {options.threads} threads, median of {options.steps}\n")
    print(markdown.header(["words", "encoder", "parameters", "step, ms", "to transformer"]), flush=True)
    for words in options.words:
        lengths = [words] * options.batch_size
        # Distances in trees are found once per batch and kept; each model pays for them here: a batch of its own.
        times = medians(
            NAMES,
            lambda name, turn, lengths=lengths: learners[name].step(
                random_batch(random.Random(turn), lengths, VOCABULARY)
            ),
            turns=options.steps,
        )
        for name, taken in times.items():
            ratio = f"{taken / times['transformer']:.2f}x"
            print(markdown.line([words, name, f"{learners[name].size:,}", f"{1000 * taken:.1f}", ratio]), flush=True)


if __name__ == "__main__":
    main()
