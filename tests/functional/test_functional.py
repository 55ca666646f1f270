"""Laws of the masked functions: against plain loops, and where nothing is allowed."""

import contextlib
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from structattn.functional import linear, masked_softmax
from structattn.functional.masked_attention import additive_mask, masked_max, masked_mean, very_negative
from structattn.functional.products import round_down, round_up, take_rows
from structattn.functional.torch_state import one_thread

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
GENERATOR = torch.Generator().manual_seed(0)
SCORES = 5 * torch.randn(3, 4, 5, generator=GENERATOR)
ALLOWED = torch.rand(3, 4, 5, generator=GENERATOR) < 0.6
ALLOWED[1, 2] = False


def softmax_by_hand(scores: list[float], allowed: list[bool]) -> list[float]:
    powers = [math.exp(score) if real else 0.0 for score, real in zip(scores, allowed, strict=True)]
    total = sum(powers)
    return [power / total if total else 0.0 for power in powers]


def test_masked_softmax_agrees_with_a_loop() -> None:
    weights = masked_softmax(SCORES, ALLOWED)
    for index in range(3):
        for row in range(4):
            expected = softmax_by_hand(SCORES[index, row].tolist(), ALLOWED[index, row].tolist())
            torch.testing.assert_close(weights[index, row], torch.tensor(expected))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_masked_softmax_normalises_the_chosen_axis(dim: int) -> None:
    sums = masked_softmax(SCORES, ALLOWED, dim=dim).sum(dim)
    torch.testing.assert_close(sums, ALLOWED.any(dim).float())


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_allowed_gives_zero_and_zero_gradient(dtype: torch.dtype) -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, -4.0]], dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, False], [True, False]]))
    assert weights.dtype == dtype
    assert weights.tolist() == [[0, 0], [1, 0]]
    (weights * torch.tensor([[3.0, 5.0], [7.0, 9.0]], dtype=dtype)).sum().backward()
    assert scores.grad is not None
    assert not scores.grad.any()


def test_masked_softmax_gradient() -> None:
    scores = SCORES[0].double().requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: masked_softmax(scores, ALLOWED[0]), (scores,))


@pytest.mark.parametrize("garbage", [math.inf, -math.inf, 1e30])
def test_forbidden_scores_have_no_influence(garbage: float) -> None:
    expected = masked_softmax(SCORES, ALLOWED)
    torch.testing.assert_close(masked_softmax(SCORES.masked_fill(~ALLOWED, garbage), ALLOWED), expected)


