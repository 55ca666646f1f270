"""Additive scores of all pairs of words: the expression written out, against the library's two paths.

``s_ij = sum_d w_d tanh(a_id + b_jd)`` of Kim et al. (2017), section 4.1, forward and backward, float32. *Written out*
it holds a number for each pair and feature; *streamed* is the library in plain torch, *compiled* its compiled kernel;
they take turns in one process. Memory is what torch has allocated at most; the error is the largest of the scores and
gradients of words, against double precision.

    python -m benchmarks.additive_scores [--words 20 60 200] [--dim 100] [--repeats 5] [--threads 1]
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks import markdown
from benchmarks.hierarchical_accumulation import Memory
from benchmarks.turns import medians, seconds
from structattn.kernels import native, plain_torch
from structattn.kernels.additive_pair_scores import additive_scores, write_out

FORMS: dict[str, Callable[..., Tensor]] = {
    "written out": write_out,
    "streamed": additive_scores,
    "compiled": additive_scores,
}


def results(form: str, tensors: list[Tensor], sizes: Tensor, incoming: Tensor) -> list[Tensor]:
    with plain_torch() if form == "streamed" else torch.enable_grad():
        scores = FORMS[form](*tensors, sizes)
        return [scores, *torch.autograd.grad(scores, tensors, incoming)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 60, 200])
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"width {options.dim}, {options.threads} threads; kernels: {native.status().reason}\n")
    print(markdown.header(["words", "batch", "form", "ms", "to compiled", "MB", "error"]), flush=True)
    for words in options.words:
        batch = max(1, min(32, 2**17 // words**2))
        torch.manual_seed(0)
        shapes = ((batch, words, options.dim), (batch, words, options.dim), (options.dim,))
        tensors = [torch.randn(shape).requires_grad_() for shape in shapes]
        sizes, incoming = torch.full((batch, 2), words), torch.randn(batch, words, words)
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        expected = results("written out", exact, sizes, incoming.double())

        def once(form: str, _: int, inputs: tuple[list[Tensor], Tensor, Tensor] = (tensors, sizes, incoming)) -> float:
            return seconds(lambda: results(form, *inputs))

        times = medians(list(FORMS), once, turns=options.repeats)
        for form in FORMS:
            with Memory() as memory:
                computed = results(form, tensors, sizes, incoming)
            error = max(float((computed[at] - expected[at]).detach().abs().max()) for at in (0, 1, 2))
            cells = [words, batch, form, f"{1000 * times[form]:.1f}", f"{times[form] / times['compiled']:.1f}x"]
            print(markdown.line([*cells, f"{memory.peak / 2**20:.1f}", f"{error:.1e}"]), flush=True)


if __name__ == "__main__":
    main()
