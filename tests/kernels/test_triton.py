"""The Triton kernels, in Triton's interpreter or on a GPU, against the plain-torch programs.

``make test-triton`` runs them in the interpreter; on a machine with a GPU, ``pytest tests/kernels/test_triton.py
--device cuda`` runs the same laws there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from triton_races import watched

from structattn.kernels import cky, eisner, forward_backward, gpu, matrix_tree, plain_torch, semi_markov
from structattn.kernels.cky import real_spans
from structattn.kernels.eisner import real_arcs
from structattn.kernels.forward_backward import real_parts
from structattn.kernels.operators import Operators
from structattn.kernels.semi_markov import real_segments
from triton_launches import WAITING, Called, counted, poison

pytest.importorskip("triton", reason="Triton is not installed: pip install 'structattn[gpu]'")
# NumPy, in which the interpreter computes, warns of logarithms of zero.
pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.usefixtures("small_tiles")]


@dataclass(frozen=True)
class Kernel:
    """A family, its options, and the shapes of its arrays for n words."""

    name: str
    operators: Operators
    shapes: Callable[[int], list[tuple[int, ...]]]
    real: Callable[[Tensor, list[Tensor]], list[Tensor]]
    options: tuple[int, ...] = ()

    def random(self, n: int, batch: int, *, seed: int = 0, spread: float = 1.0, forbidden: float = 0.0) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        arrays = []
        for shape in self.shapes(n):
            array = spread * torch.randn(batch, *shape, generator=generator, dtype=torch.float64)
            array[torch.rand(array.shape, generator=generator) < forbidden] = -torch.inf
            arrays.append(array)
        return arrays

    def results(self, scores: list[Tensor], lengths: Tensor, vectors: list[Tensor]) -> dict[str, Tensor]:
        """Log-partition, marginals of each array, and the Hessian times the vectors."""
        family = self.operators.family
        log_partition, marginals = family.evaluate(scores, lengths, self.options)
        products = family.hvp(scores, lengths, vectors, self.options)
        assert log_partition is not None
        found = {"log-partition": log_partition}
        for index, (marginal, product) in enumerate(zip(marginals, products, strict=True)):
            assert marginal is not None
            assert product is not None
            found |= {f"marginals {index}": marginal, f"product {index}": product}
        return found


def arcs(lengths: Tensor, scores: list[Tensor]) -> list[Tensor]:
    return [real_arcs(lengths, scores[0].shape[1])]


def spans(lengths: Tensor, scores: list[Tensor]) -> list[Tensor]:
    return [real_spans(lengths, scores[0].shape[1] - 1)]


def states(*, shared: bool) -> Callable[[Tensor, list[Tensor]], list[Tensor]]:
    def real(lengths: Tensor, scores: list[Tensor]) -> list[Tensor]:
        n, c = scores[0].shape[1:]
        found = real_parts(lengths, num_words=n, num_states=c, is_shared=shared)
        pieces = found.split([n * c, found.shape[1] - n * c], 1)
        return [piece.view(array.shape) for piece, array in zip(pieces, scores, strict=True)]

    return real


def labelled(lengths: Tensor, scores: list[Tensor]) -> list[Tensor]:
    return [real_segments(lengths, scores[0].shape[1:4])]


KERNELS = [
    Kernel("dependency", eisner.OPERATORS, lambda n: [(n, n + 1)], arcs, (0,)),
    Kernel("dependency, single root", eisner.OPERATORS, lambda n: [(n, n + 1)], arcs, (1,)),
    Kernel("spanning tree", matrix_tree.OPERATORS, lambda n: [(n, n + 1)], arcs, (0,)),
    Kernel("spanning tree, single root", matrix_tree.OPERATORS, lambda n: [(n, n + 1)], arcs, (1,)),
    Kernel("constituency", cky.OPERATORS, lambda n: [(n + 1, n + 1)], spans),
    Kernel("chain", forward_backward.OPERATORS, lambda n: [(n, 5), (max(n - 1, 0), 5, 5)], states(shared=False)),
    Kernel("chain, one matrix a sentence", forward_backward.OPERATORS, lambda n: [(n, 3), (3, 3)], states(shared=True)),
    Kernel("segments", semi_markov.OPERATORS, lambda n: [(n, 3, 3, 3)], labelled),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def lengths_of(batch: int, n: int) -> Tensor:
    """All lengths from n down to 0."""
    return n - torch.arange(batch) % (n + 1)


def compare(
    kernel: Kernel,
    scores: list[Tensor],
    lengths: Tensor,
    vectors: list[Tensor],
    *,
    device: str,
    tolerance: float,
) -> dict[str, Tensor]:
    """Results of the Triton kernels, after they were found to be those of plain torch."""
    with plain_torch():
        twin = kernel.results(scores, lengths, vectors)
    # What is no part of a structure is not read, not even to be multiplied by zero.
    real = kernel.real(lengths, scores)
    clean = [
        [array.masked_fill(~mask, torch.nan) for array, mask in zip(group, real, strict=True)]
        for group in (scores, vectors)
    ]
    own = [[array.to(device) for array in group] for group in clean]
    found = {name: value.cpu() for name, value in kernel.results(own[0], lengths.to(device), own[1]).items()}
    for name, value in found.items():
        scale = 1 + twin[name].double().nan_to_num(neginf=0).abs().max().item() if value.numel() else 1
        torch.testing.assert_close(
            value, twin[name], atol=tolerance * scale, rtol=0, msg=lambda text, name=name: name + text
        )
    return found


@every_kernel
@pytest.mark.parametrize("forbidden", [pytest.param(0.0, marks=pytest.mark.slow), 0.4])
def test_every_length_with_forbidden_parts_and_padding_that_is_no_number(
    kernel: Kernel, forbidden: float, device: str
) -> None:
    n = 6
    scores, vectors = kernel.random(n, n + 1, forbidden=forbidden, seed=1), kernel.random(n, n + 1, seed=2)
    lengths = lengths_of(n + 1, n)
    found = compare(kernel, scores, lengths, vectors, device=device, tolerance=1e-14)
    impossible = found["log-partition"] == -torch.inf
    # So many segments lead to a word that some of them are left.
    assert impossible.any() == (forbidden > 0 and kernel.name != "segments")
    for index, array in enumerate(scores):
        assert (found[f"marginals {index}"][impossible] == 0).all()
        assert (found[f"marginals {index}"][array == -torch.inf] == 0).all()
        assert (found[f"product {index}"][array == -torch.inf] == 0).all()


@every_kernel
@pytest.mark.parametrize("spread", [30.0, *(pytest.param(one, marks=pytest.mark.slow) for one in (3000.0, 1e9)), 1e300])
def test_any_spread(kernel: Kernel, spread: float, device: str) -> None:
    """Doubles are proved to be enough for some of these sentences only; the others get exponents of their own."""
    scores, vectors = kernel.random(5, 3, spread=spread, seed=3), kernel.random(5, 3, seed=4)
    # Ties, where log space keeps them, too; elimination divides, which there rounds them away.
    if spread <= 30 or kernel.operators is not matrix_tree.OPERATORS:
        scores[0][2] = scores[0][2].sign() * spread
    compare(kernel, scores, torch.tensor([5, 4, 5]), vectors, device=device, tolerance=1e-14)


@pytest.mark.parametrize("single_root", [0, 1])
def test_elimination_keeps_ties_where_log_space_does_not(single_root: int, device: str) -> None:
    """Between equally good trees the spread decides nothing, as long as a double holds the exponents exactly."""
    family, lengths = matrix_tree.OPERATORS.family, torch.tensor([6, 5, 4], device=device)
    signs = torch.randn(3, 6, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64).sign().to(device)
    (near,) = family.evaluate([40 * signs], lengths, [single_root])[1]
    (far,) = family.evaluate([1e12 * signs], lengths, [single_root])[1]
    torch.testing.assert_close(far, near, atol=1e-15, rtol=0)
    assert ((near > 0.01) & (near < 0.99)).any()


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scores_of_every_type(kernel: Kernel, dtype: torch.dtype, device: str) -> None:
    scores, vectors = kernel.random(3, 2, seed=5), kernel.random(3, 2, seed=6)
    own = [[array.to(dtype) for array in group] for group in (scores, vectors)]
    # One rounding to the type of the scores; the interpreter rounds bfloat16 towards zero.
    compare(kernel, own[0], torch.tensor([3, 2]), own[1], device=device, tolerance=torch.finfo(dtype).eps)


@every_kernel
def test_a_sentence_has_the_same_bits_in_every_batch(kernel: Kernel, device: str) -> None:
    n = 6
    scores, vectors = kernel.random(n, 3, seed=7, spread=40.0), kernel.random(n, 3, seed=8)
    lengths = torch.tensor([6, 4, 2], device=device)
    scores, vectors = [[array.to(device) for array in group] for group in (scores, vectors)]
    together = kernel.results(scores, lengths, vectors)
    order = torch.tensor([1, 0], device=device)
    again = kernel.results([a[order] for a in scores], lengths[order], [a[order] for a in vectors])
    for name, value in again.items():
        assert torch.equal(value, together[name][order]), name


@every_kernel
def test_memory_is_written_before_it_is_read(kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is full of what is no number when a kernel gets it, and results are whole all the same."""
    scores, vectors = kernel.random(4, 3, seed=9, forbidden=0.2), kernel.random(4, 3, seed=10)
    poison(monkeypatch)
    found = compare(kernel, scores, torch.tensor([4, 2, 0]), vectors, device=device, tolerance=1e-14)
    assert all(not value.isnan().any() for value in found.values())


