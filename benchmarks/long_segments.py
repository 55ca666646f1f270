"""Long segmentations: scores as sums, scores of segments, scores of pairs of labels, and flash-semicrf where installed.

All are given the same scores of words, widths and transitions, from which each builds what it reads; a training step is
the log-partition and its gradient, float32. Times are medians of runs that take turns in one process; added memory is
the growth of the peak resident size of a process of its own; the error is that of the log-partition, against sums in
float64. Forms that would take minutes or gigabytes are left out.

    OMP_WAIT_POLICY=passive python -m benchmarks.long_segments [--sizes 1000,32,24,1 2000,16,4,4] [--repeats 3]
        [--threads 1] [--no-memory]
"""

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks import markdown
from benchmarks.memory import peak
from benchmarks.turns import medians, seconds
from structattn.distributions import SemiMarkovCRF
from structattn.kernels import native

# Words, widest segment, labels, sentences.
SIZES = ("200,8,4,8", "1000,32,8,1", "1000,32,24,1", "2000,16,4,4", "2000,16,24,4", "20000,64,24,1")


def sums(words: Tensor, transition: Tensor, duration: Tensor) -> Tensor:
    scores = words.unsqueeze(-2).expand(-1, -1, 2, -1)
    return SemiMarkovCRF(scores, transition=transition, duration=duration).log_partition()


def segments(words: Tensor, transition: Tensor, duration: Tensor) -> Tensor:
    return SemiMarkovCRF(_segments(words, duration), transition=transition).log_partition()


def edges(words: Tensor, transition: Tensor, duration: Tensor) -> Tensor:
    scores = _segments(words, duration).unsqueeze(-2)
    is_first = (torch.arange(words.shape[1]) == 0).view(-1, 1, 1, 1)
    return SemiMarkovCRF(scores + torch.where(is_first, 0.0, transition)).log_partition()


def flash(words: Tensor, transition: Tensor, duration: Tensor) -> Tensor:
    from flash_semicrf.streaming import semi_crf_streaming_forward

    # A label before the first word is summed out there.
    first = torch.cat([words[:, :1] - transition.logsumexp(0), words[:, 1:]], 1)
    totals = torch.nn.functional.pad(first.double().cumsum(1), (0, 0, 1, 0))
    lengths = torch.full((len(words),), words.shape[1])
    return semi_crf_streaming_forward(totals, transition, duration, lengths, len(duration))


FORMS: dict[str, Callable[..., Tensor]] = {"sums": sums, "segments": segments, "edges": edges, "flash-semicrf": flash}
# Numbers that a form holds or goes through at most.
MOST = {"sums": 2**40, "segments": 2**25, "edges": 2**25, "flash-semicrf": 2**27}


def _segments(words: Tensor, duration: Tensor) -> Tensor:
    """The score of each segment, ``(batch, n, width, label)``; those beyond the end are not read."""
    width = len(duration)
    padded = torch.nn.functional.pad(words, (0, 0, 0, width - 1))
    return padded.unfold(1, width, 1).cumsum(-1).mT + duration


class Work:
    def __init__(self, size: str) -> None:
        words, width, labels, batch = map(int, size.split(","))
        generator = torch.Generator().manual_seed(words + width)
        shapes = ((batch, words, labels), (labels, labels), (width, labels))
        self.tensors = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
        square = {"sums": labels, "segments": labels, "edges": labels**2, "flash-semicrf": labels**2}
        self.cost = {form: batch * words * width * square[form] for form in FORMS}

    def run(self, form: str) -> float:
        return seconds(lambda: torch.autograd.grad(FORMS[form](*self.tensors).sum(), self.tensors))

    def error(self, form: str) -> float:
        with torch.no_grad():
            exact = sums(*(tensor.double() for tensor in self.tensors))
            return float((FORMS[form](*self.tensors).double() - exact).abs().max() / exact.abs().max())


def added_peak(form: str, size: str) -> float:
    """Megabytes, measured in this process: call it in a fresh one."""
    work = Work(size)
    Work("3,2,2,1").run(form)  # whatever is loaded at first use
    start = peak(reset=True)
    work.run(form)
    return peak() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="words, width, labels, sentences")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True, help="measure it too")
    parser.add_argument("--memory-of", choices=list(FORMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of:
        print(added_peak(options.memory_of, options.sizes[0]))
        return
    has_peer = importlib.util.find_spec("flash_semicrf") is not None
    print(
        f"a training step, float32, {options.threads} threads, median of {options.repeats}; kernels: "
        f"{native.status().reason}{'' if has_peer else '; flash-semicrf is not installed'}\n"
    )
    print(markdown.header(["words", "width", "labels", "batch", "form", "ms", "to sums", "added MB", "error"]))
    for size in options.sizes:
        work = Work(size)
        forms = [form for form in FORMS if work.cost[form] <= MOST[form] and (has_peer or form != "flash-semicrf")]
        times = medians(forms, lambda form, _, work=work: work.run(form), turns=options.repeats, warm=1)
        for form in forms:
            megabytes = f"{_measure_memory(form, size, options):.0f}" if options.memory else ""
            cells = [form, f"{1000 * times[form]:.1f}", f"{times[form] / times['sums']:.1f}x", megabytes]
            print(markdown.line([*size.split(","), *cells, f"{work.error(form):.1e}"]), flush=True)


def _measure_memory(form: str, size: str, options: argparse.Namespace) -> float:
    command = [sys.executable, "-m", "benchmarks.long_segments", "--sizes", size, "--memory-of", form]
    command += ["--threads", str(options.threads)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
