"""What the guard for large scores costs where scores are ordinary: entropies with it and without, in turns.

Entropies lose digits beside scores such as ``finfo.min``, so one pass over the scores asks whether any is large, and
only then is the guard at work. *Without* it, no score is asked. Scores are standard normal, in float32, and of each
distribution a new object is built in every turn, as a training step does; *train* adds the backward pass.

    python -m benchmarks.large_scores [--words 20 60] [--batch 32] [--turns 301] [--threads 1]
"""

import argparse
import contextlib
import statistics
from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor

from benchmarks import markdown
from benchmarks.turns import medians, seconds
from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    StructuredDistribution,
)

FAMILIES: dict[str, tuple[Callable[[int], tuple[int, ...]], Callable[[Tensor], StructuredDistribution]]] = {
    "LinearChainCRF": (lambda words: (words, 10), lambda scores: LinearChainCRF(scores, torch.zeros(10, 10))),
    "DependencyCRF": (lambda words: (words, words + 1), DependencyCRF),
    "NonProjectiveDependencyCRF": (lambda words: (words, words + 1), NonProjectiveDependencyCRF),
    "ConstituencyCRF": (lambda words: (words + 1, words + 1), ConstituencyCRF),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--turns", type=int, default=301)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"batches of {options.batch}, {options.threads} threads\n")
    print(markdown.header(["distribution", "words", "mode", "without, ms", "with, ms", "more"]), flush=True)
    ratios: list[float] = []
    for name, (shape, build) in FAMILIES.items():
        for words in options.words:
            scores = torch.randn(options.batch, *shape(words), generator=torch.Generator().manual_seed(0))
            for mode in ("entropy", "train"):
                one = measure(build, scores.requires_grad_(mode == "train"), options.turns)
                ratios.append(one["with"] / one["without"])
                more = 100 * (ratios[-1] - 1)
                cells = [name, words, mode, *(f"{1000 * one[each]:.3f}" for each in ("without", "with"))]
                print(markdown.line([*cells, f"{more:+.1f} %"]), flush=True)
    mean = 100 * (statistics.median(ratios) - 1)
    print(markdown.line(["all, median", "", "", "", "", f"{mean:+.1f} %"]))


def assume_ordinary(*_: object) -> bool:
    """In place of the guard's question; a ``Mock`` would take longer than the guard."""
    return False


def measure(build: Callable[[Tensor], StructuredDistribution], scores: Tensor, turns: int) -> dict[str, float]:
    """Median seconds of an entropy with the guard and without."""

    def work() -> None:
        entropy = build(scores).entropy().sum()
        if scores.requires_grad:
            torch.autograd.grad(entropy, scores)

    count = max(1, round(0.002 / seconds(work, 3)))

    def once(form: str, _: int) -> float:
        absent = mock.patch("structattn.distributions.distribution.are_large", new=assume_ordinary)
        with absent if form == "without" else contextlib.nullcontext():
            return seconds(work, count)

    return medians(["without", "with"], once, turns=turns)


if __name__ == "__main__":
    main()
