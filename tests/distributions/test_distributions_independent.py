"""Independent choices and selections against the list of everything that may be chosen."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from structattn.distributions import IndependentChoice, IndependentSelection

Distribution = IndependentChoice | IndependentSelection
ALLOWED = torch.tensor([[True, True, True, True], [False, True, False, True], [True, False, False, False], [False] * 4])
SCORES = 2 * torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def choices(allowed: list[bool]) -> list[tuple[int, ...]]:
    """One key, or none if there is none to choose."""
    keys = [key for key, may in enumerate(allowed) if may]
    return [tuple(int(key == chosen) for key in range(len(allowed))) for chosen in keys] or [(0,) * len(allowed)]


def selections(allowed: list[bool]) -> list[tuple[int, ...]]:
    return list(itertools.product(*((0, 1) if may else (0,) for may in allowed)))


KINDS = [(IndependentChoice, choices), (IndependentSelection, selections)]
every_kind = pytest.mark.parametrize(("kind", "listed"), KINDS, ids=["choice", "selection"])
Listed = Callable[[list[bool]], list[tuple[int, ...]]]


def by_hand(scores: Tensor, allowed: Tensor, listed: Listed) -> tuple[Tensor, Tensor]:
    """All outcomes, and the probability of each."""
    outcomes = torch.tensor(listed(allowed.tolist()), dtype=torch.float64)
    return outcomes, (outcomes @ scores).softmax(0)


@every_kind
def test_marginals_entropy_and_the_best_agree_with_the_list(kind: type[Distribution], listed: Listed) -> None:
    ours = kind(SCORES, ALLOWED)
    marginals, entropy, best = ours.marginals(), ours.entropy(), ours.argmax()
    for row in range(len(SCORES)):
        outcomes, shares = by_hand(SCORES[row], ALLOWED[row], listed)
        torch.testing.assert_close(marginals[row], shares @ outcomes)
        torch.testing.assert_close(entropy[row], -(shares * shares.log()).sum())
        assert torch.equal(best[row], outcomes[shares.argmax()])


@every_kind
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_huge_scores_leave_numbers(kind: type[Distribution], listed: Listed, scale: float) -> None:
    ours = kind((scale * SCORES).float().requires_grad_(), ALLOWED)
    total = ours.entropy().sum() + ours.marginals().sum()
    (gradient,) = torch.autograd.grad(total, ours.scores)
    assert total.isfinite()
    assert gradient.isfinite().all()
    assert not gradient[~ALLOWED].any()


@every_kind
def test_samples_have_their_probabilities(kind: type[Distribution], listed: Listed) -> None:
    drawn = kind(SCORES, ALLOWED).sample((2, 2000), torch.Generator().manual_seed(0))
    again = kind(SCORES, ALLOWED).sample((2, 2000), torch.Generator().manual_seed(0))
    assert drawn.shape == (2, 2000, 4, 4)
    assert torch.equal(drawn, again)
    for row in range(len(SCORES)):
        outcomes, shares = by_hand(SCORES[row], ALLOWED[row], listed)
        same = (drawn[..., row, :].reshape(-1, 1, 4) == outcomes).all(-1)
        assert same.any(-1).all()
        # Four standard deviations of a frequency.
        bound = 4 * math.sqrt(0.25 / 4000)
        torch.testing.assert_close(same.double().mean(0), shares, atol=bound, rtol=0)


@every_kind
@pytest.mark.parametrize("batches", [((), (4,)), ((4,), ()), ((1,), (4,)), ((3, 1), (4,))], ids=str)
def test_scores_and_allowed_keys_broadcast_both_ways(
    kind: type[Distribution], listed: Listed, batches: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    scores, allowed = SCORES[0].expand(*batches[0], 4), ALLOWED[1].expand(*batches[1], 4)
    shape = torch.broadcast_shapes(scores.shape, allowed.shape)
    narrow, wide = kind(scores, allowed), kind(scores.expand(shape), allowed.expand(shape))
    for name in ("marginals", "argmax", "entropy"):
        assert torch.equal(getattr(narrow, name)(), getattr(wide, name)())
    first, second = (rows.sample(50, torch.Generator().manual_seed(0)) for rows in (narrow, wide))
    assert first.shape == (50, *shape)
    assert torch.equal(first, second)
