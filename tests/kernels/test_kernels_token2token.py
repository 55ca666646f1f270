"""The compiled token2token kernel against the plain-torch program, which `test_token2token` holds to the equations."""

import itertools

import pytest
import torch
from test_token2token import arguments, literal
from torch import Tensor

from structattn.functional import token2token
from structattn.kernels import native, plain_torch

pytestmark = pytest.mark.skipif(not native.status().active, reason=native.status().reason)

MASKS = ("forward", "backward", "diagonal", "everything", "nothing", "random")
BOTH_TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def results(tensors: list[Tensor], allowed: Tensor, scale: float = 5.0) -> list[Tensor]:
    """Output and gradients."""
    output = token2token(*tensors, allowed, scale)
    incoming = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return [output.detach(), *torch.autograd.grad(output, tensors, incoming)]


def plain_results(tensors: list[Tensor], allowed: Tensor, scale: float = 5.0) -> list[Tensor]:
    with plain_torch():
        return results(tensors, allowed, scale)


@BOTH_TYPES
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dim", [1, 3, 8, 37])
def test_equals_the_plain_torch_program(mask: str, dim: int, dtype: torch.dtype) -> None:
    tensors, allowed = arguments(mask, lengths=(9, 4, 0, 1), dim=dim, dtype=dtype)
    for scale in (0.5, 5.0, 10.0):
        for got, wanted in zip(results(tensors, allowed, scale), plain_results(tensors, allowed, scale), strict=True):
            torch.testing.assert_close(got, wanted, atol=1e-5 if dtype == torch.float32 else 1e-13, rtol=1e-5)


@pytest.mark.parametrize("spread", [0.1, 1.0, 2.0, 5.0, 30.0])
def test_the_error_is_that_of_rounding(spread: float) -> None:
    """Small parts are added as tangents, larger ones multiplied as exponentials, the largest added first."""
    tensors, allowed = arguments("forward", lengths=(40, 33), dim=20, dtype=torch.float32)
    with torch.no_grad():
        for tensor in tensors[:2]:
            tensor *= spread
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    expected = literal(*exact, allowed)
    incoming = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).view_as(expected)
    wanted = [expected, *torch.autograd.grad(expected, exact, incoming)]
    for index, (got, want) in enumerate(zip(results(tensors, allowed), wanted, strict=True)):
        # The third is a sum over all words.
        torch.testing.assert_close(got.double(), want, atol=2e-5 if index == 3 else 2e-6, rtol=1e-6)


@BOTH_TYPES
def test_huge_parts_cancel(dtype: torch.dtype) -> None:
    """Each part alone would leave the range of the type as an exponential; other features must not notice."""
    size = torch.tensor([200.0, -200.0, 3e4, 1.0], dtype=dtype)
    a = torch.stack([size, size.flip(0) / 1e3], 1).unsqueeze(0).requires_grad_()
    b_keys = (-a.detach() + torch.linspace(-2, 2, 8, dtype=dtype).view(1, 4, 2)).requires_grad_()
    values = torch.randn(1, 4, 2, generator=torch.Generator().manual_seed(0), dtype=dtype).requires_grad_()
    tensors = [a, b_keys, torch.zeros(2, dtype=dtype, requires_grad=True), values]
    allowed = torch.ones(1, 4, 4, dtype=torch.bool)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    found = results(tensors, allowed)
    for got, wanted in zip(found, plain_results(tensors, allowed), strict=True):
        torch.testing.assert_close(got, wanted, atol=tolerance, rtol=tolerance)
    assert all(torch.isfinite(tensor).all() for tensor in found)


