"""Seconds per training step: MS-SAN, DiSAN, BiLSTM and the plain Transformer at equal width, in one run.

A step is word vectors, encoder, linear classifier, cross entropy, backward and Adam, on sentences of exactly so many
words with random dependency trees. Models take turns step by step, so that a busy machine slows all of them alike.

    python benchmarks/training_step.py [--words 20 50] [--steps 15] [--batch-size 32] [--dim 300] [--threads 2]
"""

import argparse
import random
import statistics
import time

import torch
from torch import nn

import structattn as sa

NAMES = ("transformer", "ms_san", "disan", "bilstm")
VOCABULARY = sa.Vocabulary([f"w{number}" for number in range(1000)])


def random_sentence(generator: random.Random, length: int) -> sa.Sentence:
    """A sentence with a random dependency tree: every word hangs on an earlier one in a random order of the words."""
    order = generator.sample(range(1, length + 1), length)
    heads = [0] * length
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[generator.randrange(place)]
    return sa.Sentence([f"w{generator.randrange(1000)}" for _ in range(length)], dependency=sa.DependencyTree(heads))


class Learner:
    def __init__(self, name: str, dim: int) -> None:
        torch.manual_seed(0)
        self.encoder = sa.encoders.build(name, vocabulary_size=len(VOCABULARY), dim=dim).train()
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
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    generator = random.Random(1)
    learners = {name: Learner(name, options.dim) for name in NAMES}
    print(f"batch of {options.batch_size}, width {options.dim}, {options.threads} threads, median of {options.steps}")
    print(f"{'words':>6}  {'model':<13}{'parameters':>11}{'step, ms':>10}{'to transformer':>16}")
    for words in options.words:
        times: dict[str, list[float]] = {name: [] for name in NAMES}
        for number in range(-2, options.steps):  # two steps to warm up
            batch = sa.collate([random_sentence(generator, words) for _ in range(options.batch_size)], VOCABULARY)
            for name in generator.sample(NAMES, len(NAMES)):
                # Distances in trees are found once per batch and kept; each model pays for them here.
                taken = learners[name].step(batch.to("cpu"))
                if number >= 0:
                    times[name].append(taken)
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name in NAMES:
            ratio = medians[name] / medians["transformer"]
            print(
                f"{words:>6}  {name:<13}{learners[name].size:>11,}{1000 * medians[name]:>10.1f}{ratio:>15.2f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
