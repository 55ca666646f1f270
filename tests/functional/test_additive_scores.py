"""Additive scores of pairs against the expression that holds every pair and feature; Kim et al. (2017), section 4.1."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from structattn.kernels import additive_pair_scores, plain_torch
from structattn.kernels.additive_pair_scores import additive_scores, write_out
from structattn.layers.additive_scores import AdditiveScores

SIZES = ((5, 4), (3, 2), (0, 0), (1, 4), (5, 0))
# Parts whose tangents are added, whose exponentials are multiplied, and whose sum is taken first.
SCALES = (0.3, 5.0, 100.0)


def arguments(scale: float, dtype: torch.dtype = torch.float64, dim: int = 19) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((len(SIZES), 5, dim), (len(SIZES), 4, dim), (dim,))
    first, second, weight = (torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes)
    parts = [first * scale / 4, second * scale / 4, weight]
    return [part.requires_grad_() for part in parts], torch.tensor(SIZES)


def literal(first: Tensor, second: Tensor, weight: Tensor, sizes: Tensor) -> Tensor:
    """Pair by pair."""
    scores = torch.zeros(len(first), first.shape[1], second.shape[1], dtype=first.dtype)
    for sentence, (rows, columns) in enumerate(sizes.tolist()):
        for row in range(rows):
            for column in range(columns):
                scores[sentence, row, column] = weight @ torch.tanh(first[sentence, row] + second[sentence, column])
    return scores


@pytest.fixture(params=[1, 2**22, None], ids=["rows", "whole", "compiled"])
def _held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In plain torch a row at a time, and all at once; and the compiled kernel."""
    if request.param is None:
        yield
        return
    monkeypatch.setattr(additive_pair_scores, "_AT_ONCE", request.param)
    with plain_torch():
        yield


@pytest.mark.usefixtures("_held")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("function", [additive_scores, write_out])
def test_equal_the_sum_pair_by_pair_with_its_gradients(function: object, scale: float) -> None:
    assert callable(function)
    parts, sizes = arguments(scale)
    found, expected = function(*parts, sizes), literal(*parts, sizes)
    torch.testing.assert_close(found, expected)
    incoming = torch.randn_like(expected)
    for own, other in zip(
        torch.autograd.grad(found, parts, incoming), torch.autograd.grad(expected, parts, incoming), strict=True
    ):
        torch.testing.assert_close(own, other)


@pytest.mark.usefixtures("_held")
def test_gradients_of_gradients_agree_with_finite_differences() -> None:
    parts, sizes = arguments(1.0, dim=2)
    parts = [parts[0][:2].detach().requires_grad_(), parts[1][:2].detach().requires_grad_(), parts[2]]
    assert torch.autograd.gradgradcheck(lambda *given: additive_scores(*given, sizes[:2]), parts)


@pytest.mark.parametrize("scale", SCALES)
def test_single_precision_is_as_exact_as_its_sum(scale: float) -> None:
    parts, sizes = arguments(scale, torch.float32)
    exact = [part.detach().double().requires_grad_() for part in parts]
    found, expected = additive_scores(*parts, sizes), write_out(*exact, sizes)
    torch.testing.assert_close(found.double(), expected, atol=5e-6, rtol=0)
    incoming = torch.randn_like(found)
    got = torch.autograd.grad(found, parts, incoming)
    wanted = torch.autograd.grad(expected, exact, incoming.double())
    for own, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(own.double(), other, atol=1e-5, rtol=1e-5)


def test_small_parts_keep_their_digits() -> None:
    first, second = torch.tensor([[[1e-6]]]), torch.tensor([[[2e-6]]])
    score = additive_scores(first, second, torch.ones(1), torch.ones(1, 2, dtype=torch.long))
    torch.testing.assert_close(score, torch.tensor([[[3e-6]]]), atol=0, rtol=1e-5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_parts_without_bound(sign: float) -> None:
    first = torch.tensor([[[sign * torch.inf], [300.0], [sign * 1e30]]])
    second = torch.tensor([[[0.0], [-299.0]]])
    scores = additive_scores(first, second, torch.ones(1), torch.tensor([[3, 2]]))
    one = torch.tanh(torch.tensor(1.0)).item()
    torch.testing.assert_close(scores, torch.tensor([[[sign, sign], [1.0, one], [sign, sign]]]))


@pytest.mark.usefixtures("_held")
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("function", [additive_scores, write_out])
def test_values_beyond_the_sizes_have_no_influence_on_scores_or_gradients(function: object, twice: bool) -> None:
    assert callable(function)
    parts, sizes = arguments(1.0)
    filled = [part.detach().clone() for part in parts]
    for sentence, (rows, columns) in enumerate(SIZES):
        filled[0][sentence, rows:], filled[1][sentence, columns:] = 1e9, torch.nan
    found = []
    for given in (parts, [part.requires_grad_() for part in filled]):
        scores = function(*given, sizes)
        gradients = torch.autograd.grad(scores.square().sum(), given, create_graph=twice)
        if twice:
            gradients = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), given)
        found.append([scores, *gradients])
    for own, other in zip(*found, strict=True):
        torch.testing.assert_close(own, other, atol=0, rtol=0)
    of_first, of_second = found[1][1:3]
    assert not of_first[2].any()
    assert not of_second[1, 2:].any()


def test_threads_change_no_bit() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(3, 70, 40, generator=generator).requires_grad_() for _ in "ab")
    weight, sizes = torch.randn(40, generator=generator), torch.tensor([[70, 70], [41, 33], [1, 70]])
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            scores = additive_scores(first, second, weight, sizes)
            found.append([scores, *torch.autograd.grad(scores.square().sum(), [first, second])])
    finally:
        torch.set_num_threads(before)
    for own, other in zip(*found, strict=True):
        assert torch.equal(own, other)


def test_transforms_see_one_expression() -> None:
    (first, second, weight), sizes = arguments(1.0)
    expected = additive_scores(first, second, weight, sizes)
    mapped = torch.func.vmap(lambda row, column, size: additive_scores(row[None], column[None], weight, size[None])[0])
    torch.testing.assert_close(mapped(first, second, sizes), expected)
    tangents = torch.func.jvp(lambda one: additive_scores(one, second, weight, sizes), (first,), (first,))[1]
    wanted = torch.autograd.functional.jvp(lambda one: literal(one, second, weight, sizes), first, first)[1]
    torch.testing.assert_close(tangents, wanted)


@pytest.mark.usefixtures("_held")
def test_a_layer_sums_in_single_precision_under_autocast() -> None:
    torch.manual_seed(0)
    layer, states = AdditiveScores(4, 200, bound=torch.nn.Identity()), torch.randn(1, 9, 4)
    with torch.autocast("cpu", torch.bfloat16):
        found, one, other = layer(states, states), layer.first(states), layer.second(states)
    expected = additive_scores(one.float(), other.float(), layer.score.weight[0], torch.tensor([[9, 9]]))
    assert torch.equal(found, expected.bfloat16())


def test_a_layer_scores_the_words_that_count_behind_those_in_front() -> None:
    torch.manual_seed(0)
    layer, states = AdditiveScores(3, 5), torch.randn(2, 5, 3)
    found = layer(states, states[:, 1:], torch.tensor([4, 2]))
    torch.testing.assert_close(found[1, :3, :2], layer(states[1:, :3], states[1:, 1:3])[0])
    assert not found[1, 3:].any()
    assert not found[1, :, 2:].any()
    assert layer.bfloat16()(states.bfloat16(), states[:, 1:].bfloat16()).dtype == torch.bfloat16
