"""The window of a decoder that moves along its source: hand-made positions, laws, and what it may not read."""

import math

import pytest
import torch

from structattn.layers import WindowAttention


def window_with(shares: list[float], precision: float) -> WindowAttention:
    """One whose steps and width are the same for all queries."""
    window = WindowAttention(4, longest_step=len(shares) - 1)
    with torch.no_grad():
        window.steps.weight.zero_()
        window.precision.weight.zero_()
        window.steps.bias.copy_(torch.tensor(shares).log())
        window.precision.bias.fill_(math.log(math.expm1(precision)))
    return window


@pytest.mark.parametrize(
    ("shares", "positions"),
    [
        ([1.0, 1e-30, 1e-30], [0.0, 0.0, 0.0]),
        ([1e-30, 1.0, 1e-30], [1.0, 2.0, 3.0]),
        ([1e-30, 1e-30, 1.0], [2.0, 4.0, 6.0]),
        ([0.5, 0.25, 0.25], [0.75, 1.5, 2.25]),
    ],
)
def test_positions_are_sums_of_expected_steps(shares: list[float], positions: list[float]) -> None:
    window, queries = window_with(shares, 1.0), torch.randn(2, 3, 4)
    assert torch.allclose(window.positions(queries), torch.tensor([positions] * 2))
    start = torch.tensor([10.0, -1.0])
    assert torch.allclose(window.positions(queries, start), start[:, None] + torch.tensor(positions))


def test_weights_are_a_softmax_of_squared_distances() -> None:
    window, mask = window_with([0.5, 0.25, 0.25], 0.7), torch.tensor([[True, True, True, False]])
    states = torch.randn(1, 4, 5)
    context, weights = window(states, mask, queries=torch.randn(1, 2, 4))
    for query, centre in enumerate((0.75, 1.5)):
        expected = [math.exp(-0.7 * (centre - word) ** 2) for word in range(3)]
        expected = [value / sum(expected) for value in expected] + [0.0]
        assert weights[0, 0, query].tolist() == pytest.approx(expected, abs=1e-6)
        assert torch.allclose(context[0, query], torch.tensor(expected) @ states[0], atol=1e-6)


def test_whole_steps_read_one_word_after_the_other() -> None:
    window, states = window_with([1e-30, 1.0], 60.0), torch.randn(1, 200, 5, dtype=torch.bfloat16)
    window = window.to(torch.bfloat16)
    queries = torch.randn(1, 199, 4, dtype=torch.bfloat16)
    context, _ = window(states, torch.ones(1, 200, dtype=torch.bool), queries=queries)
    # In 16 bits positions above 256 would no longer be whole numbers, and sums of shares not at all.
    assert torch.equal(context, states[:, 1:])


def test_without_a_word_there_is_nothing_and_no_gradient() -> None:
    window, queries = WindowAttention(4), torch.randn(2, 3, 4, requires_grad=True)
    states = torch.randn(2, 5, 6, requires_grad=True)
    mask = torch.tensor([[True] * 5, [False] * 5])
    context, weights = window(states, mask, queries=queries)
    assert not context[1].any()
    assert not weights[1].any()
    found = torch.autograd.grad(context.square().sum(), [states, queries])
    assert all(bool(one.isfinite().all()) and not one[1].any() for one in found)
    assert found[1][0].any()


def test_a_centre_beyond_the_last_word_reads_the_last_word() -> None:
    window, states = window_with([1e-30, 1.0], 5.0), torch.randn(1, 3, 6)
    positions = torch.tensor([[40.0, 1e4]])
    context, _ = window(states, torch.ones(1, 3, dtype=torch.bool), queries=torch.randn(1, 2, 4), positions=positions)
    assert torch.allclose(context, states[:, 2:].expand(-1, 2, -1))


def test_gradients_are_those_of_differences() -> None:
    window = WindowAttention(3).double()
    states, queries = (torch.randn(2, 4, width, dtype=torch.float64, requires_grad=True) for width in (5, 3))
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    assert torch.autograd.gradcheck(lambda one, other: window(one, mask, queries=other), (states, queries))


def test_a_step_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="longest step of at least 1, got 0"):
        WindowAttention(4, longest_step=0)
