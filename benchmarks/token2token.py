"""DiSAN's token2token attention: the literal form, alone and under ``torch.compile``, against the library's two paths.

*Streamed* is the library in plain torch, *compiled* its compiled kernel. Forward and backward under the forward mask,
float32. Times are medians of runs that take turns in one process, so that a busy machine slows all alike; added memory
is the growth of the peak resident size of a process of its own; the error is the largest of the output and of the
gradients of queries, keys and values, against the literal form in float64.

    OMP_WAIT_POLICY=passive python benchmarks/token2token.py [--words 10 20 50 100 256 1024 2048] [--dim 300]
        [--repeats 5] [--threads 2] [--forms literal torch.compile streamed compiled]
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
from structattn.kernels import native


def literal(a: Tensor, b_keys: Tensor, bias: Tensor, values: Tensor, allowed: Tensor, scale: float = 5.0) -> Tensor:
    """The equations as they stand: several tensors of ``batch * words * words * features`` numbers."""
    scores = scale * torch.tanh((a[:, :, None] + b_keys[:, None] + bias) / scale)
    weights = scores.masked_fill(~allowed.unsqueeze(-1), -1e30).softmax(2) * allowed.unsqueeze(-1)
    return (weights * values[:, None]).sum(2)


def streamed(*arguments: Tensor) -> Tensor:
    with native.plain_torch():
        return token2token(*arguments)


FORMS: dict[str, Callable[..., Tensor]] = {
    "literal": literal,
    "torch.compile": torch.compile(literal, dynamic=False),
    "streamed": streamed,
    "compiled": token2token,
}
# The literal form beyond this needs more gigabytes than a small machine has.
MOST_PAIRS = 8 * 2**30 // (4 * 5)


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
        self.results(form)
        return time.perf_counter() - start

    def results(self, form: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        tensors = self.tensors
        if dtype != torch.float32:
            tensors = [tensor.detach().to(dtype).requires_grad_() for tensor in tensors]
        output = FORMS[form](*tensors, self.allowed)
        # The streamed form chooses its path again on the way back.
        if form == "streamed":
            with native.plain_torch():
                return [output, *torch.autograd.grad(output, tensors, self.incoming.to(dtype))]
        return [output, *torch.autograd.grad(output, tensors, self.incoming.to(dtype))]

    def error(self, form: str, exact: list[Tensor]) -> float:
        found = self.results(form)
        return max(float((found[index] - exact[index]).detach().abs().max()) for index in (0, 1, 2, 4))


def peak() -> float:
    """The largest resident size of this process so far, in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux; there ru_maxrss starts from the parent's size.
        return int(re.findall(r"VmHWM:\s*(\d+)", status.read_text())[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def added_peak(form: str, words: int, dim: int) -> float:
    """Megabytes, measured in this process: call it in a fresh one."""
    work = Work(words, dim)
    # Whatever is loaded at first use; torch.compile makes one kernel for each shape.
    (work if form == "torch.compile" else Work(2, 2)).run(form)
    if form == "torch.compile":
        return peak_of_second_run(work, form)
    before = peak()
    work.run(form)
    return peak() - before


def peak_of_second_run(work: Work, form: str) -> float:
    """After compiling, whose own memory must not count: Linux resets the peak on request."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return float("nan")
    reset.write_text("5")
    before = peak()
    work.run(form)
    return peak() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[10, 20, 50, 100, 256, 1024, 2048])
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=list(FORMS))
    parser.add_argument("--memory-of", choices=list(FORMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of:
        print(added_peak(options.memory_of, options.words[0], options.dim))
        return

    print(f"width {options.dim}, forward mask, {options.threads} threads, forward + backward, ", end="")
    print(f"median of {options.repeats}; kernels: {native.status().reason}")
    print(
        f"{'words':>6}{'batch':>7}  {'form':<14}{'ms':>9}{'to compiled':>13}{'MB':>8}{'to compiled':>13}{'error':>10}"
    )
    for words in options.words:
        work, pairs = Work(words, options.dim), batch_size(words) * words**2 * options.dim
        forms = [form for form in options.forms if pairs <= MOST_PAIRS or form in ("streamed", "compiled")]
        times: dict[str, list[float]] = {form: [] for form in forms}
        for repeat in range(-1, options.repeats):
            for form in forms:
                taken = work.run(form)
                if repeat >= 0:
                    times[form].append(1000 * taken)
        memory = {form: memory_of(form, words, options) for form in forms}
        exact = work.results("streamed", torch.float64)
        if pairs <= 2**25:
            exact = work.results("literal", torch.float64)
        for form in forms:
            median = statistics.median(times[form])
            ratio = median / statistics.median(times["compiled"]) if "compiled" in times else float("nan")
            memory_ratio = memory[form] / max(memory.get("compiled", float("nan")), 0.1)
            print(
                f"{words:>6}{batch_size(words):>7}  {form:<14}{median:>9.1f}{ratio:>12.1f}x{memory[form]:>8.0f}"
                f"{memory_ratio:>12.1f}x{work.error(form, exact):>10.1e}",
                flush=True,
            )


def memory_of(form: str, words: int, options: argparse.Namespace) -> float:
    command = [sys.executable, __file__, "--words", str(words), "--dim", str(options.dim), "--memory-of", form]
    command += ["--threads", str(options.threads)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