def test_mask_rows_of_every_pattern() -> None:
    """Ranges begin and end at every place, in rows that are longer than the eight bytes that are read together."""
    keys, generator = 21, torch.Generator().manual_seed(0)
    rows = [torch.zeros(keys, dtype=torch.bool), torch.ones(keys, dtype=torch.bool)]
    for first, last in itertools.combinations(range(keys + 1), 2):
        rows.append((torch.arange(keys) >= first) & (torch.arange(keys) < last))
    rows += list(torch.rand(200, keys, generator=generator) < 0.5)
    allowed = torch.stack(rows).unsqueeze(0)
    a = torch.zeros(1, len(rows), 1, dtype=torch.float64)
    nothing = torch.zeros(1, keys, 1, dtype=torch.float64)
    values = torch.rand(1, keys, 1, generator=generator, dtype=torch.float64)
    output = token2token(a, nothing, torch.zeros(1, dtype=torch.float64), values, allowed)
    weights = allowed.double() / allowed.sum(-1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(output, weights @ values, atol=1e-13, rtol=0)


def test_empty_rows_are_zero_with_zero_gradient() -> None:
    tensors, allowed = arguments("forward", dtype=torch.float32)
    output, of_a, *_ = results(tensors, allowed)
    for tensor in (output, of_a):
        assert not tensor[:, 0].any()
        assert not tensor[1, 4:].any()
        assert not tensor[2].any()


@pytest.mark.parametrize("shape", [(0, 3, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 3, 0)])
def test_empty_axes(shape: tuple[int, int, int, int]) -> None:
    batch, queries, keys, features = shape
    sizes = ((batch, queries, features), (batch, keys, features), (features,), (batch, keys, features))
    tensors = [torch.zeros(size, requires_grad=True) for size in sizes]
    for got, tensor in zip(results(tensors, torch.ones(1, queries, keys, dtype=torch.bool))[1:], tensors, strict=True):
        assert got.shape == tensor.shape
        assert not got.any()


def test_any_layout_of_the_memory_gives_the_same() -> None:
    tensors, allowed = arguments("random", dtype=torch.float32)
    turned = [
        tensor.detach().mT.contiguous().mT.requires_grad_() if tensor.dim() == 3 else tensor for tensor in tensors
    ]
    turned_mask = allowed.mT.contiguous().mT
    for got, wanted in zip(results(turned, turned_mask), results(tensors, allowed), strict=True):
        torch.testing.assert_close(got, wanted, atol=0, rtol=0)


@BOTH_TYPES
def test_the_number_of_threads_changes_nothing(dtype: torch.dtype) -> None:
    tensors, allowed = arguments("diagonal", lengths=(60, 31, 44), dim=50, dtype=dtype)
    threads = torch.get_num_threads()
    try:
        found = []
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(results(tensors, allowed))
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=0)


def test_long_sentences_are_computed_in_several_parts() -> None:
    """More keys than let all features fit into a task, and more queries than are processed together."""
    tensors, allowed = arguments("forward", lengths=(300,), dim=50, dtype=torch.float64)
    for got, wanted in zip(results(tensors, allowed), plain_results(tensors, allowed), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-12, rtol=1e-12)


def test_a_mapped_axis_is_a_batch_axis() -> None:
    tensors, allowed = arguments("random", lengths=(6, 4), dtype=torch.float64)
    stacked = [torch.stack([tensor.detach(), 2 * tensor.detach()]) for tensor in tensors]

    def loss(a: Tensor, b_keys: Tensor, bias: Tensor, values: Tensor) -> Tensor:
        return token2token(a, b_keys, bias, values, allowed).square().sum()

    gradients = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2, 3)))(*stacked)
    for index in range(2):
        alone = torch.func.grad(loss, argnums=(0, 1, 2, 3))(*(tensor[index] for tensor in stacked))
        for got, wanted in zip(gradients, alone, strict=True):
            torch.testing.assert_close(got[index], wanted)


def test_a_mask_shared_by_the_batch_can_be_mapped() -> None:
    tensors, _ = arguments("random", lengths=(6, 6), dtype=torch.float64)
    a, b_keys, bias, values = (tensor.detach() for tensor in tensors)
    masks = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    mapped = torch.vmap(lambda mask: token2token(a, b_keys, bias, values, mask))(masks)
    for got, mask in zip(mapped, masks, strict=True):
        torch.testing.assert_close(got, token2token(a, b_keys, bias, values, mask))


# torch's own forward mode still scripts a few decompositions when it is first used.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_forward_mode_is_refused() -> None:
    (a, b_keys, bias, values), allowed = arguments("forward")
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(lambda x: token2token(x, b_keys, bias, values, allowed), (a,), (a,))


def test_export_keeps_one_node() -> None:
    tensors, allowed = arguments("forward", dtype=torch.float32)

    class Attention(torch.nn.Module):
        def forward(self, a: Tensor, b_keys: Tensor, bias: Tensor, values: Tensor) -> Tensor:
            return token2token(a, b_keys, bias, values, allowed)

    inputs = tuple(tensor.detach() for tensor in tensors)
    program = torch.export.export(Attention(), inputs)
    nodes = [str(node.target) for node in program.graph.nodes if "structattn" in str(node.target)]
    assert nodes == ["structattn.token2token.default"]
    torch.testing.assert_close(program.module()(*inputs), token2token(*inputs, allowed))


def test_torch_finds_the_operators_sound() -> None:
    (a, b_keys, _, values), allowed = arguments("forward", dtype=torch.float32)
    torch.library.opcheck(torch.ops.structattn.token2token.default, (a, b_keys, values, allowed, 5.0))
