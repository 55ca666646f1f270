"""DiSAN's token2token attention: streamed (the library's) against the literal form under autograd.

Forward and backward under the forward mask, float32. Times are medians of runs that take turns in one process, so that
a busy machine slows both alike; added memory is the growth of the peak resident size of a process of its own.

    python benchmarks/token2token.py [--words 10 20 50 64 256 1024] [--dim 300] [--repeats 5] [--threads 2]
"""

import argparse
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from structattn.functional import token2token


def literal(a: Tensor, b_keys: Tensor, bias: Tensor, values: Tensor, allowed: Tensor, scale: float = 5.0) -> Tensor:
    """The equations as they stand: several tensors of ``batch * words * words * features`` numbers."""
    scores = scale * torch.tanh((a[:, :, None] + b_keys[:, None] + bias) / scale)
    weights = scores.masked_fill(~allowed.unsqueeze(-1), -1e30).softmax(2) * allowed.unsqueeze(-1)
    return (weights * values[:, None]).sum(2)


FORMS: dict[str, Callable[..., Tensor]] = {"literal": literal, "streamed": token2token}


def batch_size(words: int) -> int:
    """As many sentences as keep the literal form below some 8 GB."""
    return max(1, min(32, 1024 * 1024 // words**2))


class Work:
    def __init__(self, words: int, dim: int) -> None:
        torch.manual_seed(0)
        shape = (batch_size(words), words, dim)
        self.tensors = [torch.randn(size, requires_grad=True) for size in (shape, shape, (dim,), shape)]
        self.allowed = torch.ones(1, words, words, dtype=torch.bool).tril(-1)
        self.incoming = torch.randn(shape)

    def run(self, form: str) -> float:
        start = time.perf_counter()
        output = FORMS[form](*self.tensors, self.allowed)
        torch.autograd.grad(output, self.tensors, self.incoming)
        return time.perf_counter() - start


def peak() -> float:
    """The largest resident size of this process so far, in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux; there ru_maxrss starts from the parent's size.
        return int(re.findall(r"VmHWM:\s*(\d+)", status.read_text())[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def added_peak(form: str, words: int, dim: int) -> float:
    """Megabytes, measured in this process: call it in a fresh one."""
    work = Work(words, dim)
    Work(2, 2).run(form)  # whatever is loaded at first use
    before = peak()
    work.run(form)
    return peak() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[10, 20, 50, 64, 256, 1024])
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--memory-of", choices=list(FORMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of:
        print(added_peak(options.memory_of, options.words[0], options.dim))
        return

    print(f"width {options.dim}, forward mask, {options.threads} threads, forward + backward, ", end="")
    print(f"median of {options.repeats}")
    print(
        f"{'words':>6}{'batch':>7}{'literal, ms':>13}{'streamed, ms':>14}{'':>8}{'literal, MB':>13}{'streamed, MB':>14}"
    )
    for words in options.words:
        work = Work(words, options.dim)
        times: dict[str, list[float]] = {form: [] for form in FORMS}
        for repeat in range(-1, options.repeats):
            for form in FORMS:
                taken = work.run(form)
                if repeat >= 0:
                    times[form].append(1000 * taken)
        medians = {form: statistics.median(values) for form, values in times.items()}
        memory = {}
        for form in FORMS:
            command = [sys.executable, __file__, "--words", str(words), "--dim", str(options.dim), "--memory-of", form]
            command += ["--threads", str(options.threads)]
            memory[form] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(
            f"{words:>6}{batch_size(words):>7}{medians['literal']:>13.1f}{medians['streamed']:>14.1f}"
            f"{medians['literal'] / medians['streamed']:>7.1f}x{memory['literal']:>13.0f}{memory['streamed']:>14.0f}"
            f"{memory['literal'] / max(memory['streamed'], 0.1):>7.0f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()