def test_a_matrix_that_all_sentences_share_is_read_by_each(device: str) -> None:
    shared = next(kernel for kernel in KERNELS if kernel.name == "chain, one matrix a sentence")
    (unary, matrices), vectors = shared.random(4, 2, seed=11), shared.random(4, 2, seed=12)
    lengths = torch.tensor([4, 3], device=device)
    unary, matrix, *vectors = (array.to(device) for array in (unary, matrices[0], *vectors))
    found = shared.results([unary, matrix], lengths, vectors)
    twin = shared.results([unary, matrix.expand(2, 3, 3)], lengths, vectors)
    for name, value in found.items():
        assert torch.equal(value, twin[name]), name


@every_kernel
def test_barriers_stand_where_they_are_needed(kernel: Kernel, device: str) -> None:
    if device != "cpu":
        pytest.skip("accesses are watched in the interpreter")
    scores, vectors = kernel.random(5, 1, seed=13, spread=400.0), kernel.random(5, 1, seed=14)
    with watched() as races:
        kernel.results(scores, torch.tensor([5]), vectors)
    assert races.found == 0
    with watched(barriers=False) as races:
        kernel.results(scores, torch.tensor([5]), vectors)
    assert races.found > 0


@every_kernel
def test_derivatives_are_those_of_small_differences(kernel: Kernel, device: str) -> None:
    """Of the operators that autograd and graphs know, too."""
    scores = [array.to(device).requires_grad_() for array in kernel.random(2, 2, seed=15)]
    lengths = torch.tensor([2, 1], device=device)

    def found(*arrays: Tensor) -> tuple[Tensor, ...]:
        value, parts = kernel.operators.evaluate(arrays, lengths, kernel.options)
        return value, *parts

    assert torch.autograd.gradcheck(found, scores, fast_mode=True)
    evaluate = getattr(torch.ops.structattn, f"{kernel.operators.family.name}_evaluate").default
    torch.library.opcheck(evaluate, (*scores, lengths, list(kernel.options)))


