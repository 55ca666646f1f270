"""Feature-wise attention against the form that holds every pair, and against closed forms; spec of DiSAN, section 7."""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from forking import run_forked
from structattn.functional import token2token, token2token_weights
from structattn.functional.token2token import write_out
from structattn.kernels import pair_tiles, plain_torch

MASKS = ("forward", "backward", "diagonal", "everything", "nothing", "random")
SCALES = (0.5, 5.0, 10.5, 1e4)


def literal(a: Tensor, b_keys: Tensor, bias: Tensor, values: Tensor, allowed: Tensor, scale: float = 5.0) -> Tensor:
    """The equations as they stand, with a number for every pair of words and feature."""
    return (literal_weights(a, b_keys, bias, allowed, scale) * values[:, None]).sum(2)


def literal_weights(a: Tensor, b_keys: Tensor, bias: Tensor, allowed: Tensor, scale: float = 5.0) -> Tensor:
    scores = scale * torch.tanh((a[:, :, None] + b_keys[:, None] + bias) / scale)
    weights = scores.masked_fill(~allowed.unsqueeze(-1), -1e30).softmax(2)
    return weights * allowed.unsqueeze(-1)


def allowed_pairs(name: str, lengths: tuple[int, ...], num_words: int) -> Tensor:
    """A mask by name for padded sentences."""
    position = torch.arange(num_words)
    query, key = position[:, None], position
    pairs = {
        "forward": key < query,
        "backward": key > query,
        "diagonal": key != query,
        "everything": key == key,
        "nothing": key < 0,
        "random": torch.rand(num_words, num_words, generator=torch.Generator().manual_seed(1)) < 0.3,
    }[name].expand(num_words, num_words)
    real = position < torch.tensor(lengths)[:, None]
    return pairs & real[:, None, :] & real[:, :, None]


def arguments(
    name: str, *, lengths: tuple[int, ...] = (6, 4, 0), dim: int = 3, dtype: torch.dtype = torch.float64
) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(0)
    shapes = [(len(lengths), max(lengths), dim)] * 2 + [(dim,), (len(lengths), max(lengths), dim)]
    tensors = [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]
    return tensors, allowed_pairs(name, lengths, max(lengths))


