"""Seconds per batch: MS-SAN against MS-SAN with separate directions (and a plain Transformer of MS-SAN's size).

Qi et al. 2020 (arXiv 2012.14642) report 2 ms against 4 ms a batch of 32. Models take turns batch by batch in one run,
so that a busy machine slows all of them alike; the median is printed. Word vectors are left out: all share them.

    python -m benchmarks.ms_san_sep [--batches 8] [--batch-size 32] [--dim 300] [--device cpu] [--threads 2]
"""

import argparse
import random
from collections.abc import Callable

import torch
from torch import nn

import structattn as sa
from benchmarks import markdown, turns
from benchmarks.sentences import WORDS, lengths_about, random_batch

NAMES, KINDS = ("ms_san", "ms_san_sep", "transformer"), ("encode", "train")


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def seconds(work: Callable[[], None], device: str) -> float:
    def waiting() -> None:
        work()
        synchronise(device)

    synchronise(device)
    return turns.seconds(waiting)


class Step:
    """One model with what it needs to encode and to learn."""

    def __init__(self, name: str, *, dim: int, device: str) -> None:
        torch.manual_seed(0)
        encoder = sa.encoders.build(name, vocab_size=1002, dim=dim)
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
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads on the cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    vocabulary = sa.Vocabulary(WORDS)
    steps = {name: Step(name, dim=options.dim, device=options.device) for name in NAMES}

    def work(contender: tuple[str, str], turn: int) -> float:
        name, kind = contender
        generator = random.Random(turn)
        # About as long as SNLI's premises. Distances in the trees are found once per batch and kept; each model pays
        # for them here: a batch of its own.
        lengths = lengths_about(generator, 14, 6, options.batch_size)
        batch = random_batch(generator, lengths, vocabulary).to(options.device)
        states = torch.randn(*batch.mask.shape, options.dim, device=options.device) * batch.mask.unsqueeze(-1)
        step = steps[name]
        run = step.encode if kind == "encode" else step.train
        return seconds(lambda: run(states, batch), options.device)

    taken = turns.medians([(name, kind) for name in NAMES for kind in KINDS], work, turns=options.batches)
    device = options.device if options.device != "cpu" else f"cpu, {torch.get_num_threads()} threads"
    print(f"batch of {options.batch_size}, width {options.dim}, {device}, median of {options.batches} batches\n")
    columns = ["encoder", "parameters", "encode, ms", "train, ms", "encode, to ms_san", "train, to ms_san"]
    print(markdown.header(columns))
    for name in NAMES:
        times = [f"{1000 * taken[name, kind]:.1f}" for kind in KINDS]
        ratios = [f"{taken[name, kind] / taken['ms_san', kind]:.2f}x" for kind in KINDS]
        print(markdown.line([name, f"{steps[name].size:,}", *times, *ratios]))


if __name__ == "__main__":
    main()