@every_kernel
def test_a_mapped_axis_is_a_batch_axis(kernel: Kernel, device: str) -> None:
    """A map over calls, and over their gradients, has the bits of one call after the other."""
    scores = [array.to(device) for array in kernel.random(3, 4, seed=18)]
    lengths = torch.tensor([3, 2], device=device)

    def squares(*arrays: Tensor) -> Tensor:
        value, parts = kernel.operators.evaluate(arrays, lengths, kernel.options)
        return value.sum() + sum(own.square().sum() for own in parts)

    both = torch.func.grad_and_value(squares, argnums=tuple(range(len(scores))))
    mapped, values = torch.vmap(both)(*(array.unflatten(0, (2, 2)) for array in scores))
    for index in range(2):
        gradients, value = both(*(array.unflatten(0, (2, 2))[index] for array in scores))
        assert torch.equal(values[index], value)
        for own, gradient in zip(mapped, gradients, strict=True):
            assert torch.equal(own[index], gradient)


@every_kernel
def test_few_launches_a_call_and_none_waits_for_the_device(
    kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = counted(monkeypatch)
    scores = [array.to(device).requires_grad_() for array in kernel.random(9, 2, seed=16)]
    lengths = torch.tensor([9, 4], device=device)
    with Called() as called:
        kernel.operators.marginals(scores, lengths, kernel.options).sum().backward()
    assert len(launches) <= 4
    assert len(called.names) < 40
    assert not WAITING & set(called.names), called.names
    with plain_torch(), Called() as plain:
        kernel.operators.marginals(scores, lengths, kernel.options).sum().backward()
    assert len(plain.names) > 5 * len(called.names)


def test_doctor_tries_every_kernel(call: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = call("doctor")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("gpu kernels")]
    assert "Triton" in line
    assert line.split(": ")[1].split(", ") == [
        f"{family}_{what}" for family, functions in gpu.KERNELS.items() for what in functions
    ]
