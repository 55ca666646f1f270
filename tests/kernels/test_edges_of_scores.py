"""Scores of minus infinity, half precision, and nested derivatives of the compiled kernels."""

import math

import pytest
import torch
from torch.func import grad, jvp

from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    IndependentChoice,
    IndependentSelection,
    LinearChainCRF,
    SemiMarkovCRF,
)
from structattn.functional import attention


@pytest.mark.parametrize("kind", [DependencyCRF, LinearChainCRF])
def test_reverse_over_forward_is_forward_over_reverse(kind: type) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (2, 3) if kind is DependencyCRF else (3, 2)
    scores, weights, along = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3))

    def crf(x: torch.Tensor) -> torch.Tensor:
        marginals = kind(x).marginals() if kind is DependencyCRF else kind(x, torch.zeros(2, 2).double()).marginals()
        first = marginals if isinstance(marginals, torch.Tensor) else marginals[0]
        return (first * weights).sum()

    found = grad(lambda x: jvp(crf, (x,), (along,))[1])(scores)
    torch.testing.assert_close(found, jvp(grad(crf), (scores,), (along,))[1])


def test_lazily_negated_tensors() -> None:
    scores = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(DependencyCRF(torch._neg_view(scores)).marginals(), DependencyCRF(-scores).marginals())


def test_structures_in_integers_under_another_default_type() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        spans = ConstituencyCRF(torch.zeros(4, 4)).log_prob(torch.tensor([[0, 3], [0, 1], [1, 3], [1, 2], [2, 3]]))
        segments = SemiMarkovCRF(torch.zeros(3, 2, 1, 1)).log_prob(torch.tensor([[0, 1, 0], [1, 3, 0]]))
    finally:
        torch.set_default_dtype(before)
    assert (spans.item(), segments.item()) == pytest.approx((-math.log(2), -math.log(3)))


def test_minus_infinity_forbids_a_key() -> None:
    scores = torch.tensor([0.0, -math.inf, 1.0], requires_grad=True)
    every = torch.ones(3, dtype=torch.bool)
    choice, selection = IndependentChoice(scores, every), IndependentSelection(scores, every)
    torch.testing.assert_close(choice.entropy(), torch.distributions.Categorical(logits=scores.detach()).entropy())
    coins = torch.distributions.Bernoulli(logits=scores.detach()[[0, 2]]).entropy().sum()
    torch.testing.assert_close(selection.entropy(), coins)
    (gradient,) = torch.autograd.grad(choice.entropy() + selection.entropy(), scores)
    assert gradient.isfinite().all()
    none = IndependentChoice(torch.full((3,), -math.inf), every)
    assert not torch.cat([none.marginals(), none.argmax(), none.entropy().view(1)]).any()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("allowed", [None, [[True, True], [True, False]]])
def test_a_bias_of_minus_infinity_forbids_a_key(allowed: list[list[bool]] | None, need_weights: bool) -> None:
    states = torch.randn(1, 2, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bias = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0 if allowed else -math.inf]])
    mask = None if allowed is None else torch.tensor(allowed)
    found, _ = attention(states, states, states, mask, bias, need_weights=need_weights)
    torch.testing.assert_close(found[0], torch.stack([states[0, 0], torch.zeros(4)]))
    (gradient,) = torch.autograd.grad(found.sum(), states)
    assert gradient.isfinite().all()


def test_products_of_half_precision_do_not_overflow() -> None:
    states = torch.full((1, 3, 64), 60.0, dtype=torch.float16)
    found, _ = attention(states, states, states, need_weights=True)
    torch.testing.assert_close(found, states)
