"""Megabytes that a batch of long texts needs, in training and prediction, and what is estimated before it is tried.

Every length runs in a process of its own: forward (and backward) on two texts of exactly this many words, with random
dependency trees and balanced phrase trees. Measured is how far the resident memory grows; the estimate comes from at
most 768 words. The machine must have Linux's `/proc`.

    python -m benchmarks.text_memory [--words 250 500 1000 2000] [--batch-size 2] [--dim 96] [--pictures FOLDER]
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import structattn as sa
from benchmarks import markdown
from benchmarks.memory import peak, status
from benchmarks.sentences import WORDS, random_sentence
from structattn.data import Example, PhraseTrees
from structattn.pictures import Series, line_chart, save
from structattn.tasks.memory import estimate_bytes, peak_bytes

NAMES = ("emb_s2t", "disan", "transformer", "ms_san", "tree_transformer")
MODES = ("train", "predict")


def make_work(name: str, mode: str, dim: int) -> Callable[[list[Example]], object]:
    """A training step without the optimiser, or a prediction."""
    torch.manual_seed(0)
    vocabulary = sa.Vocabulary(WORDS)
    encoder = sa.encoders.build(name, vocab_size=len(vocabulary), dim=dim)
    task = sa.tasks.get_task("classification")
    trees = PhraseTrees("balanced")
    model = sa.tasks.SentenceModel(encoder, task, vocabulary=vocabulary, labels=("0", "1"), trees=trees)
    trained = list(model.parameters())

    def train(batch: list[Example]) -> object:
        return torch.autograd.grad(model.loss(batch), trained, allow_unused=True)

    def predict(batch: list[Example]) -> object:
        with torch.no_grad():
            return model(model.collate(batch))

    model.train(mode == "train")
    return train if mode == "train" else predict


def measure(name: str, mode: str, words: int, *, batch_size: int, dim: int) -> tuple[float, float | None]:
    """Megabytes measured and estimated; no estimate where the need of short texts is no parabola."""
    generator = random.Random(words)
    batch = [Example((random_sentence(generator, words),), "0", id=str(index)) for index in range(batch_size)]
    work = make_work(name, mode, dim)
    # What the first call of anything takes once is no part of it.
    short = [Example((example.sentences[0].truncated(20),), "0", id=example.id) for example in batch]
    peak_bytes(lambda: work(short))
    resident = status("VmRSS")
    peak(reset=True)
    work(batch)
    measured = peak() - resident
    estimate = estimate_bytes(work, batch[0], count=batch_size)
    return measured, None if estimate is None else estimate / 1024**2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[250, 500, 1000, 2000])
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pictures", type=Path, help="a folder for memory-train.svg and memory-predict.svg")
    parser.add_argument("--one", nargs=2, metavar=("ENCODER", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = {"batch_size": options.batch_size, "dim": options.dim}
    if options.one:
        torch.set_num_threads(options.threads)
        print(json.dumps(measure(*options.one, options.words[0], **sizes)))
        return
    print(
        f"batch of {options.batch_size}, width {options.dim}, threads: {options.threads}: MB measured (MB estimated)\n"
    )
    print(markdown.header(["", "encoder", *(f"{words:,} words" for words in options.words)]), flush=True)
    for mode in MODES:
        lines = []
        for name in NAMES:
            pairs = [_alone(name, mode, words, sizes, options.threads) for words in options.words]
            cells = [f"{measured:,.0f} ({f'{estimate:,.0f}' if estimate else 'none'})" for measured, estimate in pairs]
            print(markdown.line([mode, name, *cells]), flush=True)
            lines.append(Series(name, options.words, [measured / 1024 for measured, _ in pairs]))
        if options.pictures is not None:
            options.pictures.mkdir(parents=True, exist_ok=True)
            title = f"{'Training on' if mode == 'train' else 'Prediction for'} {options.batch_size} texts at a time"
            picture = line_chart(lines, title=title, x_label="words of a text", y_label="GB", from_zero=True)
            save(options.pictures / f"memory-{mode}.svg", picture)


def _alone(name: str, mode: str, words: int, sizes: dict[str, int], threads: int) -> tuple[float, float | None]:
    options = [f"--batch-size={sizes['batch_size']}", f"--dim={sizes['dim']}"]
    options += [f"--threads={threads}", f"--words={words}"]
    command = [sys.executable, "-m", "benchmarks.text_memory", *options, "--one", name, mode]
    measured, estimate = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return measured, estimate


if __name__ == "__main__":
    main()