@pytest.fixture(params=[1, 20, 2**20, None], ids=lambda size: f"tile{size}" if size else "compiled")
def _tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In plain torch, tiles of one key, of a few, and one for everything; and the compiled kernel, which has none."""
    if request.param is None:
        yield
        return
    monkeypatch.setattr(pair_tiles, "_TILE", request.param)
    with plain_torch():
        yield


@pytest.mark.usefixtures("_tile")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mask", MASKS)
def test_equals_the_literal_form_with_its_gradients(mask: str, scale: float) -> None:
    tensors, allowed = arguments(mask)
    streamed, expected = token2token(*tensors, allowed, scale), literal(*tensors, allowed, scale)
    torch.testing.assert_close(streamed, expected)
    incoming = torch.randn_like(expected)
    for got, wanted in zip(
        torch.autograd.grad(streamed, tensors, incoming), torch.autograd.grad(expected, tensors, incoming), strict=True
    ):
        torch.testing.assert_close(got, wanted)


@pytest.mark.usefixtures("_tile")
@pytest.mark.parametrize("scale", [5.0, 50.0])
def test_gradients_agree_with_finite_differences(scale: float) -> None:
    tensors, allowed = arguments("forward", lengths=(4, 3), dim=2)
    assert torch.autograd.gradcheck(lambda *inputs: token2token(*inputs, allowed, scale), tensors)


def test_gradients_of_gradients_are_refused() -> None:
    tensors, allowed = arguments("forward")
    for power in (1, 2):
        output = token2token(*tensors, allowed)
        gradients = torch.autograd.grad((output**power).sum(), tensors, create_graph=True)
        for gradient in gradients:
            with pytest.raises(RuntimeError, match="token2token can be differentiated once"):
                gradient.sum().backward()


@pytest.mark.parametrize("scale", [5.0, 10.0, 1000.0])
@pytest.mark.parametrize("mask", ["forward", "diagonal"])
def test_single_precision_is_as_exact_as_the_literal_form(mask: str, scale: float) -> None:
    tensors, allowed = arguments(mask, lengths=(60, 41), dim=16, dtype=torch.float32)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    streamed, expected = token2token(*tensors, allowed, scale), literal(*exact, allowed, scale)
    torch.testing.assert_close(streamed.double(), expected, atol=2e-6, rtol=0)
    incoming = torch.randn_like(streamed)
    got = torch.autograd.grad(streamed, tensors, incoming)
    wanted = torch.autograd.grad(expected, exact, incoming.double())
    for index in (0, 1, 3):
        torch.testing.assert_close(got[index].double(), wanted[index], atol=2e-6, rtol=1e-6)
    torch.testing.assert_close(got[2].double(), wanted[2], atol=2e-5, rtol=1e-5)  # a sum over all pairs


@pytest.mark.parametrize("scale", [5.0, 50.0])
def test_huge_opposite_scores(scale: float) -> None:
    a = torch.tensor([300.0, -300.0, 1e6, 0.0]).view(1, 4, 1)
    b_keys = torch.tensor([-300.0, 300.0, -1e6, 2.0]).view(1, 4, 1)
    values = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 4, 1).requires_grad_()
    allowed = torch.ones(1, 4, 4, dtype=torch.bool)
    bias = torch.zeros(1)
    streamed = token2token(a.requires_grad_(), b_keys.requires_grad_(), bias, values, allowed, scale)
    exact = [tensor.detach().double().requires_grad_() for tensor in (a, b_keys, values)]
    expected = literal(exact[0], exact[1], bias.double(), exact[2], allowed, scale)
    torch.testing.assert_close(streamed.double(), expected, atol=2e-6, rtol=1e-6)
    got = torch.autograd.grad(streamed.sum(), [a, b_keys, values])
    wanted = torch.autograd.grad(expected.sum(), exact)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, atol=2e-6, rtol=1e-6)


def test_rows_with_nothing_allowed_are_zero_and_pass_no_gradient() -> None:
    tensors, allowed = arguments("forward")
    output = token2token(*tensors, allowed)
    assert not output[:, 0].any(), "the first word has no word before it"
    assert not output[1, 4:].any(), "padding"
    assert not output[2].any(), "a sentence without words"
    gradients = torch.autograd.grad(output[:, 0].sum(), tensors)
    assert all(not gradient.any() for gradient in gradients)


def test_values_at_padding_have_no_influence() -> None:
    tensors, allowed = arguments("diagonal")
    expected = token2token(*tensors, allowed)
    garbage = [tensor.detach().clone() for tensor in tensors]
    for index in (0, 1, 3):
        garbage[index][1, 4:] = 1e9
    torch.testing.assert_close(token2token(*garbage, allowed), expected, atol=0, rtol=0)


def test_a_mask_may_be_shared_by_the_batch() -> None:
    tensors, _ = arguments("forward", lengths=(5, 5))
    shared = allowed_pairs("forward", (5,), 5)
    expected = token2token(*tensors, shared.expand(2, 5, 5))
    torch.testing.assert_close(token2token(*tensors, shared), expected, atol=0, rtol=0)


def test_write_out_equals_the_operator() -> None:
    (a, b_keys, bias, values), allowed = arguments("forward")
    expected = token2token(a, b_keys, bias, values, allowed, 2.0)
    torch.testing.assert_close(write_out(a + bias, b_keys, values, allowed, 2.0), expected)


def test_weights_on_meta_have_a_shape() -> None:
    a, b_keys, bias = (torch.empty(size, device="meta") for size in ((2, 3, 5), (2, 4, 5), (5,)))
    assert token2token_weights(a, b_keys, bias, torch.ones(2, 3, 4, device="meta").bool()).shape == (2, 3, 4)


def test_queries_and_keys_may_differ_in_number() -> None:
    torch.manual_seed(0)
    a, b_keys, values, bias = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 4), torch.randn(4)
    allowed = torch.rand(2, 3, 5) < 0.5
    torch.testing.assert_close(
        token2token(a, b_keys, bias, values, allowed), literal(a, b_keys, bias, values, allowed), atol=1e-6, rtol=1e-5
    )


def test_a_large_scale_gives_exclusive_prefix_averages() -> None:
    (a, b_keys, bias, values), allowed = arguments("forward", lengths=(7, 7))
    preference = (b_keys + bias).exp()
    sums = torch.stack([(preference * values).cumsum(1), preference.cumsum(1)])[:, :, :-1]
    streamed = token2token(a, b_keys, bias, values, allowed, 1e8)
    torch.testing.assert_close(streamed[:, 1:], sums[0] / sums[1], atol=1e-6, rtol=1e-6)


@pytest.mark.usefixtures("_tile")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mask", MASKS)
def test_weights_are_the_literal_ones_averaged_over_features(mask: str, scale: float) -> None:
    (a, b_keys, bias, _), allowed = arguments(mask)
    weights = token2token_weights(a, b_keys, bias, allowed, scale)
    torch.testing.assert_close(weights, literal_weights(a, b_keys, bias, allowed, scale).mean(-1).detach())
    row_sums = weights.sum(-1)
    torch.testing.assert_close(row_sums, allowed.any(-1).double(), atol=1e-12, rtol=0)
    assert not weights.requires_grad


def test_no_weight_is_more_than_e_to_twice_the_scale_above_another() -> None:
    (a, b_keys, bias, _), allowed = arguments("everything", lengths=(9,), dim=1)
    weights = token2token_weights(100 * a, 100 * b_keys, bias, allowed)
    ratio = (weights.amax(-1) / weights.amin(-1)).max()
    assert 20_000 < ratio <= math.exp(10) * (1 + 1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_single_precision(dtype: torch.dtype) -> None:
    tensors, allowed = arguments("everything", lengths=(300,), dim=2, dtype=dtype)
    output = token2token(*tensors, allowed)
    assert output.dtype == dtype
    expected = token2token(*(tensor.detach().float() for tensor in tensors), allowed).to(dtype)
    torch.testing.assert_close(output, expected, atol=0, rtol=0)
    output.sum().backward()
    assert all(tensor.grad is not None and tensor.grad.dtype == dtype for tensor in tensors)
    assert token2token_weights(*tensors[:3], allowed).dtype == dtype


def test_the_arguments_are_not_changed() -> None:
    tensors, allowed = arguments("forward")
    before = [tensor.detach().clone() for tensor in (*tensors, allowed)]
    token2token(*tensors, allowed).sum().backward()
    token2token_weights(*tensors[:3], allowed)
    for tensor, copy in zip((*tensors, allowed), before, strict=True):
        assert torch.equal(tensor, copy)


def test_a_direction_leaves_out_what_it_forbids() -> None:
    states = torch.zeros(1, 8, 2**17)
    tiles = pair_tiles.iterate_tiles(states, states, allowed_pairs("forward", (8,), 8))
    covered = sum(math.prod(tile.shape) for tile in tiles)
    assert covered == 28 * 2**17


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.parametrize(("form", "low", "high"), [("streamed", 0, 32), ("literal", 400, 4000)])
def test_memory_is_linear_in_the_number_of_words(form: str, low: int, high: int) -> None:
    """1,024 words of 48 features: the literal form holds 200 megabytes per tensor."""
    ended = run_forked(print_memory, token2token if form == "streamed" else literal)
    assert ended.code == 0, ended.err
    assert low <= float(ended.out) < high


def print_memory(form: Callable[..., Tensor]) -> None:
    """The megabytes that forward and backward take beyond what the process had."""
    torch.set_num_threads(1)
    tensors = [torch.randn(1, 1024, 48, requires_grad=True) for _ in range(3)]
    bias = torch.zeros(48, requires_grad=True)
    allowed = torch.ones(1, 1024, 1024, dtype=torch.bool).tril(-1)
    warm = [tensor[:, :8] for tensor in tensors]
    form(*warm[:2], bias, warm[2], allowed[:, :8, :8]).sum().backward()
    before = peak()
    form(*tensors[:2], bias, tensors[2], allowed).sum().backward()
    print(peak() - before)


def peak() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) / 1024


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_no_bound_is_refused(scale: float) -> None:
    tensors, allowed = arguments("forward")
    with pytest.raises(ValueError, match=f"positive, finite scale, got {scale}"):
        token2token(*tensors, allowed, scale)


def test_shapes_that_disagree_are_refused_by_number() -> None:
    """Called below the shape checks of the tests, as a user calls it."""
    ended = run_forked(print_refusals)
    assert ended.code == 0, ended.err
    first, second, third, *others = ended.out.splitlines()
    assert "got (2, 3, 4), (2, 3, 4), (8,)" in third
    assert "keys and values of shape (2, 2, 4)" in first
    assert "got (2, 2, 4), (2, 3, 4), (4,)" in first
    assert "got (2, 3, 4), (2, 3, 4), (1,)" in second
    beginning = "token2token expects allowed of shape (1 or 2, 3, 3), got"
    assert others == [f"{beginning} {shape}" for shape in ("(2, 2, 3)", "(2, 3, 2)", "(3, 3, 3)", "(3, 3)")]


def print_refusals() -> None:
    x, bias, allowed = torch.zeros(2, 3, 4), torch.zeros(4), torch.ones(2, 3, 3, dtype=torch.bool)
    masks = (allowed[:, :2], allowed[:, :, :2], allowed[[0, 1, 0]], allowed[0])
    shapes = ((x, x[:, :2], bias, x, allowed), (x, x, bias[:1], x, allowed), (x, x, bias.repeat(2), x, allowed))
    for arguments in (*shapes, *((x, x, bias, x, mask) for mask in masks)):
        with pytest.raises(ValueError) as caught:
            token2token(*arguments)
        print(caught.value)
