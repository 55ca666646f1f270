"""Seconds per batch: MS-SAN against MS-SAN with separate directions (and a plain Transformer of MS-SAN's size).

Qi et al. 2020 (arXiv 2012.14642) report 2 ms against 4 ms a batch of 32. Models take turns batch by batch in one run,
so that a busy machine slows all of them alike; the median is printed. Word vectors are left out: all share them.

    python benchmarks/ms_san_sep.py [--batches 30] [--batch-size 32] [--dim 300] [--device cpu] [--threads 2]
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import structattn as sa

NAMES = ("ms_san", "ms_san_sep", "transformer")


def random_sentence(generator: random.Random, length: int) -> sa.Sentence:
    """A sentence with a random dependency tree: every word hangs on an earlier one in a random order of the words."""
    order = generator.sample(range(1, length + 1), length)
    heads = [0] * length
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[generator.randrange(place)]
    return sa.Sentence([f"w{generator.randrange(1000)}" for _ in range(length)], dependency=sa.DependencyTree(heads))


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def seconds(work: Callable[[], None], device: str) -> float:
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


class Step:
    """One model with what it needs to encode and to learn."""

    def __init__(self, name: str, *, dim: int, device: str) -> None:
        torch.manual_seed(0)
        encoder = sa.encoders.build(name, vocabulary_size=1002, dim=dim)
        self.contextualizer = encoder.contextualizer.to(device)
        self.pooler = encoder.pooler.to(device)
        self.classifier = nn.Linear(encoder.output_dim, 3).to(device)
        self.parts = nn.ModuleList((self.contextualizer, self.pooler, self.classifier))
        self.optimizer = torch.optim.Adam(self.parts.parameters())
        self.size = sum(part.numel() for module in self.parts[:2] for part in module.parameters())

    def logits(self, states: torch.Tensor, batch: sa.SentenceBatch) -> torch.Tensor:
        encoding = self.contextualizer(states, batch)
        vector, _ = self.pooler(encoding.states, encoding.mask)
        return self.classifier(vector)

    def encode(self, states: torch.Tensor, batch: sa.SentenceBatch) -> None:
        self.parts.eval()
        with torch.no_grad():
            self.logits(states, batch)

    def train(self, states: torch.Tensor, batch: sa.SentenceBatch) -> None:
        self.parts.train()
        self.optimizer.zero_grad()
        target = torch.zeros(len(batch), dtype=torch.long, device=states.device)
        nn.functional.cross_entropy(self.logits(states, batch), target).backward()
        self.optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads on the cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    generator = random.Random(1)
    vocabulary = sa.Vocabulary([f"w{number}" for number in range(1000)])
    steps = {name: Step(name, dim=options.dim, device=options.device) for name in NAMES}
    times: dict[tuple[str, str], list[float]] = {(name, kind): [] for name in NAMES for kind in ("encode", "train")}
    for number in range(-3, options.batches):  # three batches to warm up
        # Lengths as in SNLI's premises: about 14 words on average, up to 30.
        lengths = [min(30, max(3, round(generator.gauss(14, 6)))) for _ in range(options.batch_size)]
        batch = sa.collate([random_sentence(generator, length) for length in lengths], vocabulary).to(options.device)
        states = torch.randn(*batch.mask.shape, options.dim, device=options.device) * batch.mask.unsqueeze(-1)
        for name in generator.sample(NAMES, len(NAMES)):
            step = steps[name]
            for kind, work in (("encode", step.encode), ("train", step.train)):
                # The distances in the trees are found once per batch and kept; each model pays for them here.
                fresh = batch.to(options.device)
                taken = seconds(lambda work=work, fresh=fresh, states=states: work(states, fresh), options.device)
                if number >= 0:
                    times[name, kind].append(taken)

    place = options.device if options.device != "cpu" else f"cpu, {torch.get_num_threads()} threads"
    print(f"batch of {options.batch_size}, width {options.dim}, {place}, median of {options.batches} batches")
    print(f"{'model':<14}{'parameters':>12}{'encode, ms':>13}{'train, ms':>13}{'encode':>10}{'train':>8}")
    base = {kind: statistics.median(times["ms_san", kind]) for kind in ("encode", "train")}
    for name in NAMES:
        medians = {kind: statistics.median(times[name, kind]) for kind in ("encode", "train")}
        ratios = {kind: medians[kind] / base[kind] for kind in medians}
        print(
            f"{name:<14}{steps[name].size:>12,}{1000 * medians['encode']:>13.1f}{1000 * medians['train']:>13.1f}"
            f"{ratios['encode']:>9.2f}x{ratios['train']:>7.2f}x"
        )


if __name__ == "__main__":
    main()
