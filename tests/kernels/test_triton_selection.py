"""Best and random structures from the Triton kernels, in Triton's interpreter or on a GPU: those of the CPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from test_triton import KERNELS, Kernel, every_kernel, lengths_of
from torch import Tensor
from triton_races import watched

from structattn.kernels import matrix_tree, plain_torch, programs
from structattn.kernels.random import make_streams
from triton_launches import WAITING, Called, counted, poison

pytest.importorskip("triton", reason="Triton is not installed: pip install 'structattn[gpu]'")
# NumPy, in which the interpreter computes, warns of what leaves the range of a type.
pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.usefixtures("small_tiles")]

COUNT = 3


@contextmanager
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The compiled kernels of the CPU, or plain torch where there are none."""
    with monkeypatch.context() as patch:
        patch.setattr(programs, "find_on_device", lambda name, first: None)
        yield


def chosen(kernel: Kernel, scores: list[Tensor], lengths: Tensor, *, device: str = "cpu") -> list[Tensor]:
    """The best structure of each sentence, and random ones."""
    family, own = kernel.operators.family, [array.to(device) for array in scores]
    streams = make_streams(len(lengths), generator=torch.Generator().manual_seed(1), device=torch.device("cpu"))
    best = family.argmax(own, lengths.to(device), kernel.options)
    samples = family.sample(own, lengths.to(device), streams.to(device), kernel.options, COUNT)
    return [best.cpu(), samples.cpu()]


def padded(kernel: Kernel, scores: list[Tensor], lengths: Tensor) -> list[Tensor]:
    """What is no part of a structure is no number."""
    real = kernel.real(lengths, scores)
    return [array.masked_fill(~mask, torch.nan) for array, mask in zip(scores, real, strict=True)]


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, device: str) -> Callable[..., list[Tensor]]:
    def found(kernel: Kernel, scores: list[Tensor], lengths: Tensor) -> list[Tensor]:
        own = chosen(kernel, padded(kernel, scores, lengths), lengths, device=device)
        with on_the_cpu(monkeypatch):
            twins = chosen(kernel, scores, lengths)
        for value, twin in zip(own, twins, strict=True):
            assert torch.equal(value, twin)
        return own

    return found


@every_kernel
@pytest.mark.parametrize("forbidden", [pytest.param(0.0, marks=pytest.mark.slow), 0.4])
def test_the_structures_of_the_cpu_for_every_length(
    kernel: Kernel, forbidden: float, compare: Callable[..., list[Tensor]]
) -> None:
    """The same random numbers choose the same parts."""
    n = 6
    scores, lengths = kernel.random(n, n + 1, forbidden=forbidden, seed=1), lengths_of(n + 1, n)
    best, samples = compare(kernel, scores, lengths)
    with plain_torch():
        log_partition, _ = kernel.operators.family.evaluate(scores, lengths, kernel.options)
    assert log_partition is not None
    impossible = log_partition == -torch.inf
    assert not best[impossible].any()
    assert not samples[:, impossible].any()
    possible = ~impossible & (lengths > 0)
    assert best[possible].flatten(1).any(1).all()
    assert not best[(scores[0] == -torch.inf)].any()


@every_kernel
def test_equally_good_structures_are_chosen_as_on_the_cpu(kernel: Kernel, compare: Callable[..., list[Tensor]]) -> None:
    """Of whole scores many sums are the same, and none is rounded."""
    scores = [array.round() for array in kernel.random(6, 4, seed=2)]
    compare(kernel, [array.where(array > -2, -torch.inf) for array in scores], torch.tensor([6, 6, 5, 4]))
    compare(kernel, [torch.zeros_like(array) for array in scores], torch.tensor([6, 3, 2, 1]))