@pytest.mark.parametrize(
    ("pool", "by_hand"), [(masked_mean, lambda rows: rows.mean(0)), (masked_max, lambda rows: rows.amax(0))]
)
@pytest.mark.parametrize("garbage", [0.0, 1e30, math.inf])
def test_pooling_takes_real_states_only(pool, by_hand, garbage: float) -> None:  # type: ignore[no-untyped-def]
    mask = ALLOWED[:, :, 0].clone()
    mask[2] = False
    states = SCORES.masked_fill(~mask.unsqueeze(-1), garbage).requires_grad_()
    pooled = pool(states, mask)
    for index in range(3):
        expected = by_hand(SCORES[index][mask[index]]) if mask[index].any() else torch.zeros(5)
        torch.testing.assert_close(pooled[index], expected)
    pooled.sum().backward()
    gradient: Tensor | None = states.grad
    assert gradient is not None
    assert not gradient[~mask].any()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("value", [100.0, -60000.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pooled", [masked_mean, masked_max])
def test_pooling_many_equal_states_gives_one_of_them(
    pooled: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype, value: float
) -> None:
    states = torch.full((1, 2001, 1), value, dtype=dtype)
    found = pooled(states, torch.arange(2001)[None] < 2000)
    assert found.dtype == dtype
    assert found.item() == states[0, 0].item()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pooled", [masked_mean, masked_max])
def test_pooling_no_states_gives_zero(pooled: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype) -> None:
    states = torch.ones(2, 0, 3, dtype=dtype, requires_grad=True)
    found = pooled(states, torch.ones(2, 0, dtype=torch.bool))
    assert (found.dtype, found.tolist()) == (dtype, [[0.0] * 3] * 2)
    found.sum().backward()


@pytest.mark.parametrize("inside", [1, 2])
def test_blocks_of_one_thread_may_overlap_in_several_threads(inside: int) -> None:
    """One after the other enters, and the first of them leaves first."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        seen: list[int] = []
        entered, left = ([threading.Event() for _ in range(2)] for _ in range(2))

        def enter(number: int) -> None:
            if number:
                entered[0].wait(9)
            with contextlib.ExitStack() as stack:
                for _ in range(inside):
                    stack.enter_context(one_thread())
                entered[number].set()
                (left[0] if number else entered[1]).wait(9)
                seen.append(torch.get_num_threads())
            seen.append(torch.get_num_threads())
            left[number].set()

        threads = [threading.Thread(target=enter, args=(number,)) for number in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        with ThreadPoolExecutor(1) as new:
            seen.append(new.submit(torch.get_num_threads).result())
        assert seen == [1, 3, 1, 3, 3]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_additive_mask_is_the_softmax_of_what_is_allowed(dtype: torch.dtype) -> None:
    mask = additive_mask(ALLOWED, -SCORES.abs(), dtype)
    assert mask is not None
    assert mask.dtype == dtype
    forbidden = mask[~ALLOWED]
    assert (forbidden == very_negative(dtype)).all()
    assert (forbidden - 1000).isfinite().all(), "adding an ordinary score must not overflow"
    only_mask = additive_mask(ALLOWED, None, dtype)
    assert only_mask is not None
    assert not only_mask[ALLOWED].any()


def test_additive_mask_without_parts() -> None:
    assert additive_mask(None, None, torch.float32) is None
    bias = additive_mask(None, SCORES, torch.float64)
    assert bias is not None
    torch.testing.assert_close(bias, SCORES.double())


@pytest.mark.parametrize("rest", [(), (3,), (2, 3)])
@pytest.mark.parametrize("places", [(0,), (5,), (2, 4)])
def test_rows_and_their_gradient_are_those_of_indexing(rest: tuple[int, ...], places: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(4, *rest, generator=generator, dtype=torch.float64, requires_grad=True)
    index = torch.randint(4, places, generator=generator)
    taken, indexed = take_rows(table, index), table[index]
    assert torch.equal(taken, indexed)
    weights = torch.randn(taken.shape, generator=generator, dtype=torch.float64)
    by_rows, by_index = (torch.autograd.grad((one * weights).sum(), table)[0] for one in (taken, indexed))
    torch.testing.assert_close(by_rows, by_index)


def test_rows_out_of_range_are_refused() -> None:
    with pytest.raises(IndexError):
        take_rows(torch.ones(2, 3), torch.tensor([2]))


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("pooled", [masked_mean, masked_max])
def test_any_number_of_batch_axes(pooled: Callable[[Tensor, Tensor], Tensor], batch: tuple[int, ...]) -> None:
    states, mask = torch.randn(*batch, 4, 5, generator=GENERATOR), torch.rand(*batch, 4, generator=GENERATOR) < 0.3
    found = pooled(states, mask)
    for index in np.ndindex(batch):
        torch.testing.assert_close(found[index], pooled(states[index], mask[index]))
        by_hand = torch.zeros(5)
        if mask[index].any():
            real = states[index][mask[index]]
            by_hand = real.mean(0) if pooled is masked_mean else real.amax(0)
        torch.testing.assert_close(found[index], by_hand)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("places", [(), (1,), (0,), (17,), (3, 11), (2, 0), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_maps_with_and_without_gradients(places: tuple[int, ...], bias: bool, dtype: torch.dtype) -> None:
    states = torch.randn(*places, 7, generator=GENERATOR, dtype=dtype)
    weight = torch.randn(5, 7, generator=GENERATOR, dtype=dtype).requires_grad_()
    own = torch.randn(5, generator=GENERATOR, dtype=dtype) if bias else None
    expected = torch.einsum("...i,oi->...o", states, weight) + (0.0 if own is None else own)
    torch.testing.assert_close(linear(states, weight, own), expected)
    assert linear(states, weight, own).requires_grad
    with torch.no_grad():
        torch.testing.assert_close(linear(states, weight, own), expected.detach())
        in_16_bits = linear(states.bfloat16(), weight.bfloat16(), None if own is None else own.bfloat16())
        torch.testing.assert_close(in_16_bits.to(dtype), expected.detach(), rtol=0.03, atol=0.03)


def test_linear_maps_without_gradients_take_transposed_and_sliced_states() -> None:
    states, weight = torch.randn(4, 6, 3, generator=GENERATOR), torch.randn(3, 8, generator=GENERATOR)
    with torch.no_grad():
        torch.testing.assert_close(linear(states[:, 1:], weight.T), states[:, 1:] @ weight)
        torch.testing.assert_close(linear(states.transpose(0, 1), weight.T), states.transpose(0, 1) @ weight)


@pytest.mark.parametrize("digits", [1, 2, 3, 5])
def test_round_numbers_are_the_nearest_of_few_digits(digits: int) -> None:
    some = {number << zeros for number in range(1 << digits) for zeros in range(11)}
    for size in range(1, 700):
        assert round_up(size, digits) == min(number for number in some if number >= size)
        assert round_down(size, digits) == max(number for number in some if number <= size)
    assert round_up(0, digits) == round_down(0, digits) == 0


def test_linear_maps_without_gradients_see_few_numbers_of_rows() -> None:
    seen = set()

    class Products(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is F.linear:
                seen.add(len(args[0]))
            return function(*args, **(kwargs or {}))

    with torch.no_grad(), Products():
        for size in range(1, 65):
            linear(torch.ones(size, 2, dtype=torch.bfloat16), torch.ones(1, 2, dtype=torch.bfloat16))
    assert seen == {*range(1, 17), *range(18, 33, 2), *range(36, 65, 4)}
