"""DiSAN's token2token attention: the literal form, alone and under ``torch.compile``, against the library's two paths.

*Streamed* is the library in plain torch, *compiled* its compiled kernel. Forward and backward under the forward mask,
float32. Times are medians of runs that take turns in one process, so that a busy machine slows all alike; added memory
is the growth of the peak resident size of a process of its own; the error is the largest of the output and of the
gradients of queries, keys and values, against the literal form in float64.

    OMP_WAIT_POLICY=passive python -m benchmarks.token2token [--words 20 100 2048] [--dim 300]
        [--repeats 3] [--threads 2] [--forms literal torch.compile streamed compiled] [--no-memory]
"""

import argparse
import subprocess
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks import markdown
from benchmarks.memory import peak
from benchmarks.turns import medians, seconds
from structattn.functional import token2token
from structattn.kernels import native, plain_torch


def literal(a: Tensor, b_keys: Tensor, bias: Tensor, values: Tensor, allowed: Tensor, scale: float = 5.0) -> Tensor:
    """The equations as they stand: several tensors of ``batch * words * words * features`` numbers."""
    scores = scale * torch.tanh((a[:, :, None] + b_keys[:, None] + bias) / scale)
    weights = scores.masked_fill(~allowed.unsqueeze(-1), -1e30).softmax(2) * allowed.unsqueeze(-1)
    return (weights * values[:, None]).sum(2)


def streamed(*arguments: Tensor) -> Tensor:
    with plain_torch():
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
        return seconds(lambda: self.results(form))

    def results(self, form: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        tensors = self.tensors
        if dtype != torch.float32:
            tensors = [tensor.detach().to(dtype).requires_grad_() for tensor in tensors]
        output = FORMS[form](*tensors, self.allowed)
        # The streamed form chooses its path again on the way back.
        if form == "streamed":
            with plain_torch():
                return [output, *torch.autograd.grad(output, tensors, self.incoming.to(dtype))]
        return [output, *torch.autograd.grad(output, tensors, self.incoming.to(dtype))]

    def error(self, form: str, exact: list[Tensor]) -> float:
        computed = self.results(form)
        return max(float((computed[index] - exact[index]).detach().abs().max()) for index in (0, 1, 2, 4))


def added_peak(form: str, words: int, dim: int) -> float:
    """Megabytes, measured in this process: call it in a fresh one."""
    work = Work(words, dim)
    # Whatever is loaded at first use; torch.compile makes one kernel for each shape.
    (work if form == "torch.compile" else Work(2, 2)).run(form)
    start = peak(reset=True)  # compiling has a memory of its own
    work.run(form)
    return peak() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 100, 2048])
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=list(FORMS))
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True, help="measure it too")
    parser.add_argument("--memory-of", choices=list(FORMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of:
        print(added_peak(options.memory_of, options.words[0], options.dim))
        return

    print(
        f"width {options.dim}, forward mask, forward and backward, {options.threads} threads, "
        f"median of {options.repeats}; kernels: {native.status().reason}\n"
    )
    columns = ["words", "batch", "form", "ms", "to compiled", "added MB", "to compiled", "error"]
    print(markdown.header(columns), flush=True)
    for words in options.words:
        work, pairs = Work(words, options.dim), batch_size(words) * words**2 * options.dim
        forms = [form for form in options.forms if pairs <= MOST_PAIRS or form in ("streamed", "compiled")]
        times = medians(forms, lambda form, _, work=work: work.run(form), turns=options.repeats, warm=1)
        memory = {form: _measure_memory(form, words, options) for form in forms if options.memory}
        exact = work.results("literal" if pairs <= 2**25 else "streamed", torch.float64)
        for form in forms:
            ratio = f"{times[form] / times['compiled']:.1f}x" if "compiled" in times else ""
            megabytes, share = ("", "")
            if memory:
                megabytes = f"{memory[form]:.0f}"
                share = f"{memory[form] / max(memory['compiled'], 0.1):.1f}x" if "compiled" in memory else ""
            cells = [words, batch_size(words), form, f"{1000 * times[form]:.1f}", ratio, megabytes, share]
            print(markdown.line([*cells, f"{work.error(form, exact):.1e}"]), flush=True)


def _measure_memory(form: str, words: int, options: argparse.Namespace) -> float:
    command = [sys.executable, "-m", "benchmarks.token2token", "--words", str(words), "--dim", str(options.dim)]
    command += ["--memory-of", form, "--threads", str(options.threads)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
