"""Masks of large finite scores: where marginals are right, so is everything else, or it is refused."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from structattn.distributions import ConstituencyCRF, DependencyCRF, NonProjectiveDependencyCRF
from structattn.testing import Family
from structures_by_hand import FAMILIES, LABELLED

MAGNITUDES = [1e0, 1e4, 1e8, 1e15, 1e20, 1e38]
WORDS = 3


class Listed(NamedTuple):
    """What the list of all structures says, computed with 700 digits."""

    used: Tensor
    log_probs: Tensor
    log_partition: float

    @property
    def shares(self) -> Tensor:
        """The probability of each structure."""
        return self.log_probs.exp()

    def entropy(self) -> tuple[Tensor, Tensor]:
        """The entropy, and its gradient: minus the covariance of log-probability and parts."""
        surprisal = torch.where(self.shares > 0, -self.log_probs, 0)
        value = (self.shares * surprisal).sum()
        return value, (self.shares * (surprisal - value)) @ self.used

    def divergence(self, listed: "Listed") -> Tensor:
        """The divergence of this from another distribution."""
        return torch.where(self.shares > 0, self.shares * (self.log_probs - listed.log_probs), 0).sum()


def list_exactly(family: Family, potentials: list[Tensor]) -> Listed | None:
    """All structures; None if none is allowed."""
    used = family.enumerate([array.double() for array in potentials], WORDS, WORDS).used
    scores = torch.cat([array.double().flatten() for array in potentials]).tolist()
    with localcontext() as context:
        context.prec = 700
        values = [
            sum((Decimal(score) * int(part) for score, part in zip(scores, row, strict=True) if part), Decimal(0))
            for row in used.tolist()
        ]
        best = max(values)
        if best == -math.inf:
            return None
        gaps = torch.tensor([float(max(value - best, Decimal("-1e308"))) for value in values], dtype=torch.float64)
        gaps[[value == -math.inf for value in values]] = -math.inf
        log_sum = gaps.logsumexp(0)
        return Listed(used, gaps - log_sum, float(best + Decimal(log_sum.item())))


def large_scores(family: Family, mask: float, dtype: torch.dtype, seed: int) -> Iterator[list[Tensor]]:
    """Scores among which parts, parts besides forbidden ones, rows or all are masked by one finite number."""
    generator = torch.Generator().manual_seed(seed)
    potentials = [array.to(dtype) for array in family.random_scores(WORDS, seed=seed)]

    def choose(array: Tensor, share: float, *, rows: bool = False) -> Tensor:
        shape = (array.shape[0], *(1 for _ in array.shape[1:])) if rows else array.shape
        return torch.rand(shape, generator=generator) < share

    yield [array.masked_fill(choose(array, 0.3), mask) for array in potentials]
    yield [
        array.masked_fill(choose(array, 0.3), mask).masked_fill(choose(array, 0.1), -math.inf) for array in potentials
    ]
    yield [array.masked_fill(choose(array, 0.5, rows=True), mask) for array in potentials]
    yield [torch.full_like(array, mask) for array in potentials]


def agree(value: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether numbers agree, also where a type holds them only as infinite."""
    expected = expected.to(value.dtype).double()
    return torch.allclose(value.detach().double(), expected, rtol=tolerance, atol=tolerance)


def unless_refused(question: Callable[[], Any]) -> Any:
    """The answer; None if it is refused with the advice to forbid parts by minus infinity."""
    try:
        return question()
    except ValueError as error:
        if "expected -inf to forbid a part" in str(error):
            return None
        raise


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", [*FAMILIES, *LABELLED], ids=lambda family: family.name)
def test_where_marginals_are_right_everything_is_or_is_refused(family: Family, dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    masks = [sign * size for size in MAGNITUDES for sign in (1, -1)]
    exact_tolerance, tolerance = (3e-6, 3e-5) if dtype is torch.float32 else (1e-8, 1e-5)
    answers = compared = 0
    calm = [array.to(dtype) for array in family.random_scores(WORDS, seed=99)]
    listed_calm = list_exactly(family, calm)
    assert listed_calm is not None
    for mask in [*masks, limits.min, limits.max]:
        for potentials in large_scores(family, mask, dtype, seed=1):
            listed = list_exactly(family, potentials)
            leaves = [array.clone().requires_grad_() for array in potentials]
            ours = family.build(*leaves)
            marginals = ours.marginals()
            if listed is None or not agree(
                marginals.flatten(), (listed.shares @ listed.used)[: marginals.numel()], exact_tolerance
            ):
                continue
            compared += 1

            def gradient(value: Tensor, leaves: list[Tensor] = leaves) -> Tensor:
                slopes = torch.autograd.grad(value, leaves, allow_unused=True)
                filled = [
                    torch.zeros_like(leaf) if slope is None else slope
                    for leaf, slope in zip(leaves, slopes, strict=True)
                ]
                return torch.cat([slope.flatten() for slope in filled])

            assert agree(ours.log_partition(), torch.tensor(listed.log_partition, dtype=torch.float64), tolerance)
            entropy = unless_refused(ours.entropy)
            if entropy is not None:
                value, slope = listed.entropy()
                assert agree(entropy, value, tolerance)
                assert agree(gradient(entropy), slope, tolerance * 10)
                answers += 1
            parts = listed.used[:, : marginals.numel()].reshape(-1, *ours.event_shape)
            log_probs = unless_refused(lambda ours=ours, parts=parts: ours.expand((len(parts),)).log_prob(parts))
            if log_probs is not None:
                best = int(listed.log_probs.argmax())
                usual = listed.log_probs > -1e300
                assert agree(log_probs[usual], listed.log_probs[usual], tolerance)
                assert agree(gradient(log_probs[best]), listed.used[best] - listed.shares @ listed.used, tolerance)
            divergence = unless_refused(lambda ours=ours: kl_divergence(ours, family.build(*calm)))
            assert divergence is None or agree(divergence, listed.divergence(listed_calm), tolerance)
            if abs(mask) < 1e300:
                divergence = unless_refused(lambda ours=ours: kl_divergence(family.build(*calm), ours))
                assert divergence is None or agree(divergence, listed_calm.divergence(listed), tolerance)
    assert compared > 30
    assert answers > compared / 2


@pytest.mark.parametrize("mask", [-1e9, -1e20, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("kind", [DependencyCRF, NonProjectiveDependencyCRF])
def test_masked_rows_of_heads_leave_all_trees_alike(kind: Any, mask: float) -> None:
    scores = torch.zeros(1, 4, 5)
    scores[0, 1:3] = mask
    trees = kind(scores)
    torch.testing.assert_close(trees.entropy(), trees.log_count())
    torch.testing.assert_close(trees.log_prob(trees.argmax()), -trees.log_count())


def test_what_cannot_be_right_is_refused_or_nan() -> None:
    """Every tree has the huge spans of single words, and others vanish beside them."""
    scores = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    calm = ConstituencyCRF(scores.clone())
    scores.diagonal(1).fill_(-1e20)
    trees = ConstituencyCRF(scores)
    for question in (
        trees.entropy,
        lambda: trees.log_prob(trees.argmax()),
        lambda: trees.cross_entropy(calm),
        lambda: kl_divergence(calm, trees),
    ):
        with pytest.raises(ValueError, match=r"ConstituencyCRF: .* expected -inf to forbid a part, or smaller scores"):
            question()
    unchecked = ConstituencyCRF(scores, validate_args=False)
    assert unchecked.entropy().isnan()
    assert unchecked.log_prob(unchecked.argmax()).isnan()
