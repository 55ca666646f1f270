"""Hard numbers and known faults: huge and forbidden scores, long sentences, small types, and what others got wrong."""

import math
import sys
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal, localcontext

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from structattn.distributions import (
    ConstituencyCRF,
    DependencyCRF,
    LinearChainCRF,
    NonProjectiveDependencyCRF,
    SemiMarkovCRF,
    StructuredDistribution,
)
from structattn.kernels import plain_torch
from structattn.testing import Family
from structures_by_hand import FAMILIES, LABELLED, MAY_BE_EMPTY

every_family = pytest.mark.parametrize("family", [*FAMILIES, *LABELLED], ids=lambda family: family.name)
both_kinds = pytest.mark.parametrize("kind", [DependencyCRF, NonProjectiveDependencyCRF])


def values_and_gradients(ours: StructuredDistribution, potentials: list[Tensor]) -> list[Tensor]:
    """Every value that a user may differentiate, and its gradient."""
    found = []
    for function in (ours.log_partition, ours.marginals, ours.entropy):
        value = function()
        found.append(value)
        weights = torch.linspace(-1, 1, max(value.numel(), 1)).to(value.dtype)[: value.numel()].view_as(value)
        found += torch.autograd.grad((value * weights).nansum(), potentials, retain_graph=True, allow_unused=True)
    return [tensor for tensor in found if tensor is not None]