@pytest.mark.parametrize(
    "kernel", [own for own in KERNELS if own.operators is matrix_tree.OPERATORS], ids=lambda own: own.name
)
def test_cycles_within_cycles_are_contracted(kernel: Kernel, compare: Callable[..., list[Tensor]]) -> None:
    """Words are drawn to the other one of their pair, pairs to the other pair of their four, and so on."""
    n = 8
    (scores,) = kernel.random(n, 1, seed=19)
    word = torch.arange(n)
    for size in (8, 4, 2):
        scores[:, :, 1:] += torch.where(word[:, None] // size == word // size, 20.0, 0.0)
    (best, _) = compare(kernel, [scores], torch.tensor([n]))
    # The root, being far from all, has one word.
    assert best[..., 0].sum() == 1


@every_kernel
@pytest.mark.parametrize("spread", [*(pytest.param(one, marks=pytest.mark.slow) for one in (3000.0, 1e9)), 1e300])
def test_any_spread(kernel: Kernel, spread: float, compare: Callable[..., list[Tensor]]) -> None:
    """Doubles are proved to be enough for some of these sentences only."""
    scores = kernel.random(5, 2, spread=spread, seed=3)
    for array in scores:
        array[1] /= spread
    compare(kernel, scores, torch.tensor([5, 5]))


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scores_of_every_type(kernel: Kernel, dtype: torch.dtype, device: str) -> None:
    scores, lengths = [array.to(dtype) for array in kernel.random(4, 2, seed=5)], torch.tensor([4, 3])
    found = chosen(kernel, scores, lengths, device=device)
    exact = chosen(kernel, [array.double() for array in scores], lengths, device=device)
    for own, twin in zip(found, exact, strict=True):
        assert own.dtype == dtype
        assert torch.equal(own.double(), twin)


@every_kernel
def test_a_sentence_has_the_same_structures_in_every_batch(kernel: Kernel, device: str) -> None:
    scores = [array.to(device) for array in kernel.random(5, 3, seed=7, spread=40.0)]
    lengths, random = torch.tensor([5, 4, 2], device=device), torch.tensor([11, 12, 13], device=device)
    order, family = torch.tensor([2, 0], device=device), kernel.operators.family
    together = family.sample(scores, lengths, random, kernel.options, COUNT)
    again = family.sample([a[order] for a in scores], lengths[order], random[order], kernel.options, COUNT)
    assert torch.equal(again, together[:, order])
    best = family.argmax(scores, lengths, kernel.options)
    assert torch.equal(family.argmax([a[order] for a in scores], lengths[order], kernel.options), best[order])


@every_kernel
def test_memory_is_written_before_it_is_read(
    kernel: Kernel, compare: Callable[..., list[Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch)
    compare(kernel, kernel.random(4, 3, seed=9, forbidden=0.2), torch.tensor([4, 2, 0]))


@every_kernel
def test_barriers_stand_where_they_are_needed(kernel: Kernel, device: str) -> None:
    if device != "cpu":
        pytest.skip("accesses are watched in the interpreter")
    scores = kernel.random(5, 1, seed=13, spread=400.0)
    with watched() as races:
        chosen(kernel, scores, torch.tensor([5]))
    assert races.found == 0
    with watched(barriers=False) as races:
        chosen(kernel, scores, torch.tensor([5]))
    assert races.found > 0


@every_kernel
def test_few_launches_a_call_and_none_waits_for_the_device(
    kernel: Kernel, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = counted(monkeypatch)
    scores = [array.to(device) for array in kernel.random(5, 2, seed=16)]
    lengths, family = torch.tensor([5, 4], device=device), kernel.operators.family
    random = torch.tensor([1, 2], device=device)
    with Called() as called:
        family.argmax(scores, lengths, kernel.options)
    # The best non-projective tree needs no chart to be chosen from.
    assert launches == [(2,)] * (1 if family.name == "spanning_tree" else 2)
    launches.clear()
    with Called() as further:
        family.sample(scores, lengths, random, kernel.options, COUNT)
    # Charts, and choices from them; without exponents and with them, where these are not always needed.
    assert launches in ([(2,), (2 * COUNT,)], 2 * [(2,), (2 * COUNT,)])
    assert not WAITING & {*called.names, *further.names}


def test_zero_samples(device: str) -> None:
    for kernel in KERNELS:
        scores = [array.to(device) for array in kernel.random(2, 1, seed=17)]
        one = torch.tensor([2], device=device)
        assert kernel.operators.family.sample(scores, one, one, kernel.options, 0).shape == (0, *scores[0].shape)
