"""Long sentences in tiles of their charts, in Triton's interpreter or on a GPU: the bits of one tile."""

import pytest
import torch
from test_triton import KERNELS, Kernel
from test_triton_selection import chosen
from torch import Tensor
from triton_races import watched

from structattn.kernels import cky, eisner
from triton_launches import counted, poison

pytest.importorskip("triton", reason="Triton is not installed: pip install 'structattn[gpu]'")
pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.usefixtures("small_tiles")]
CHARTS = [kernel for kernel in KERNELS if kernel.operators in (eisner.OPERATORS, cky.OPERATORS)]
every_chart = pytest.mark.parametrize("kernel", CHARTS, ids=lambda kernel: kernel.name)


def cut(patch: pytest.MonkeyPatch, extent: int) -> None:
    """All sentences are in tiles from now on."""
    from structattn.kernels.gpu import launch

    patch.setattr(launch, "LONGEST_ALONE", -1)
    patch.setattr(launch, "EXTENT", extent)


def results(kernel: Kernel, scores: list[Tensor], vectors: list[Tensor], lengths: Tensor) -> dict[str, Tensor]:
    best, samples = chosen(kernel, scores, lengths, device=str(lengths.device))
    return kernel.results(scores, lengths, vectors) | {"best": best, "samples": samples}


@every_chart
@pytest.mark.parametrize(("n", "extent"), [(3, 1), (5, 2), (5, 4)])
def test_tiles_change_no_bit(kernel: Kernel, n: int, extent: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sentences of several lengths, with forbidden parts, some of which need exponents."""
    scores, vectors = kernel.random(n, 4, forbidden=0.2, seed=1), kernel.random(n, 4, seed=2)
    scores[0][1::2] *= 400
    scores, vectors = [[array.to(device) for array in group] for group in (scores, vectors)]
    lengths = torch.tensor([n, n, 2, 0], device=device)
    whole = results(kernel, scores, vectors, lengths)
    cut(monkeypatch, extent)
    for name, value in results(kernel, scores, vectors, lengths).items():
        assert torch.equal(value, whole[name]), name


@every_chart
def test_memory_is_written_before_it_is_read(kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, vectors = kernel.random(5, 3, seed=9), kernel.random(5, 3, seed=10)
    scores, vectors = [[array.to(device) for array in group] for group in (scores, vectors)]
    lengths = torch.tensor([5, 2, 0], device=device)
    whole = results(kernel, scores, vectors, lengths)
    cut(monkeypatch, 2)
    poison(monkeypatch)
    for name, value in results(kernel, scores, vectors, lengths).items():
        assert torch.equal(value, whole[name]), name


@every_chart
def test_barriers_stand_where_they_are_needed(kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device != "cpu":
        pytest.skip("accesses are watched in the interpreter")
    cut(monkeypatch, 3)
    scores, vectors, lengths = kernel.random(5, 1, seed=13), kernel.random(5, 1, seed=14), torch.tensor([5])
    with watched() as races:
        results(kernel, scores, vectors, lengths)
    assert races.found == 0
    for missing in ("barriers", "launches"):
        with watched(**{missing: False}) as races:
            results(kernel, scores, vectors, lengths)
        assert races.found > 0


@every_chart
@pytest.mark.parametrize(("n", "diagonals"), [(128, 0), (129, 5), (400, 13)])
def test_a_launch_for_each_diagonal_of_tiles(
    kernel: Kernel, n: int, diagonals: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: without exponents, and with them where they are needed."""
    launches = counted(monkeypatch)
    scores = [array.to(device) for array in kernel.random(n, 2)]
    kernel.operators.family.evaluate(scores, torch.tensor([n, 4], device=device), kernel.options)
    up = [(2, diagonals - diagonal) for diagonal in range(diagonals)]
    assert launches == 2 * ([(2,), *up, (2,), *reversed(up)] if diagonals else [(2,)])