@every_family
@pytest.mark.parametrize("magnitude", [1e4, 1e10, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_scores_stay_probabilities(family: Family, magnitude: float, dtype: torch.dtype) -> None:
    n = 6
    for seed in range(3):
        potentials = [(p.sign() * magnitude).to(dtype) for p in family.random_scores(n, seed=seed)]
        potentials = [
            p.where(torch.rand(p.shape, generator=torch.Generator().manual_seed(seed)) < 0.5, 0) for p in potentials
        ]
        potentials = [p.requires_grad_() for p in potentials]
        ours = family.build(*potentials)
        marginals = ours.marginals()
        assert ((marginals >= 0) & (marginals <= 1)).all()
        if marginals.shape[-2:] == (n, n + 1) or marginals.shape[-2:] == (n, 3):
            torch.testing.assert_close(marginals.sum(-1), torch.ones(n, dtype=dtype))
        for parts in (ours.argmax(), ours.sample()):
            assert is_refused(ours.log_prob, parts) or ours.log_prob(parts).isfinite()
        if not is_refused(ours.entropy):
            for tensor in values_and_gradients(ours, potentials):
                assert torch.isfinite(tensor).all()
            assert -1e-6 <= ours.entropy() <= ours.log_count() + 1e-5


def is_refused(question: Callable[..., Tensor], *arguments: Tensor) -> bool:
    """Whether digits are lost, with the advice to forbid parts by minus infinity."""
    try:
        question(*arguments)
    except ValueError as error:
        return "expected -inf to forbid a part" in str(error)
    return False


def exact_entropy(family: Family, potentials: list[Tensor], n: int) -> Decimal:
    """The entropy of the list of all structures, to fifty digits."""
    with localcontext() as context:
        context.prec = 50
        scores = [Decimal(score) for score in torch.cat([own.flatten() for own in potentials]).tolist()]
        values = [
            sum((score * Decimal(used) for score, used in zip(scores, row, strict=True)), Decimal(0))
            for row in family.enumerate(potentials, n, n).used.tolist()
        ]
        best = max(values)
        weights = [(value - best).exp() for value in values]
        total = sum(weights)
        return sum(
            weight / total * (total.ln() - (value - best)) for weight, value in zip(weights, values, strict=True)
        )


@every_family
@pytest.mark.parametrize("path", ["compiled", "plain torch"])
@pytest.mark.parametrize("spread", [1, 5, 10, 20, 40, 100, 300])
def test_small_entropies_are_exact(family: Family, spread: float, path: str) -> None:
    for seed in range(4):
        potentials = family.random_scores(4, seed=seed, spread=spread)
        with plain_torch() if path == "plain torch" else nullcontext():
            found = family.build(*potentials).entropy().item()
        exact = exact_entropy(family, potentials, 4)
        assert found >= 0
        # What is lost are digits of the scores, and of a small entropy its factor stays at least.
        assert abs(Decimal(found) - exact) <= Decimal(5e-15 * spread)
        # Compiled, marginals of all trees are differences. An alignment may lose a probable match without an improbable
        # one in its place, and probabilities near one are rounded.
        if ("spanning" not in family.name or path == "plain torch") and "alignment" not in family.name:
            assert exact / 4 <= Decimal(found) <= 4 * exact or (found == 0 and exact < Decimal(sys.float_info.min))


@every_family
def test_rounding_leaves_no_entropy_and_no_divergence_below_zero(family: Family) -> None:
    potentials = family.random_scores(6, 200, seed=3, spread=15.0)
    ours = family.build(*potentials)
    assert (ours.entropy() >= 0).all()
    same = family.build(*(own.clone() for own in potentials))
    assert (kl_divergence(ours, same) >= 0).all()
    torch.testing.assert_close(kl_divergence(ours, same), torch.zeros(200).double(), atol=1e-12, rtol=0)
    assert (ours.log_prob(ours.argmax()) <= 0).all()
    # The second derivative of the divergence is Fisher's information, not zero, although the value is.
    leaves = [own.clone().requires_grad_() for own in family.random_scores(3, seed=3)]
    divergence = kl_divergence(family.build(*family.random_scores(3, seed=3)), family.build(*leaves))
    (slope,) = torch.autograd.grad(divergence, leaves[:1], create_graph=True)
    torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-12, rtol=0)
    (curvature,) = torch.autograd.grad(slope.flatten()[0], leaves[0])
    variance = family.build(*leaves).variance.flatten()[0]
    torch.testing.assert_close(curvature.flatten()[0], variance.detach())


@both_kinds
def test_a_large_constant_in_a_row_changes_nothing(kind: type[StructuredDistribution]) -> None:
    scores = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shift = torch.tensor([[1e4], [-1e4], [0.0], [2e3]], dtype=torch.float64)
    plain, shifted = kind(scores), kind(scores + shift)
    torch.testing.assert_close(plain.marginals(), shifted.marginals(), atol=1e-11, rtol=0)
    torch.testing.assert_close(plain.entropy(), shifted.entropy(), atol=1e-10, rtol=0)
    torch.testing.assert_close(plain.log_partition() + shift.sum(), shifted.log_partition(), atol=1e-10, rtol=0)


@every_family
def test_a_sentence_without_structures_has_zeros(family: Family) -> None:
    potentials = family.random_scores(4, 2, seed=1)
    potentials[0][0] = -torch.inf
    potentials = [p.requires_grad_() for p in potentials]
    ours = family.build(*potentials)
    none = 0.0 if family.name in MAY_BE_EMPTY else -torch.inf  # then no parts are the only structure
    assert ours.log_partition()[0] == none
    assert torch.isfinite(ours.log_partition()[1])
    assert (ours.marginals()[0] == 0).all()
    assert ours.entropy()[0] == 0
    assert (ours.sample((3,))[:, 0] == 0).all()
    assert (ours.topk(2)[:, 0] == 0).all()
    assert ours.topk_scores(2)[:, 0].tolist() == [none, -torch.inf]
    assert ours.log_count()[0] == none
    (ours.marginals().square().sum() + ours.entropy().sum() + ours.log_partition()[1]).backward()
    for p in potentials:
        assert p.grad is not None
        assert torch.isfinite(p.grad).all()
    assert potentials[0].grad is not None
    assert (potentials[0].grad[0] == 0).all()


@every_family
def test_forbidden_parts_have_no_probability_and_no_gradient(family: Family) -> None:
    potentials = [p.requires_grad_() for p in family.random_scores(5, 20, seed=2, forbidden=0.3)]
    ours = family.build(*potentials)
    for tensor in values_and_gradients(ours, potentials)[1:]:
        assert not torch.isnan(tensor).any()
    for function in (ours.marginals, ours.entropy):
        gradients = torch.autograd.grad(function().sum(), potentials, allow_unused=True)
        for p, gradient in zip(potentials, gradients, strict=True):
            assert gradient is None or (gradient[p == -torch.inf] == 0).all()
    shown = ours.marginals().reshape(potentials[0].shape)
    assert (shown[potentials[0] == -torch.inf] == 0).all()


@pytest.mark.parametrize(("n", "spread"), [(80, 20.0), (40, 50.0)])
@pytest.mark.parametrize("single_root", [False, True])
@both_kinds
def test_no_underflow_at_any_spread(
    kind: type[StructuredDistribution], single_root: bool, n: int, spread: float
) -> None:
    scores = spread * torch.randn(2, n, n + 1, generator=torch.Generator().manual_seed(n))
    scores = scores.requires_grad_()
    ours = kind(scores, torch.tensor([n, n - 7]), single_root=single_root)
    best = ours.topk_scores(1)[0]
    assert (ours.log_partition() >= best - 1e-3).all()
    assert (ours.log_partition() <= best + n * math.log(n + 1)).all()
    marginals = ours.marginals()
    torch.testing.assert_close(marginals.sum(-1)[0], torch.ones(n), atol=1e-5, rtol=0)
    if single_root:
        torch.testing.assert_close(marginals[..., 0].sum(-1), torch.ones(2), atol=1e-5, rtol=0)
    marginals.square().sum().backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


@both_kinds
def test_a_weak_root_costs_no_digits(kind: type[StructuredDistribution]) -> None:
    # A Laplacian in floating point is singular here: the root weighs e^-900 beside the words.
    scores = torch.zeros(3, 4, dtype=torch.float64)
    scores[:, 0] = -900
    weak, plain = kind(scores, single_root=True), kind(torch.zeros(3, 4, dtype=torch.float64), single_root=True)
    torch.testing.assert_close(weak.log_partition(), plain.log_partition() - 900)
    torch.testing.assert_close(weak.marginals(), plain.marginals())
    torch.testing.assert_close(kind(scores).marginals(), plain.marginals())


def test_long_sentences() -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        chain = LinearChainCRF(30 * torch.randn(400, 3, generator=generator), torch.randn(3, 3, generator=generator))
        torch.testing.assert_close(chain.marginals().sum(-1), torch.ones(400), atol=1e-5, rtol=0)
        phrases = ConstituencyCRF(20 * torch.randn(121, 121, generator=generator))
        torch.testing.assert_close(phrases.marginals().sum(), torch.tensor(239.0), atol=1e-3, rtol=0)
        trees = DependencyCRF(20 * torch.randn(120, 121, generator=generator))
        torch.testing.assert_close(trees.marginals().sum(-1), torch.ones(120), atol=1e-5, rtol=0)
        segments = SemiMarkovCRF(20 * torch.randn(400, 4, 2, 2, generator=generator))
        covered = (segments.marginals().sum((-1, -2)) * torch.arange(1.0, 5)).sum()
        torch.testing.assert_close(covered, torch.tensor(400.0), atol=1e-3, rtol=0)


def test_sentences_of_four_hundred_words() -> None:
    scores = 20 * torch.randn(400, 401, generator=torch.Generator().manual_seed(0))
    for kind in (DependencyCRF, NonProjectiveDependencyCRF):
        marginals = kind(scores, single_root=True).marginals()
        torch.testing.assert_close(marginals.sum(-1), torch.ones(400), atol=1e-5, rtol=0)


def test_a_batch_of_ten_thousand_short_sentences() -> None:
    lengths = torch.arange(10_000) % 5
    ours = DependencyCRF(torch.zeros(1, 1, 1).expand(10_000, 4, 5), lengths)
    counts = torch.tensor([1.0, 1.0, 3.0, 12.0, 55.0]).log()
    torch.testing.assert_close(ours.log_partition(), counts[lengths])


@every_family
def test_small_types_are_computed_exactly_and_given_back(family: Family) -> None:
    exact = family.random_scores(5, seed=3)
    for dtype, tolerance in ((torch.float32, 2e-7), (torch.bfloat16, 4e-3)):
        small = [p.to(dtype).requires_grad_() for p in exact]
        ours, reference = family.build(*small), family.build(*(p.detach().double() for p in small))
        assert ours.marginals().dtype == ours.log_partition().dtype == ours.sample().dtype == dtype
        difference = (ours.marginals().double() - reference.marginals()).abs().max()
        assert difference <= tolerance
        torch.testing.assert_close(ours.entropy().double(), reference.entropy(), atol=0, rtol=tolerance)
        ours.marginals().square().sum().backward()
        assert small[0].grad is not None
        assert small[0].grad.dtype == dtype


@every_family
def test_the_callers_tensors_are_not_touched_and_no_grad_keeps_no_graph(family: Family) -> None:
    potentials = family.random_scores(4, seed=4, forbidden=0.1)
    before = [p.clone() for p in potentials]
    ours = family.build(*potentials)
    marginals = ours.marginals()
    for result in (marginals, ours.argmax(), ours.sample(), ours.entropy(), ours.log_count(), ours.topk(3)):
        assert not result.requires_grad
    for p, copy in zip(potentials, before, strict=True):
        assert torch.equal(p, copy)
        assert not p.requires_grad
    learnt = [p.clone().requires_grad_() for p in potentials]
    with torch.no_grad():
        frozen = family.build(*learnt)
        assert not frozen.marginals().requires_grad
        torch.testing.assert_close(frozen.marginals(), marginals)
    assert not family.build(*learnt).sample().requires_grad
    assert not family.build(*learnt).argmax().requires_grad


@every_family
def test_distributions_share_no_state_and_need_no_full_length(family: Family) -> None:
    first, second = (family.build(*family.random_scores(4, seed=seed)) for seed in (5, 6))
    alone = first.marginals()
    second.marginals()
    first.expand((3,)).entropy()
    torch.testing.assert_close(first.marginals(), alone, atol=0, rtol=0)
    potentials = family.random_scores(6, 2, seed=7)
    short = family.build(*potentials, torch.tensor([3, 2]))
    assert torch.isfinite(short.log_partition()).all()


@both_kinds
def test_both_neighbours_forbidden_is_no_nan(kind: type[StructuredDistribution]) -> None:
    scores = torch.zeros(3, 4)
    scores[0, 2] = scores[1, 1] = -torch.inf
    scores.requires_grad_()
    ours = kind(scores)
    assert torch.isfinite(ours.entropy())
    ours.marginals().square().sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert ours.argmax().sum() == 3


def test_projective_trees_are_some_of_all_trees() -> None:
    scores = torch.randn(20, 7, 8, generator=torch.Generator().manual_seed(8))
    for single_root in (False, True):
        some = DependencyCRF(scores, single_root=single_root).log_partition()
        everything = NonProjectiveDependencyCRF(scores, single_root=single_root).log_partition()
        assert (some <= everything).all()


def test_ties_are_broken_in_the_same_way_each_time() -> None:
    trees = NonProjectiveDependencyCRF(torch.zeros(4, 5))
    assert trees.to_structure(trees.argmax()).tolist() == [0, 0, 0, 0]
    chain = LinearChainCRF(torch.zeros(4, 3), torch.zeros(3, 3))
    assert chain.to_structure(chain.argmax()).tolist() == [0, 0, 0, 0]
    projective = DependencyCRF(torch.zeros(4, 5))
    assert torch.equal(projective.argmax(), DependencyCRF(torch.zeros(4, 5)).argmax())


@every_family
def test_nothing_overflows_but_what_a_type_cannot_hold(family: Family) -> None:
    """Up to the magnitudes that docs/algorithms.md names, under "Limits"."""
    shares = [own.abs().clamp(min=1, max=3) / 3 for own in family.random_scores(4, 2, seed=3)]
    single = [(own * 3e38).float() for own in shares]
    ours, exact = family.build(*single), family.build(*(own.double() for own in single))
    assert (ours.log_partition() == torch.inf).all()
    torch.testing.assert_close(ours.marginals().double(), exact.marginals())
    assert is_refused(ours.entropy) == is_refused(exact.entropy)
    assert torch.equal(ours.argmax().double(), exact.argmax())
    for sign in (1.0, -1.0):
        huge, large = (family.build(*(own * sign * 2.0**power for own in shares)) for power in (1011, 100))
        torch.testing.assert_close(huge.log_partition(), huge.topk_scores(1)[0])
        torch.testing.assert_close(huge.marginals(), large.marginals())
        assert is_refused(huge.entropy) == is_refused(large.entropy)
        if not is_refused(huge.entropy):
            torch.testing.assert_close(huge.entropy(), large.entropy())
