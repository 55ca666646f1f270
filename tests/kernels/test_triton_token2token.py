"""Feature-wise attention in Triton, in its interpreter or on a GPU, against the plain-torch program."""

import pytest
import torch
from test_token2token import arguments
from torch import Tensor
from triton_races import watched

from structattn.functional import token2token
from structattn.kernels import plain_torch
from structattn.kernels.pair_tiles import LARGE_SCALE
from triton_launches import WAITING, Called, counted

pytest.importorskip("triton", reason="Triton is not installed: pip install 'structattn[gpu]'")
# NumPy, in which the interpreter computes, warns of exponentials that are infinite.
pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.usefixtures("small_tiles")]


def results(tensors: list[Tensor], allowed: Tensor, scale: float = 5.0, *, device: str = "cpu") -> list[Tensor]:
    """What is attended to, and the gradients."""
    own = [tensor.detach().to(device).requires_grad_() for tensor in tensors]
    output = token2token(*own, allowed.to(device), scale)
    incoming = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output).to(device)
    return [found.cpu() for found in (output.detach(), *torch.autograd.grad(output, own, incoming))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mask", ["forward", "everything", "nothing", "random"])
@pytest.mark.parametrize("scale", [0.5, 5.0, LARGE_SCALE])
def test_equals_the_plain_torch_program(mask: str, scale: float, dtype: torch.dtype, device: str) -> None:
    tensors, allowed = arguments(mask, lengths=(6, 4, 0, 1), dim=5, dtype=dtype)
    found = results(tensors, allowed, scale, device=device)
    with plain_torch():
        twin = results(tensors, allowed, scale)
    for got, wanted in zip(found, twin, strict=True):
        size = 1 + wanted.abs().max()
        torch.testing.assert_close(got, wanted, atol=4 * size * torch.finfo(dtype).eps, rtol=0)
    # A row without an allowed key is zero, and so is its gradient.
    nothing = ~allowed.any(-1)
    assert not found[0][nothing].any()
    assert not found[1][nothing].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_parts_cancel(dtype: torch.dtype, device: str) -> None:
    """Each part alone would leave the range of the type as an exponential."""
    queries = torch.tensor([[[200.0, 3e4], [-200.0, 1.0]]], dtype=dtype)
    tensors = [queries, torch.linspace(-2, 2, 4, dtype=dtype).view(1, 2, 2) - queries]
    tensors += [torch.zeros(2, dtype=dtype), torch.tensor([[[1.0, -1.0], [3.0, 2.0]]], dtype=dtype)]
    allowed = torch.ones(1, 2, 2, dtype=torch.bool)
    found = results(tensors, allowed, device=device)
    with plain_torch():
        twin = results(tensors, allowed)
    for got, wanted in zip(found, twin, strict=True):
        torch.testing.assert_close(got, wanted, atol=100 * torch.finfo(dtype).eps, rtol=0)


def test_larger_scales_stay_in_plain_torch(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the highest score of each query must be known first."""
    tensors, allowed = arguments("forward")
    launches = counted(monkeypatch)
    found = results(tensors, allowed, 1e4, device=device)
    assert not launches
    with plain_torch():
        twin = results(tensors, allowed, 1e4)
    for got, wanted in zip(found, twin, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-13, rtol=0)


@pytest.mark.parametrize("shape", [(0, 3, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 3, 0)])
def test_empty_axes(shape: tuple[int, int, int, int], device: str) -> None:
    batch, queries, keys, features = shape
    sizes = ((batch, queries, features), (batch, keys, features), (features,), (batch, keys, features))
    found = results(
        [torch.zeros(size) for size in sizes], torch.ones(1, queries, keys, dtype=torch.bool), device=device
    )
    assert found[0].shape == sizes[0]
    assert not any(each.any() for each in found)


def test_a_sentence_has_the_same_bits_in_every_batch_and_beside_any_padding(device: str) -> None:
    tensors, allowed = arguments("random", lengths=(6, 4), dim=5, dtype=torch.float32)
    values = tensors[3].detach().clone()
    values[1, 4:] = 1e30
    padded = results([*tensors[:3], values], allowed, device=device)
    together = results(tensors, allowed, device=device)
    for found, twin in zip(padded, together, strict=True):
        assert torch.equal(found, twin)
    # The bias has the sum of all sentences.
    tensors[2] = torch.zeros(5)
    output = token2token(*(tensor.detach().to(device) for tensor in tensors), allowed.to(device))
    for sentence in range(2):
        own = [tensor.detach()[sentence : sentence + 1] if tensor.dim() > 1 else tensor for tensor in tensors]
        alone = token2token(*(tensor.to(device) for tensor in own), allowed[sentence : sentence + 1].to(device))
        assert torch.equal(alone[0], output[sentence])


def test_all_results_are_written_and_memory_before_it_is_read(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    empty_like = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda tensor, **options: empty_like(tensor, **options).fill_(torch.nan))
    found = results(*arguments("forward", dim=5), device=device)
    assert all(tensor.isfinite().all() for tensor in found)


def test_one_mask_serves_all_sentences(device: str) -> None:
    tensors, _ = arguments("everything", lengths=(5, 5), dim=2)
    one = torch.ones(1, 5, 5, dtype=torch.bool).tril(-1)
    each = one.repeat(2, 1, 1)
    for found, twin in zip(results(tensors, one, device=device), results(tensors, each, device=device), strict=True):
        assert torch.equal(found, twin)


def test_nothing_needs_a_barrier(device: str) -> None:
    if device != "cpu":
        pytest.skip("accesses are watched in the interpreter")
    with watched() as races:
        results(*arguments("random"))
    assert races.found == 0


def test_three_launches_and_none_waits_for_the_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, allowed = arguments("random", lengths=(9, 4), dim=5)
    launches = counted(monkeypatch)
    with Called() as called:
        results(tensors, allowed, device=device)
    # Sentences, tiles of four words and tiles of four features.
    assert len(launches) == 3
    if device == "cpu":
        assert launches == [(2, 3, 2)] * 3
    assert not WAITING & set(called.names), called.names


def test_derivatives_and_mapped_axes(device: str) -> None:
    """Of the operators that autograd and graphs know, too."""
    tensors, allowed = arguments("forward", lengths=(3, 2), dim=2)
    own, pairs = [tensor.detach().to(device).requires_grad_() for tensor in tensors], allowed.to(device)
    assert torch.autograd.gradcheck(lambda *given: token2token(*given, pairs), own, fast_mode=True)
    queries, keys, _, values = own
    operator = torch.ops.structattn.token2token.default
    torch.library.opcheck(operator, (queries, keys, values, pairs, 5.0))
    stacked = [torch.stack([tensor.detach(), 2 * tensor.detach()]) for tensor in own]
    mapped = torch.vmap(lambda *given: token2token(*given, pairs))(*stacked)
    for index in range(2):
        assert torch.equal(mapped[index], token2token(*(tensor[index] for tensor in stacked), pairs))
